//! Translates queries that are not one operation on one table into plans (`procedure::query`).
//!
//! A level is one SELECT with the relations of its FROM. A subquery is the level above its outer query, and
//! its names may refer to columns of the levels below. The binder first binds all clauses of a level, so that
//! it knows the columns that the query uses. Then it makes the plan: it pushes conditions down to the
//! relations that they refer to, and joins relations one after the other (`join.rs`).

mod applied;
mod compound;
mod conflict;
mod conjunct;
mod from;
mod grouping;
mod indexed;
mod join;
mod list_positions;
mod listed;
mod merge;
mod named;
mod origin;
mod outputs;
mod partition;
mod records;
mod recursive;
mod row_calls;
mod rows_from;
pub(crate) mod select;
mod semi;
mod set_placement;
mod sets;
mod stars;
mod subquery;
mod subscripts_of;
mod target;
mod value_rows;
pub(crate) mod windows;
mod write;

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::oids::table_oid;
use crate::simple_view::SimpleView;
pub(crate) use applied::{Applied, apply_all};
use applied::{apply_ahead, compute};
use catalog::{IndexId, Table, Type};
use grouping::Grouping;
use indexed::{Indexed, Loaded};
pub(crate) use list_positions::bare;
pub(crate) use origin::Origins;
pub use origin::{ColumnOrigin, ResultColumn};
use procedure::query::{OutputColumn, Plan, SlotId};
use procedure::{Expression, Register, SqlError};
pub(crate) use row_calls::{CalledRow, Fields, FirstRow, if_present};
pub(crate) use sets::returns_set;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of relations of a FROM.
const MOST_RELATIONS: usize = 64;
/// Maximum number of nested queries.
const MOST_LEVELS: usize = 64;

/// A set of relations of a level, with a bit for each.
pub(crate) type Relations = u64;

/// The rows of a relation.
#[derive(Debug)]
pub(crate) enum Rows {
    /// The rows of a table.
    Table {
        table: Arc<Table>,
        /// The first register of the row, with one register per column.
        registers: Register,
        /// The columns that the plan loads, in the order of their registers.
        used: Vec<usize>,
        /// The register of the row's handle, for the statement that writes the row.
        handle: Option<Register>,
        /// The hidden columns of its indexes; `None` if it has none.
        indexed: Option<Box<Indexed>>,
    },
    /// The rows of a plan.
    Plan {
        /// `None` after the plan is joined.
        plan: Option<Box<Plan>>,
        registers: Vec<Register>,
        /// The relations of the same level that the plan refers to.
        lateral: Relations,
        /// Whether the plan refers to levels below.
        outer: bool,
    },
    /// The row of a named table that registers hold already, from a first one on.
    Row { table: String, registers: Register },
    /// The rows of a view that a statement writes, computed of another relation of the level.
    View { below: usize, view: Rc<SimpleView> },
}

/// A relation that names of a level may refer to.
#[derive(Debug)]
pub(crate) struct Relation {
    pub(crate) alias: String,
    pub(crate) columns: Vec<(String, Type)>,
    pub(crate) rows: Rows,
    /// Whether names without a qualifier may refer to its columns.
    pub(crate) is_plain: bool,
    /// The number of columns at the end that are not part of `*`.
    pub(crate) hidden: usize,
}

/// A column that USING has merged from two columns.
#[derive(Debug)]
struct Merged {
    name: String,
    value: Typed,
    /// The merged columns, as relation and position. `Level::star` has the first one.
    hides: Vec<(usize, usize)>,
}

/// A column that a name refers to, in a level.
pub(crate) enum Located {
    /// A column that USING has merged.
    Merged(usize),
    /// The index of a relation, and the position of its column.
    Column(usize, usize),
}

/// The relations in scope of one SELECT, or of one statement that writes.
#[derive(Debug, Default)]
pub(crate) struct Level {
    pub(crate) relations: Vec<Relation>,
    merged: Vec<Merged>,
    /// The relations of FROM.
    from: Relations,
    /// The relations that an outer join may have no row of.
    nullable: Relations,
    /// The columns of `*`, as relation and position.
    star: Vec<(usize, usize)>,
    /// Functions of one column, whose aliases also name the column.
    scalars: Vec<usize>,
    /// The relations that the current expression refers to (`Binder::referring`).
    touched: Relations,
    /// The relations whose columns need a privilege, with the index of the need.
    pub(crate) reads: Vec<(usize, usize)>,
}

