//! Queries: what SQL asks of more than one table at a time, as a tree of nodes that hand on rows.
//!
//! A row is what the registers hold: a node runs its input and sees each row in the registers that the input
//! sets, so an inner node may use what outer ones have set (a lateral join, a correlated subquery), and
//! expressions are those of procedures.
//!
//! Invariant: when a node has handed on a row, it takes the arena back to where it was before, so a query of
//! any length needs no more of it than its longest row. Whoever keeps values beyond that copies them
//! (`Buffer`).
//!
//! Not here: how SQL becomes a plan (`sql`). Procedures with queries are not analysed: their calls are logged
//! by value.

mod buffer;
mod explain;
mod join;
mod key;
mod run;
mod subquery;
mod write;

pub(crate) use buffer::{Buffer, Slots};
pub use explain::Explained;
pub(crate) use key::write_distinct;
pub(crate) use run::{compare_keys, run_query};

use crate::ForeignKeys;
use crate::{
    Access, Aggregate, Check, CompareClass, CompareOperator, Expression, Path, Procedure, Register, SortKey,
};
use catalog::{Table, TableId, Type};
use std::sync::Arc;

/// What a query keeps while it runs: rows that are found once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotId(pub u32);

/// A column of a query's result.
#[derive(Clone, PartialEq, Debug)]
pub struct OutputColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Which register holds it.
    pub register: Register,
}

/// A query.
#[derive(Clone, Debug)]
pub struct Query {
    /// How its rows are come by.
    pub plan: Plan,
    /// What they are; none of a statement that only writes.
    pub columns: Vec<OutputColumn>,
    /// How many slots the plan names.
    pub slots: u32,
}

/// How rows are joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinKind {
    /// Pairs that match.
    Inner,
    /// And left rows without a match.
    Left,
    /// And rows of either side without a match.
    Full,
}

/// A pair of values that must be equal.
#[derive(Clone, PartialEq, Debug)]
pub struct JoinKey {
    /// How they compare.
    pub class: CompareClass,
    /// Of the row that is looked for.
    pub probe: Expression,
    /// Of the rows that are kept.
    pub build: Expression,
}

/// A function that gives rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableFunction {
    /// Elements of arrays, side by side.
    Unnest,
    /// Integers from one to another: `generate_series`.
    Series,
}

/// What two queries are combined to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combination {
    /// Rows of both.
    Intersect,
    /// Rows of the first that the second has not.
    Except,
}

/// What is asked of a subquery.
#[derive(Clone, PartialEq, Debug)]
pub enum Question {
    /// Its only row, or NULLs.
    Values {
        /// Registers that it sets, and those that are asked for.
        pairs: Vec<(Register, Register)>,
    },
    /// Whether it has a row.
    Exists {
        /// Where the answer goes.
        target: Register,
    },
    /// Whether a value compares so with one of its rows, or with all.
    Quantified {
        /// Where the answer goes.
        target: Register,
        /// The comparison.
        operator: CompareOperator,
        /// How the values compare.
        class: CompareClass,
        /// The value.
        value: Expression,
        /// What it is compared with: of the subquery's row.
        row: Expression,
        /// Whether all must.
        all: bool,
    },
    /// All its values as an array.
    Array {
        /// The register that it sets.
        value: Register,
        /// Where the array goes.
        target: Register,
    },
}

/// A query inside an expression, evaluated ahead of it.
#[derive(Clone, Debug)]
pub struct Subquery {
    /// Its rows.
    pub plan: Plan,
    /// What is asked of them.
    pub question: Question,
    /// Where its rows are kept, when they are the same for every row of the query around it.
    pub kept: Option<SlotId>,
}

/// What an INSERT does with a row that is there already.
#[derive(Clone, Debug)]
pub struct OnConflict {
    /// The unique index that the conflict must be on; any when left out.
    pub index: Option<usize>,
    /// DO UPDATE; nothing is done when left out.
    pub update: Option<ConflictUpdate>,
}

/// ON CONFLICT … DO UPDATE.
#[derive(Clone, Debug)]
pub struct ConflictUpdate {
    /// The first of as many registers as the table has columns: the row that is there.
    pub old: Register,
    /// Which rows are changed.
    pub condition: Option<Expression>,
    /// Column, register of its new value, the value.
    pub assignments: Vec<(usize, Register, Expression)>,
}

