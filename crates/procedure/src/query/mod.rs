//! Queries: statements with joins, aggregates or subqueries, as a tree of nodes. A node passes its rows to
//! the node above it.
//!
//! Registers hold the current row. A node runs its input and sees each row in the registers that the input
//! sets. An inner node can read the registers that an outer node has set: a lateral join, a correlated
//! subquery. Expressions are those of procedures.
//!
//! Invariant: a node that produces rows releases the arena to its mark after each row, so a query of any
//! number of rows needs arena memory for one row. A node that keeps values longer copies them (`Buffer`).
//!
//! Not here: the planner (`sql`). Procedures with queries are not analysed; their calls are logged by value.

mod buffer;
mod explain;
mod group;
mod holding;
mod join;
mod json_rows;
mod key;
mod measure;
mod recursive;
mod run;
mod series;
mod slots;
mod sort;
mod subquery;
mod table;
mod watch;
mod window;
mod write;

pub(crate) use buffer::Buffer;
pub use explain::{ExplainFormat, ExplainOptions, Explained};
pub use holding::{HeldRows, HeldTable};
pub use join::HashJoin;
pub use json_rows::JsonRows;
pub(crate) use key::{write_distinct, write_equal};
pub use measure::{Measured, Measures};
pub use recursive::Recursive;
pub(crate) use run::run_query;
pub use series::SeriesOf;
pub(crate) use slots::Slots;
pub(crate) use sort::compare_keys;
pub use window::{
    Exclusion, Frame, FrameBound, FrameMode, FrameOffset, Window, WindowCall, WindowFunction, WindowValue,
};
pub use write::{
    ConflictUpdate, Delete, Insert, Merge, MergeAction, MergeChange, OnConflict, RowRules, Triggers, Update,
};

use crate::ForeignKeys;
use crate::LiveRelation;
use crate::{
    Access, Aggregate, CompareClass, CompareOperator, Expression, Path, Procedure, Register, SortKey,
};
use catalog::{Table, Type};
use std::sync::Arc;

/// The number of a slot, in which a running query keeps a result that it computes once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotId(pub u32);

/// A column of a query's result.
#[derive(Clone, PartialEq, Debug)]
pub struct OutputColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// The register that holds its value.
    pub register: Register,
}

/// A query.
#[derive(Clone, Debug)]
pub struct Query {
    /// The node that produces its rows.
    pub plan: Plan,
    /// The columns of the result; empty for a statement that only writes.
    pub columns: Vec<OutputColumn>,
    /// Number of slots that the plan uses.
    pub slots: u32,
}

/// How rows are joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JoinKind {
    /// Pairs of rows that match.
    Inner,
    /// Also left rows without a match.
    Left,
    /// Also rows of either side without a match.
    Full,
    /// Left rows that have a match, each once: EXISTS, IN. Only of a hash join.
    Semi,
    /// Left rows that have no match: NOT EXISTS. Only of a hash join.
    Anti,
}

/// A pair of values that must be equal.
#[derive(Clone, PartialEq, Debug)]
pub struct JoinKey {
    /// How the values compare.
    pub class: CompareClass,
    /// The value of the probe side, whose rows are looked up in the hash table.
    pub probe: Expression,
    /// The value of the build side, whose rows are kept in the hash table.
    pub build: Expression,
}

/// A built-in function that returns rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableFunction {
    /// Elements of arrays, side by side.
    Unnest,
    /// Values from a first to a last: `generate_series`.
    Series(SeriesOf),
    /// Parts of a JSON value.
    Json(JsonRows),
    /// A relation of the moment.
    Live(LiveRelation),
}

/// A set operation on two queries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combination {
    /// Rows that both have.
    Intersect,
    /// Rows of the first that the second does not have.
    Except,
}

/// A set of group keys. In its groups the other keys are NULL.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupingSet {
    /// Whether each key is part of the set.
    pub has: Vec<bool>,
    /// The results of `grouping`, and their registers.
    pub marks: Vec<(Register, i64)>,
}