/// A query of WITH.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    name: String,
    slot: SlotId,
    columns: Vec<(String, Type)>,
    /// The column of a table or view that each column has the values of, if known.
    origins: Vec<Option<origin::Known>>,
    /// The lowest level around WITH that it refers to; `None` if its rows are always the same.
    lowest: Option<usize>,
}

/// A bound query: its rows, and the registers of their columns.
#[derive(Debug, Default)]
pub(crate) struct Bound {
    pub(crate) plan: Plan,
    pub(crate) columns: Vec<OutputColumn>,
    /// Literals of unknown type, by the index of their column. The outer query may give them a type.
    pub(crate) literals: HashMap<usize, Typed>,
    /// The syntax node of each item of a SELECT list or of RETURNING; empty for any other query.
    pub(crate) nodes: Vec<SyntaxNode>,
}

impl Bound {
    /// Returns the types of the columns that have one.
    fn types(&self) -> Vec<Option<Type>> {
        (0..self.columns.len()).map(|index| self.typed(index).known_type()).collect()
    }

    /// Returns a column as a value.
    fn typed(&self, index: usize) -> Typed {
        let column = &self.columns[index];
        let known = Typed::Known(Expression::Register(column.register), column.ty);
        self.literals.get(&index).cloned().unwrap_or(known)
    }
}

/// The references of an expression.
#[derive(Clone, Copy, Debug)]
pub(crate) struct References {
    /// The relations of the same level that it refers to.
    pub(crate) relations: Relations,
    /// Whether it refers to levels below.
    pub(crate) outer: bool,
}

impl References {
    /// Returns the references of two expressions.
    fn and(self, other: Self) -> Self {
        Self { relations: self.relations | other.relations, outer: self.outer || other.outer }
    }
}

/// The state of the binder for queries.
#[derive(Debug, Default)]
pub(crate) struct Queries {
    pub(crate) levels: Vec<Level>,
    named: Vec<Named>,
    /// The offset of a WITH clause that `bind_combined` has bound for all operands of a set operation.
    bound_with: Option<usize>,
    /// The types that the next SELECT gives to the parameters without a type in its list; empty where none
    /// are known.
    wanted: Vec<Option<Type>>,
    slots: u32,
    /// The lowest level that the current expression or query refers to.
    lowest: Option<usize>,
    /// Subqueries and calls of the current expression, which are evaluated before it; `None` where subqueries
    /// are not allowed.
    pub(crate) applied: Option<Vec<Applied>>,
    /// The group keys in scope: level, text, register and type. An expression with this text denotes the
    /// register.
    group_keys: Vec<(usize, String, Register, Type)>,
    /// Subqueries in the arguments of aggregates, which are evaluated before rows are grouped.
    before_group: Vec<Applied>,
    /// The groups of the current SELECT, while its outputs are bound.
    grouping: Grouping,
    /// The windows of the current SELECT, or the error of a window function here.
    pub(crate) windows: windows::WindowScope,
    /// The primary keys on which columns of groups depend.
    pub(crate) grouped_by: Vec<IndexId>,
    /// The registers of catalog columns with names of objects (`relname`), whose characters have subscripts.
    pub(crate) catalog_names: HashSet<Register>,
}

impl Queries {
    /// Returns the number of slots that are taken.
    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    /// Sets the number of slots that are taken.
    fn begin_slots_at(&mut self, slots: u32) {
        self.slots = slots;
    }
}

impl Relation {
    /// Returns a relation of one row of a table that registers hold.
    fn of_row(table: &Table, alias: String, registers: Register, is_plain: bool) -> Self {
        let columns = table.visible().iter().map(|column| (column.name.clone(), column.ty)).collect();
        Self { alias, columns, rows: Rows::Row { table: table.name.clone(), registers }, is_plain, hidden: 0 }
    }