/// INSERT.
#[derive(Clone, Debug)]
pub struct Insert {
    /// Gives a row of registers for each row of the table.
    pub input: Box<Plan>,
    /// The table.
    pub table: Arc<Table>,
    /// A value for each column, of its type.
    pub values: Vec<Expression>,
    /// The first of as many registers, which hold the row as it was written.
    pub registers: Register,
    /// Constraints over those registers.
    pub checks: Vec<Check>,
    /// ON CONFLICT.
    pub conflict: Option<OnConflict>,
    /// Foreign keys, where the table is at one end of some.
    pub keys: Option<Arc<ForeignKeys>>,
}

/// UPDATE.
#[derive(Clone, Debug)]
pub struct Update {
    /// Gives the rows.
    pub input: Box<Plan>,
    /// Their table.
    pub table: Arc<Table>,
    /// The register that says which row it is.
    pub handle: Register,
    /// What else the input sets and a later node uses.
    pub keep: Vec<Register>,
    /// Column, and the value that it gets, of its type.
    pub assignments: Vec<(usize, Expression)>,
    /// The first of as many registers as the table has columns: the row as it was written.
    pub registers: Register,
    /// Constraints over those registers.
    pub checks: Vec<Check>,
    /// Foreign keys, where the table is at one end of some.
    pub keys: Option<Arc<ForeignKeys>>,
}

/// DELETE.
#[derive(Clone, Debug)]
pub struct Delete {
    /// Gives the rows.
    pub input: Box<Plan>,
    /// Their table.
    pub table: Arc<Table>,
    /// The register that says which row it is.
    pub handle: Register,
    /// What else the input sets and a later node uses.
    pub keep: Vec<Register>,
    /// Foreign keys, where the table is at one end of some.
    pub keys: Option<Arc<ForeignKeys>>,
}