/// The question that a subquery answers.
#[derive(Clone, PartialEq, Debug)]
pub enum Question {
    /// The values of its only row; NULLs if it has no row.
    Values {
        /// Pairs: a register that the subquery sets, and the register that takes its value.
        pairs: Vec<(Register, Register)>,
    },
    /// Whether it has a row.
    Exists {
        /// The register of the answer.
        target: Register,
    },
    /// Whether one of its rows has these values: IN, `= ANY`.
    In {
        /// The register of the answer.
        target: Register,
        /// The values, as `probe`, and those of its rows, as `build`.
        keys: Vec<JoinKey>,
    },
    /// Whether a comparison of a value is true for one row (ANY) or for all rows (ALL).
    Quantified {
        /// The register of the answer.
        target: Register,
        /// The comparison.
        operator: CompareOperator,
        /// How the values compare.
        class: CompareClass,
        /// The left operand.
        value: Expression,
        /// The right operand, over the registers of the subquery's row.
        row: Expression,
        /// ALL, in place of ANY.
        all: bool,
    },
    /// Its values as an array.
    Array {
        /// The register that the subquery sets.
        value: Register,
        /// The register of the array.
        target: Register,
    },
}

/// A query inside an expression. It is evaluated before the expression.
#[derive(Clone, Debug)]
pub struct Subquery {
    /// The node that produces its rows.
    pub plan: Plan,
    /// The question that it answers.
    pub question: Question,
    /// The slot of its result, if that is the same for every row of the outer query. `None`: it is evaluated
    /// for each row.
    pub kept: Option<SlotId>,
}

/// One of several functions of rows, side by side.
#[derive(Clone, Debug)]
pub struct Beside {
    /// Makes its rows.
    pub plan: Plan,
    /// The registers of a row.
    pub registers: Vec<Register>,
}