    /// Returns the number of columns that are part of `*`.
    pub(super) fn shown(&self) -> usize {
        self.columns.len() - self.hidden
    }

    fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|(known, _)| known == name)
    }

    /// Returns the registers that a plan sets for each of its rows.
    pub(crate) fn set_registers(&self) -> Vec<Register> {
        match &self.rows {
            Rows::Table { registers, used, handle, .. } => {
                let used = (0..used.len() as u32).map(|offset| Register(registers.0 + offset));
                used.chain(*handle).collect()
            }
            Rows::Plan { registers, .. } => registers.clone(),
            Rows::Row { .. } | Rows::View { .. } => Vec::new(),
        }
    }
}

impl Level {
    /// Returns whether a row of one of its relations sets a register. Registers of variables and of the
    /// levels below keep their values.
    fn sets(&self, register: Register) -> bool {
        self.relations.iter().any(|relation| relation.set_registers().contains(&register))
    }
}

impl Binder<'_> {
    /// Binds expressions over a row of a table that registers hold.
    pub(crate) fn over_row<T>(
        &mut self,
        table: &Table,
        registers: Register,
        bind: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let row = Relation::of_row(table, table.short_name().into(), registers, true);
        self.queries.levels.push(Level { relations: vec![row], ..Level::default() });
        let bound = bind(self);
        self.queries.levels.pop();
        bound
    }

    pub(crate) fn new_slot(&mut self) -> SlotId {
        self.queries.slots += 1;
        SlotId(self.queries.slots - 1)
    }

    fn push_level(&mut self, node: &SyntaxNode) -> Result<(), StatementError> {
        if self.queries.levels.len() >= MOST_LEVELS {
            return Err(self.error(node, SqlError::new("54001", "queries are nested too deeply")));
        }
        self.queries.levels.push(Level::default());
        Ok(())
    }

    fn level(&mut self) -> &mut Level {
        self.queries.levels.last_mut().expect("a query is being bound")
    }

    fn add_relation(&mut self, relation: Relation, node: &SyntaxNode) -> Result<usize, StatementError> {
        let taken = |level: &Level| level.relations.iter().any(|known| known.alias == relation.alias);
        if !relation.alias.is_empty() && taken(self.level()) {
            let message = format!("table name \"{}\" specified more than once", relation.alias);
            return Err(self.error(node, SqlError::new("42712", message)));
        }
        let level = self.level();
        if level.relations.len() >= MOST_RELATIONS {
            let message = format!("more than {MOST_RELATIONS} relations in one FROM");
            return Err(self.error(node, SqlError::new("54001", message)));
        }
        level.relations.push(relation);
        Ok(level.relations.len() - 1)
    }

    /// Adds a table to the level.
    fn add_table(
        &mut self,
        table: &Arc<Table>,
        alias: String,
        names: Vec<String>,
        node: &SyntaxNode,
    ) -> Result<usize, StatementError> {
        let mut columns: Vec<(String, Type)> =
            table.visible().iter().map(|column| (column.name.clone(), column.ty)).collect();
        self.rename(&mut columns, names, &alias, node)?;
        let registers = self.row_registers(table);
        let indexed = self.indexed(table, node)?;
        let rows =
            Rows::Table { table: Arc::clone(table), registers, used: Vec::new(), handle: None, indexed };
        self.add_relation(Relation { alias, columns, rows, is_plain: true, hidden: 0 }, node)
    }

    /// Renames columns by the column list of an alias.
    fn rename(
        &self,
        columns: &mut [(String, Type)],
        names: Vec<String>,
        alias: &str,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        if names.len() > columns.len() {
            let message = format!(
                "table \"{alias}\" has {} columns available but {} columns specified",
                columns.len(),
                names.len()
            );
            return Err(self.error(node, SqlError::new("42P10", message)));
        }
        columns.iter_mut().zip(names).for_each(|((old, _), name)| *old = name);
        Ok(())
    }

    /// Records a reference to a level.
    fn refer_to(&mut self, level: usize) {
        let lowest = self.queries.lowest.map_or(level, |lowest| lowest.min(level));
        self.queries.lowest = Some(lowest);
    }

    /// Returns a column of a relation as a value.
    fn column_of_relation(
        &mut self,
        level: usize,
        relation: usize,
        column: usize,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        self.refer_to(level);
        let reads = &self.queries.levels[level].reads;
        let read = reads.iter().find(|(index, _)| *index == relation).copied();
        if let Some((_, need)) = read {
            self.need_column(need, column);
        }
        if let Rows::View { below, view } = &self.queries.levels[level].relations[relation].rows {
            let (below, view) = (target::Below { level, relation: *below }, Rc::clone(view));
            return self.column_of_view(below, &view, column, node);
        }
        let level = &mut self.queries.levels[level];
        level.touched |= 1 << relation;
        let read_from = &mut level.relations[relation];
        let ty = read_from.columns[column].1;
        let register = match &mut read_from.rows {
            Rows::Table { table, registers, used, .. } => {
                let offset = used.iter().position(|used| *used == column).unwrap_or_else(|| {
                    used.push(column);
                    used.len() - 1
                });
                let register = Register(registers.0 + offset as u32);
                self.origins.note_column(register, table_oid(table), column, ty);
                register
            }
            Rows::Plan { registers, .. } => registers[column],
            Rows::Row { registers, .. } => Register(registers.0 + column as u32),
            Rows::View { .. } => unreachable!("its columns are those of the relation below"),
        };
        Ok(Typed::Known(Expression::Register(register), ty))
    }

    /// Returns the relation and column of an expression of the innermost level that is a column of a table,
    /// or that one of the table's indexes has as a hidden column.
    fn table_column(&self, expression: &Expression) -> Option<(usize, usize)> {
        let level = self.queries.levels.last()?;
        level.relations.iter().enumerate().find_map(|(index, relation)| match (&relation.rows, expression) {
            (Rows::Table { registers, used, .. }, Expression::Register(register)) => {
                let column = register.0.checked_sub(registers.0)? as usize;
                used.get(column).map(|column| (index, *column))
            }
            (Rows::Table { registers, used, indexed: Some(indexed), .. }, expression) => {
                let loaded = Loaded { first: *registers, columns: used };
                indexed.column_of(expression, loaded).map(|column| (index, column))
            }
            _ => None,
        })
    }

    /// Returns a column by name, from the innermost level that has one.
    pub(crate) fn find_column(
        &mut self,
        qualifier: Option<&str>,
        name: &str,
        node: &SyntaxNode,
    ) -> Result<Option<Typed>, StatementError> {
        match self.locate_column(qualifier, name, node)? {
            None if name == "tableoid" => self.number_of_table(qualifier, node),
            None => Ok(None),
            Some((level, Located::Merged(merged))) => self.merged_column(level, merged, node).map(Some),
            Some((level, Located::Column(relation, column))) => {
                self.column_of_relation(level, relation, column, node).map(Some)
            }
        }
    }

    /// Returns a column by name with the index of its level, in the innermost level that has one.
    pub(crate) fn locate_column(
        &self,
        qualifier: Option<&str>,
        name: &str,
        node: &SyntaxNode,
    ) -> Result<Option<(usize, Located)>, StatementError> {
        for (level_index, level) in self.queries.levels.iter().enumerate().rev() {
            if qualifier.is_none()
                && let Some(merged) = level.merged.iter().position(|merged_column| merged_column.name == name)
            {
                return Ok(Some((level_index, Located::Merged(merged))));
            }
            let mut found = None;
            for (relation, candidate) in level.relations.iter().enumerate() {
                let is_meant = match qualifier {
                    Some(qualifier) => candidate.alias == qualifier,
                    None => candidate.is_plain,
                };
                if !is_meant {
                    continue;
                }
                let columns = candidate.columns.iter().enumerate().filter(|(_, (column, _))| column == name);
                for (column, _) in columns {
                    if found.replace((relation, column)).is_some() {
                        let message = format!("column reference \"{name}\" is ambiguous");
                        return Err(self.error(node, SqlError::new("42702", message)));
                    }
                }
            }
            if qualifier.is_none() {
                found = found.or_else(|| level.scalar(name));
            }
            if let Some((relation, column)) = found {
                return Ok(Some((level_index, Located::Column(relation, column))));
            }
        }
        Ok(None)
    }

    fn merged_column(
        &mut self,
        level: usize,
        merged: usize,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let Merged { value, hides, .. } = &self.queries.levels[level].merged[merged];
        let (value, hides) = (value.clone(), hides.clone());
        for (relation, column) in hides {
            self.column_of_relation(level, relation, column, node)?;
        }
        Ok(value)
    }

    /// Returns whether a qualifier names a relation.
    pub(crate) fn names_relation(&self, qualifier: &str) -> bool {
        self.level_of(qualifier).is_some()
    }

    /// Returns whether a qualifier names a relation that an outer join may have no row of.
    pub(crate) fn names_nullable(&self, qualifier: &str) -> bool {
        let Some(level) = self.level_of(qualifier).map(|index| &self.queries.levels[index]) else {
            return false;
        };
        let named = level.relations.iter().position(|known| known.alias == qualifier);
        named.is_some_and(|index| level.nullable & 1 << index != 0)
    }

    /// Returns the index of the innermost level with a relation that a qualifier names.
    fn level_of(&self, qualifier: &str) -> Option<usize> {
        let has_named = |level: &Level| level.relations.iter().any(|known| known.alias == qualifier);
        self.queries.levels.iter().rposition(has_named)
    }

    /// Returns whether FROM has the table or view with this schema and name, without another alias.
    pub(crate) fn names_stored(&self, schema: &str, name: &str) -> bool {
        let full = if schema == "public" { name.to_owned() } else { format!("{schema}.{name}") };
        let mut relations = self.queries.levels.iter().flat_map(|level| &level.relations);
        relations.any(|relation| {
            relation.alias == name
                && match &relation.rows {
                    Rows::Table { table, .. } => table.name == full,
                    _ => self.schema.view(&full).is_some() || self.schema.system_relation(&full).is_some(),
                }
        })
    }

    /// Returns whether FROM has a table, under any alias.
    pub(crate) fn reads_stored(&self, schema: &str, name: &str) -> bool {
        let full = if schema == "public" { name.to_owned() } else { format!("{schema}.{name}") };
        let mut relations = self.queries.levels.iter().flat_map(|level| &level.relations);
        relations.any(|relation| matches!(&relation.rows, Rows::Table { table, .. } if table.name == full))
    }

    /// Calls `bind`. Returns the references of the expressions that it binds, too.
    pub(crate) fn referring<T>(
        &mut self,
        bind: impl FnOnce(&mut Self) -> Result<T, StatementError>,
    ) -> Result<(T, References), StatementError> {
        let level_index = self.queries.levels.len() - 1;
        let touched = std::mem::take(&mut self.queries.levels[level_index].touched);
        let lowest = self.queries.lowest.take();
        let bound = bind(self);
        let relations = std::mem::replace(&mut self.queries.levels[level_index].touched, touched);
        self.queries.levels[level_index].touched |= relations;
        let outer = self.queries.lowest.is_some_and(|lowest| lowest < level_index);
        self.queries.lowest = match (lowest, self.queries.lowest) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Ok((bound?, References { relations, outer }))
    }

    /// Calls `bind`. Returns the subqueries and calls of the expressions that it binds, too.
    pub(crate) fn applying<T>(
        &mut self,
        bind: impl FnOnce(&mut Self) -> Result<T, StatementError>,
    ) -> Result<(T, Vec<Applied>), StatementError> {
        let outer = self.queries.applied.replace(Vec::new());
        let bound = bind(self);
        let applied = std::mem::replace(&mut self.queries.applied, outer).unwrap_or_default();
        Ok((bound?, applied))
    }

    /// Returns the names of a list of columns.
    pub(crate) fn column_names(list: Option<ast::ColumnList>) -> Vec<String> {
        list.into_iter().flat_map(|list| list.column_names()).map(|name| name.text()).collect()
    }
}