/// A node: where rows come from.
#[derive(Clone, Debug, Default)]
pub enum Plan {
    /// One row without columns.
    #[default]
    One,
    /// Rows of expressions.
    Values {
        /// The registers of a row.
        registers: Vec<Register>,
        /// Their values.
        rows: Vec<Vec<Expression>>,
    },
    /// Rows of a table.
    Scan {
        /// Which.
        access: Access,
        /// The register that is told which row it is, for the statement that writes it.
        handle: Option<Register>,
    },
    /// Rows of a function.
    Function {
        /// Which.
        function: TableFunction,
        /// Of what.
        arguments: Vec<Expression>,
        /// The registers of a row.
        registers: Vec<Register>,
        /// WITH ORDINALITY.
        ordinality: Option<Register>,
    },
    /// Rows for which a condition is true.
    Filter {
        /// The rows.
        input: Box<Self>,
        /// The condition.
        condition: Expression,
    },
    /// Rows that no other transaction may write until this one ends: FOR UPDATE.
    Hold {
        /// The rows.
        input: Box<Self>,
        /// The tables, each with the register of its row; NULL where an outer join has none.
        handles: Vec<(TableId, Register)>,
        /// Whether it is an error that another transaction has one.
        nowait: bool,
    },
    /// Rows with more values.
    Compute {
        /// The rows.
        input: Box<Self>,
        /// Registers and their values, in this order.
        values: Vec<(Register, Expression)>,
    },
    /// Rows with the answer of a subquery.
    Apply {
        /// The rows.
        input: Box<Self>,
        /// The subquery.
        subquery: Box<Subquery>,
    },
    /// Rows with what a function of the schema returns.
    Call {
        /// The rows.
        input: Box<Self>,
        /// The function.
        procedure: Arc<Procedure>,
        /// A value for each of its parameters.
        arguments: Vec<Expression>,
        /// Where the result goes.
        target: Register,
    },
    /// The rows that a function of the schema returns.
    Rows {
        /// The function.
        procedure: Arc<Procedure>,
        /// A value for each of its parameters.
        arguments: Vec<Expression>,
        /// The registers of a row.
        registers: Vec<Register>,
        /// WITH ORDINALITY.
        ordinality: Option<Register>,
    },
    /// Each row of one node with those of another, which is run anew each time.
    Loop {
        /// The first.
        outer: Box<Self>,
        /// The other one, which may use what the first has set.
        inner: Box<Self>,
        /// `Inner` or `Left`.
        kind: JoinKind,
        /// Which pairs match.
        condition: Option<Expression>,
        /// What the inner one sets: NULL in rows without a match.
        inner_registers: Vec<Register>,
    },
    /// Each row of one node with those of another that have equal keys, which are kept in a hash table.
    Hash {
        /// The first.
        probe: Box<Self>,
        /// The other one.
        build: Box<Self>,
        /// What must be equal.
        keys: Vec<JoinKey>,
        /// How they are joined; left is the probe.
        kind: JoinKind,
        /// Which pairs match beyond that.
        condition: Option<Expression>,
        /// What the probe sets.
        probe_registers: Vec<Register>,
        /// What the other one sets.
        build_registers: Vec<Register>,
    },
    /// One row a group.
    Group {
        /// The rows.
        input: Box<Self>,
        /// What the rows of a group have in common; without any there is one group, of no rows too.
        keys: Vec<(Register, Expression)>,
        /// What is computed of each group.
        aggregates: Vec<Aggregate>,
    },
    /// Rows without those that have the values of an earlier one.
    Distinct {
        /// The rows.
        input: Box<Self>,
        /// What is compared.
        values: Vec<Expression>,
    },
    /// Rows in order.
    Sort {
        /// The rows.
        input: Box<Self>,
        /// The order.
        keys: Vec<SortKey>,
        /// What the input sets and a later node uses.
        registers: Vec<Register>,
        /// At most this many are wanted, this and that together.
        wanted: [Option<Expression>; 2],
    },
    /// Some of the rows.
    Limit {
        /// The rows.
        input: Box<Self>,
        /// How many are left out.
        offset: Option<Expression>,
        /// How many there are then.
        limit: Option<Expression>,
    },
    /// Rows of all inputs, which set the same registers.
    Union {
        /// The inputs.
        inputs: Vec<Self>,
    },
    /// Rows of two inputs, which set the same registers.
    Combine {
        /// How.
        combination: Combination,
        /// Whether equal rows count.
        all: bool,
        /// The inputs.
        inputs: Box<[Self; 2]>,
        /// What they set.
        registers: Vec<Register>,
    },
    /// Rows that are found once, and then read again.
    Keep {
        /// Where they are kept.
        slot: SlotId,
        /// The rows.
        input: Box<Self>,
        /// What they set.
        registers: Vec<Register>,
    },
    /// Runs queries that are named, and then the one that names them.
    With {
        /// Where the rows are kept, what they are, and the registers that they set.
        named: Vec<(SlotId, Self, Vec<Register>)>,
        /// The query.
        input: Box<Self>,
    },
    /// Rows of a named query.
    Named {
        /// Where they are kept.
        slot: SlotId,
        /// Its name.
        name: String,
        /// The registers that they go to.
        registers: Vec<Register>,
    },
    /// Rows that are written: one after each.
    Insert(Insert),
    /// Rows that are changed: one after each.
    Update(Update),
    /// Rows that are removed: one after each.
    Delete(Delete),
}

impl Plan {
    /// A node upon this one.
    #[must_use]
    pub fn filter(self, condition: Expression) -> Self {
        Self::Filter { input: Box::new(self), condition }
    }

    /// The nodes that it is made of.
    pub fn inputs(&self) -> Vec<&Self> {
        match self {
            Self::One
            | Self::Values { .. }
            | Self::Scan { .. }
            | Self::Function { .. }
            | Self::Rows { .. }
            | Self::Named { .. } => Vec::new(),
            Self::Filter { input, .. }
            | Self::Compute { input, .. }
            | Self::Hold { input, .. }
            | Self::Group { input, .. }
            | Self::Distinct { input, .. }
            | Self::Sort { input, .. }
            | Self::Limit { input, .. }
            | Self::Call { input, .. }
            | Self::Keep { input, .. }
            | Self::Insert(Insert { input, .. })
            | Self::Update(Update { input, .. })
            | Self::Delete(Delete { input, .. }) => vec![input],
            Self::Apply { input, subquery } => vec![input, &subquery.plan],
            Self::Loop { outer, inner, .. } => vec![outer, inner],
            Self::Hash { probe, build, .. } => vec![probe, build],
            Self::Union { inputs } => inputs.iter().collect(),
            Self::Combine { inputs, .. } => inputs.iter().collect(),
            Self::With { named, input } => named.iter().map(|(_, plan, _)| plan).chain([&**input]).collect(),
        }
    }