/// A node of a plan. It produces rows.
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
        /// The table, the path to its rows, and a filter.
        access: Access,
        /// The register that takes the row's handle, for the statement that writes the row.
        handle: Option<Register>,
    },
    /// Rows of a built-in function.
    Function {
        /// The function.
        function: TableFunction,
        /// Its arguments.
        arguments: Vec<Expression>,
        /// The registers of a row.
        registers: Vec<Register>,
        /// WITH ORDINALITY: the register of the row's number.
        ordinality: Option<Register>,
    },
    /// Rows of several functions, side by side.
    Together {
        /// The functions.
        parts: Vec<Beside>,
        /// WITH ORDINALITY: the register of the row's number.
        ordinality: Option<Register>,
    },
    /// Rows for which a condition is true.
    Filter {
        /// The rows.
        input: Box<Self>,
        /// The condition.
        condition: Expression,
    },
    /// Rows that no other transaction may write until this one ends: FOR UPDATE, FOR SHARE.
    Hold {
        /// The rows.
        input: Box<Self>,
        /// The tables.
        tables: Vec<HeldTable>,
        /// The treatment of a row that another transaction holds.
        held: HeldRows,
    },
    /// Rows with further values.
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
    /// Rows with the outputs of a function of the schema.
    Call {
        /// The rows.
        input: Box<Self>,
        /// The function.
        procedure: Arc<Procedure>,
        /// A value for each of its parameters.
        arguments: Vec<Expression>,
        /// The registers of its outputs.
        outputs: Vec<Register>,
    },
    /// The rows that a function of the schema returns.
    Rows {
        /// The function.
        procedure: Arc<Procedure>,
        /// A value for each of its parameters.
        arguments: Vec<Expression>,
        /// The registers of a row.
        registers: Vec<Register>,
        /// WITH ORDINALITY: the register of the row's number.
        ordinality: Option<Register>,
    },
    /// A nested-loop join: the inner node runs once for each row of the outer node.
    Loop {
        /// The left node.
        outer: Box<Self>,
        /// The right node; it can read the registers that the outer node sets.
        inner: Box<Self>,
        /// `Inner` or `Left`.
        kind: JoinKind,
        /// The join condition.
        condition: Option<Expression>,
        /// The registers that the inner node sets: NULL in rows without a match.
        inner_registers: Vec<Register>,
    },
    /// A hash join.
    Hash(HashJoin),
    /// One row for each group.
    Group {
        /// The rows.
        input: Box<Self>,
        /// The values that define a group. Without keys there is one group, even if there are no rows.
        keys: Vec<(Register, Expression)>,
        /// Keys whose equal values have different forms: the index of each, and the compared form, from its
        /// register.
        forms: Vec<(usize, Expression)>,
        /// The aggregates of each group.
        aggregates: Vec<Aggregate>,
        /// GROUPING SETS; empty for one set of all keys.
        sets: Vec<GroupingSet>,
    },
    /// The first row of each combination of values.
    Distinct {
        /// The rows.
        input: Box<Self>,
        /// The values that are compared.
        values: Vec<Expression>,
    },
    /// Rows in order.
    Sort {
        /// The rows.
        input: Box<Self>,
        /// The order.
        keys: Vec<SortKey>,
        /// The registers that the input sets and a later node reads.
        registers: Vec<Register>,
        /// OFFSET and LIMIT. With a LIMIT, only the first rows, as many as both together, are handed on.
        wanted: [Option<Expression>; 2],
    },
    /// Rows with the values of window functions.
    Window(Box<Window>),
    /// The rows after an offset, up to a limit.
    Limit {
        /// The rows.
        input: Box<Self>,
        /// Number of rows that are skipped.
        offset: Option<Expression>,
        /// Maximum number of rows after them.
        limit: Option<Expression>,
        /// WITH TIES: rows whose keys equal those of the last row follow it; empty without.
        ties: Vec<SortKey>,
    },
    /// Rows of all inputs, which set the same registers.
    Union {
        /// The inputs.
        inputs: Vec<Self>,
    },
    /// Rows of two inputs, which set the same registers.
    Combine {
        /// The set operation.
        combination: Combination,
        /// ALL: duplicates count.
        all: bool,
        /// The inputs.
        inputs: Box<[Self; 2]>,
        /// The registers that both inputs set.
        registers: Vec<Register>,
    },
    /// The rows of an input that runs once; later runs of this node read the kept rows.
    Keep {
        /// The slot of the rows.
        slot: SlotId,
        /// The rows.
        input: Box<Self>,
        /// The registers that the input sets.
        registers: Vec<Register>,
    },
    /// WITH: runs named queries, and then the query that refers to them.
    With {
        /// For each named query: the slot of its rows, its plan, and the registers that it sets.
        named: Vec<(SlotId, Self, Vec<Register>)>,
        /// The query that refers to them.
        input: Box<Self>,
    },
    /// Rows of a recursive query.
    Recursive(Box<Recursive>),
    /// Rows of a named query.
    Named {
        /// The slot of the rows.
        slot: SlotId,
        /// The name of the query.
        name: String,
        /// The registers that take a row.
        registers: Vec<Register>,
    },
    /// Inserts rows, and passes on each inserted row.
    Insert(Insert),
    /// Changes rows, and passes on each changed row.
    Update(Update),
    /// Deletes rows, and passes on each deleted row.
    Delete(Delete),
    /// Inserts, changes and deletes rows, and hands on each of them.
    Merge(Merge),
}

/// The nodes directly below a node.
macro_rules! inputs {
    ($plan:expr, $iter:ident, $inputs:ident $(, $mut:tt)?) => {
        match $plan {
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
            | Self::Keep { input, .. } => vec![input],
            Self::Insert(insert) => insert.$inputs(),
            Self::Update(update) => update.$inputs(),
            Self::Delete(delete) => delete.$inputs(),
            Self::Merge(merge) => merge.$inputs(),
            Self::Apply { input, subquery } => vec![input, &$($mut)? subquery.plan],
            Self::Loop { outer, inner, .. } => vec![outer, inner],
            Self::Hash(HashJoin { probe, build, .. }) => vec![probe, build],
            Self::Window(window) => {
                let Window { input, .. } = &$($mut)? **window;
                vec![input]
            }
            Self::Recursive(query) => {
                let Recursive { base, step, .. } = &$($mut)? **query;
                vec![base, step]
            }
            Self::Together { parts, .. } => parts.$iter().map(|part| &$($mut)? part.plan).collect(),
            Self::Union { inputs } => inputs.$iter().collect(),
            Self::Combine { inputs, .. } => inputs.$iter().collect(),
            Self::With { named, input } => {
                let mut all: Vec<_> = named.$iter().map(|(_, plan, _)| plan).collect();
                all.push(input);
                all
            }
        }
    };
}

impl Plan {
    /// Returns a node that filters the rows of this node.
    #[must_use]
    pub fn filter(self, condition: Expression) -> Self {
        Self::Filter { input: Box::new(self), condition }
    }