    /// The expressions of this node itself.
    pub fn expressions(&self) -> Vec<&Expression> {
        fn of_access(access: &Access) -> Vec<&Expression> {
            let mut all: Vec<&Expression> = match &access.path {
                Path::Point { key } => key.iter().collect(),
                Path::Range { prefix, lower, upper, .. } => {
                    let ends = lower.iter().chain(upper).map(|bound| &bound.value);
                    prefix.iter().chain(ends).collect()
                }
            };
            all.extend(&access.filter);
            all
        }
        fn of_aggregate(aggregate: &Aggregate) -> impl Iterator<Item = &Expression> {
            let Aggregate { argument, filter, separator, order, .. } = aggregate;
            argument.iter().chain(filter).chain(separator).chain(order.iter().map(|key| &key.value))
        }
        match self {
            Self::One | Self::Union { .. } | Self::Combine { .. } | Self::Keep { .. } | Self::With { .. } => {
                Vec::new()
            }
            Self::Named { .. } | Self::Delete(_) | Self::Hold { .. } => Vec::new(),
            Self::Values { rows, .. } => rows.iter().flatten().collect(),
            Self::Scan { access, .. } => of_access(access),
            Self::Function { arguments, .. }
            | Self::Call { arguments, .. }
            | Self::Rows { arguments, .. } => arguments.iter().collect(),
            Self::Filter { condition, .. } => vec![condition],
            Self::Compute { values, .. } => values.iter().map(|(_, value)| value).collect(),
            Self::Apply { subquery, .. } => match &subquery.question {
                Question::Quantified { value, row, .. } => vec![value, row],
                _ => Vec::new(),
            },
            Self::Loop { condition, .. } => condition.iter().collect(),
            Self::Hash { keys, condition, .. } => {
                keys.iter().flat_map(|key| [&key.probe, &key.build]).chain(condition).collect()
            }
            Self::Group { keys, aggregates, .. } => {
                let keys = keys.iter().map(|(_, value)| value);
                keys.chain(aggregates.iter().flat_map(of_aggregate)).collect()
            }
            Self::Distinct { values, .. } => values.iter().collect(),
            Self::Sort { keys, wanted, .. } => {
                keys.iter().map(|key| &key.value).chain(wanted.iter().flatten()).collect()
            }
            Self::Limit { offset, limit, .. } => offset.iter().chain(limit).collect(),
            Self::Insert(Insert { values, .. }) => values.iter().collect(),
            Self::Update(Update { assignments, .. }) => assignments.iter().map(|(_, value)| value).collect(),
        }
    }

    /// Calls `visit` on this node and all below it.
    pub fn walk<'p>(&'p self, visit: &mut impl FnMut(&'p Self)) {
        visit(self);
        self.inputs().into_iter().for_each(|input| input.walk(visit));
    }

    /// The table that this node itself touches, and whether it writes it.
    pub fn own_table(&self) -> Option<(&Arc<Table>, bool)> {
        match self {
            Self::Scan { access, .. } => Some((&access.table, false)),
            Self::Insert(Insert { table, .. })
            | Self::Update(Update { table, .. })
            | Self::Delete(Delete { table, .. }) => Some((table, true)),
            _ => None,
        }
    }

    /// The table that this node writes, where foreign keys want to know of it.
    pub fn foreign_keys(&self) -> Option<(&Arc<Table>, &ForeignKeys)> {
        let (table, keys) = match self {
            Self::Insert(Insert { table, keys, .. })
            | Self::Update(Update { table, keys, .. })
            | Self::Delete(Delete { table, keys, .. }) => (table, keys),
            _ => return None,
        };
        keys.as_deref().map(|keys| (table, keys))
    }

    /// Whether it writes anything.
    pub fn writes(&self) -> bool {
        let mut writes = false;
        self.walk(&mut |node| {
            writes |= node.own_table().is_some_and(|(_, writes)| writes);
            if let Self::Call { procedure, .. } | Self::Rows { procedure, .. } = node {
                writes |= !procedure.read_only;
            }
        });
        writes
    }
}