    /// Returns the nodes directly below this node.
    pub fn inputs(&self) -> Vec<&Self> {
        inputs!(self, iter, inputs)
    }

    /// Returns the nodes directly below this node, to be changed.
    pub fn inputs_mut(&mut self) -> Vec<&mut Self> {
        inputs!(self, iter_mut, inputs_mut, mut)
    }

    /// Returns the expressions of this node, without those of the nodes below it.
    pub fn expressions(&self) -> Vec<&Expression> {
        fn of_access(access: &Access) -> Vec<&Expression> {
            let mut all: Vec<&Expression> = match &access.path {
                Path::Point { key } => key.iter().collect(),
                Path::Range { prefix, lower, upper, .. } => {
                    let ends = lower.iter().chain(upper).flat_map(|bound| bound.values());
                    prefix.iter().chain(ends).collect()
                }
            };
            all.extend(&access.filter);
            all
        }
        match self {
            Self::One
            | Self::Recursive(_)
            | Self::Union { .. }
            | Self::Together { .. }
            | Self::Combine { .. }
            | Self::Keep { .. }
            | Self::With { .. } => Vec::new(),
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
                Question::In { keys, .. } => keys.iter().flat_map(|key| [&key.probe, &key.build]).collect(),
                _ => Vec::new(),
            },
            Self::Loop { condition, .. } => condition.iter().collect(),
            Self::Hash(HashJoin { keys, condition, .. }) => {
                keys.iter().flat_map(|key| [&key.probe, &key.build]).chain(condition).collect()
            }
            Self::Group { keys, aggregates, .. } => {
                let keys = keys.iter().map(|(_, value)| value);
                keys.chain(aggregates.iter().flat_map(Aggregate::expressions)).collect()
            }
            Self::Distinct { values, .. } => values.iter().collect(),
            Self::Sort { keys, wanted, .. } => {
                keys.iter().map(|key| &key.value).chain(wanted.iter().flatten()).collect()
            }
            Self::Window(window) => window.expressions(),
            Self::Limit { offset, limit, ties, .. } => {
                offset.iter().chain(limit).chain(ties.iter().map(|key| &key.value)).collect()
            }
            Self::Insert(Insert { values, .. }) => values.iter().collect(),
            Self::Update(Update { assignments, .. }) => assignments.iter().map(|(_, value)| value).collect(),
            Self::Merge(Merge { actions, .. }) => actions.iter().flat_map(MergeAction::expressions).collect(),
        }
    }

    /// Calls `visit` on this node and all below it.
    pub fn walk<'p>(&'p self, visit: &mut impl FnMut(&'p Self)) {
        visit(self);
        self.inputs().into_iter().for_each(|input| input.walk(visit));
    }

    /// Returns the table that this node itself reads or writes, and whether it writes the table.
    pub fn own_table(&self) -> Option<(&Arc<Table>, bool)> {
        match self {
            Self::Scan { access, .. } => Some((&access.table, false)),
            Self::Insert(Insert { table, .. })
            | Self::Update(Update { table, .. })
            | Self::Delete(Delete { table, .. })
            | Self::Merge(Merge { table, .. }) => Some((table, true)),
            _ => None,
        }
    }

    /// Returns the table that this node writes, and its foreign keys; `None` without foreign keys.
    pub fn foreign_keys(&self) -> Option<(&Arc<Table>, &ForeignKeys)> {
        let (table, keys) = match self {
            Self::Insert(Insert { table, keys, .. })
            | Self::Update(Update { table, keys, .. })
            | Self::Delete(Delete { table, keys, .. })
            | Self::Merge(Merge { table, keys, .. }) => (table, keys),
            _ => return None,
        };
        keys.as_deref().map(|keys| (table, keys))
    }

    /// Returns whether its rows are those that a statement has written.
    pub fn returns_written_rows(&self) -> bool {
        match self {
            Self::Insert(_) | Self::Update(_) | Self::Delete(_) | Self::Merge(_) => true,
            Self::Compute { input, .. }
            | Self::Apply { input, .. }
            | Self::Call { input, .. }
            | Self::With { input, .. } => input.returns_written_rows(),
            _ => false,
        }
    }

    /// Returns whether a node of the plan writes a table, or calls a procedure that is not read-only.
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
