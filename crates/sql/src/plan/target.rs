//! The relation that a statement writes: a table, or a view over it.
//!
//! A statement that writes through views has a relation in its level for the table and for each view. The
//! columns of a view are columns or expressions of the relation below it.
//! Not here: which views can be written (`updatable`).

use super::conjunct::Conjunct;
use super::{Binder, Level, Relation, Rows};
use crate::binder::Typed;
use crate::error::StatementError;
use crate::full_names::short;
use crate::roles::acl::Privileges;
use crate::roles::need::names_of;
use crate::schema::Schema;
use crate::simple_view::{CheckOption, Shown, ShownValue, SimpleView, WriteKind};
use crate::types::object_name;
use catalog::Table;
use procedure::query::RowRules;
use procedure::{CastContext, Check, CheckOwner, Expression, Register, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of views over each other.
const MOST_VIEWS: usize = 32;

/// The relation below a view.
#[derive(Clone, Copy)]
pub(super) struct Below {
    pub(super) level: usize,
    pub(super) relation: usize,
}

/// The relation that a statement writes.
pub(super) struct Target {
    pub(super) table: Arc<Table>,
    /// The views between the table and the statement, that over the table first.
    views: Vec<Rc<SimpleView>>,
    kind: WriteKind,
}

impl Target {
    /// Returns the name of the relation, without its schema.
    pub(super) fn short_name(&self) -> &str {
        self.views.last().map_or(self.table.short_name(), |view| short(&view.name))
    }

    /// Returns the view that the statement names.
    pub(super) fn view(&self) -> Option<&SimpleView> {
        self.views.last().map(|view| &**view)
    }

    /// Returns the position of the relation that the statement names in a level that begins with the target.
    pub(super) fn position(&self) -> usize {
        self.views.len()
    }

    /// Returns whether the columns have the defaults of a view, which are NULL.
    pub(super) fn has_defaults_of_view(&self, schema: &Schema) -> bool {
        self.view().is_some_and(|view| !schema.is_partition(&view.name))
    }

    /// Returns the number of visible columns.
    pub(super) fn width(&self) -> usize {
        self.view().map_or(self.table.visible().len(), |view| view.columns.len())
    }

    /// Returns the position of a column by its name.
    pub(super) fn column_index(&self, name: &str) -> Option<usize> {
        match self.view() {
            Some(view) => view.columns.iter().position(|column| column.name == name),
            None => self.table.column(name),
        }
    }

    /// Returns the column of the table that a column of the relation is.
    ///
    /// # Errors
    /// `0A000`: the column of a view is not a column of its table.
    pub(super) fn stored(&self, mut column: usize) -> Result<usize, SqlError> {
        for view in self.views.iter().rev() {
            let below = view.below(column);
            let refused = || self.kind.column_refusal(&view.columns[column].name, short(&view.name));
            column = below.ok_or_else(refused)?;
        }
        Ok(column)
    }

    /// Returns the relations over a row of the table that registers hold. `first` is the number of relations
    /// of the level before them.
    pub(super) fn over_row(&self, registers: Register, alias: &str, first: usize) -> Vec<Relation> {
        let is_plain = self.views.is_empty();
        let table_alias = if is_plain { alias } else { "" };
        let mut all = vec![Relation::of_row(&self.table, table_alias.into(), registers, is_plain)];
        all.extend(self.relations_of_views(alias, first));
        all
    }

    /// Returns the relations of the views, over that of the table at position `first`.
    fn relations_of_views(&self, alias: &str, first: usize) -> impl Iterator<Item = Relation> {
        self.views.iter().enumerate().map(move |(number, view)| {
            let is_plain = number + 1 == self.views.len();
            let columns = view.columns.iter().map(|column| (column.name.clone(), column.ty)).collect();
            let alias = if is_plain { alias.to_owned() } else { String::new() };
            let rows = Rows::View { below: first + number, view: Rc::clone(view) };
            Relation { alias, columns, rows, is_plain, hidden: 0 }
        })
    }

    /// Returns the views whose conditions a written row must fulfil, that over the table first.
    fn checked(&self) -> Vec<usize> {
        let (mut checked, mut cascades) = (Vec::new(), false);
        for (number, view) in self.views.iter().enumerate().rev() {
            cascades |= view.check == Some(CheckOption::Cascaded);
            if cascades || view.check.is_some() {
                checked.push(number);
            }
        }
        checked.reverse();
        checked
    }
}

impl Level {
    /// Hides all relations but one, which gets an alias and names of columns. Returns what `show` needs.
    fn hide_but(&mut self, relation: usize, view: &SimpleView) -> Hidden {
        let names = self
            .relations
            .iter_mut()
            .map(|known| (std::mem::take(&mut known.alias), std::mem::replace(&mut known.is_plain, false)));
        let names = names.collect();
        let shown = &mut self.relations[relation];
        let columns = shown.columns.clone();
        (shown.alias, shown.is_plain) = (view.alias.clone(), true);
        shown.columns.iter_mut().zip(&view.names).for_each(|(column, name)| column.0.clone_from(name));
        let (merged, scalars) = (std::mem::take(&mut self.merged), std::mem::take(&mut self.scalars));
        Hidden { names, columns, merged, scalars }
    }

    /// Shows the relations again.
    fn show(&mut self, relation: usize, hidden: Hidden) {
        let Hidden { names, columns, merged, scalars } = hidden;
        for (known, (alias, is_plain)) in self.relations.iter_mut().zip(names) {
            (known.alias, known.is_plain) = (alias, is_plain);
        }
        self.relations[relation].columns = columns;
        (self.merged, self.scalars) = (merged, scalars);
    }
}

/// The names of a level while a part of a view is bound.
struct Hidden {
    names: Vec<(String, bool)>,
    columns: Vec<(String, catalog::Type)>,
    merged: Vec<super::Merged>,
    scalars: Vec<usize>,
}

impl Binder<'_> {
    /// Returns the table or view that a statement writes.
    ///
    /// # Errors
    /// `42P01`: there is none. `55000`: the view cannot be written. `42809`: it is a sequence.
    pub(super) fn relation_to_write(
        &self,
        path: Option<ast::PathRef>,
        kind: WriteKind,
        node: &SyntaxNode,
    ) -> Result<Target, StatementError> {
        let path = self.part(path, node)?;
        let (mut name, mut views) = (object_name(&path), Vec::new());
        let written = path.syntax().ancestors().find_map(ast::RelationName::cast);
        if written.is_some_and(|written| written.only_token().is_some()) {
            self.refuse_only(&name, node)?;
        }
        while let Some(view) = self.schema.view(&name) {
            let refused = |reason| Err(self.error(node, kind.refusal(short(&name), reason)));
            let simple = match self.schema.simple_view(view) {
                Ok(simple) => simple,
                Err(reason) => return refused(reason),
            };
            if let Some(reason) = simple.refusal(kind) {
                return refused(reason);
            }
            if views.len() >= MOST_VIEWS {
                let message = format!("more than {MOST_VIEWS} views over each other");
                return Err(self.error(node, SqlError::new("54001", message)));
            }
            name.clone_from(&simple.base);
            views.push(Rc::new(simple));
        }
        views.reverse();
        let mut table = self.table(&name, path.syntax())?;
        self.refuse_sequence(&table, path.syntax())?;
        if let Some(with_defaults) = views.first().and_then(|view| self.schema.with_defaults_of(&view.name)) {
            table = with_defaults;
        }
        Ok(Target { table, views, kind })
    }

    /// Returns the column of the table that a name of the target's columns denotes.
    ///
    /// # Errors
    /// `42703`: there is no such column. `0A000`: it is no column of the table.
    pub(super) fn column_of_target(
        &self,
        target: &Target,
        name: &str,
        node: &SyntaxNode,
    ) -> Result<usize, StatementError> {
        let Some(view) = target.view() else { return self.column_of(&target.table, name, node) };
        let column = target.column_index(name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", short(&view.name));
            self.error(node, SqlError::new("42703", message))
        })?;
        target.stored(column).map_err(|error| self.error(node, error))
    }

    /// Adds the table of a target to the level, and its views. Returns the position of the table.
    pub(super) fn add_target(
        &mut self,
        target: &Target,
        alias: String,
        node: &SyntaxNode,
    ) -> Result<usize, StatementError> {
        if target.views.is_empty() {
            return self.add_table(&target.table, alias, Vec::new(), node);
        }
        let table = self.add_table(&target.table, String::new(), Vec::new(), node)?;
        self.level().relations[table].is_plain = false;
        for relation in target.relations_of_views(&alias, table) {
            self.add_relation(relation, node)?;
        }
        Ok(table)
    }

    /// Binds expressions over a row of the target's table that registers hold.
    pub(super) fn over_target<T>(
        &mut self,
        target: &Target,
        registers: Register,
        bind: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let relations = target.over_row(registers, target.short_name(), 0);
        self.queries.levels.push(Level { relations, ..Level::default() });
        let bound = bind(self);
        self.queries.levels.pop();
        bound
    }

    /// Binds the conditions of the target's views, of which the table is the relation at a position.
    pub(super) fn bind_conditions_of(
        &mut self,
        target: &Target,
        table: usize,
        conjuncts: &mut Vec<Conjunct>,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let level = self.queries.levels.len() - 1;
        for (number, view) in target.views.iter().enumerate() {
            let Some(condition) = view.condition.clone() else { continue };
            let mut of_view = Vec::new();
            let below = Below { level, relation: table + number };
            self.in_view(below, view, node, |inner| inner.bind_conjuncts(condition, &mut of_view))?;
            // Errors name a place in the statement.
            let comparisons = of_view.iter_mut().flat_map(|conjunct| &mut conjunct.comparison);
            comparisons.for_each(|comparison| comparison.node = node.clone());
            conjuncts.append(&mut of_view);
        }
        Ok(())
    }

    /// Binds what a write through a view with CHECK OPTION checks, to see whether it can be bound.
    pub(crate) fn bind_checks(
        &mut self,
        path: Option<ast::PathRef>,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let target = self.relation_to_write(path, WriteKind::Insert, node)?;
        let registers = self.row_registers(&target.table);
        self.bind_target_rules(&target, registers, None, node).map(|_| ())
    }

    /// Binds the rules of the target's table, and the conditions of views with CHECK OPTION.
    pub(super) fn bind_target_rules(
        &mut self,
        target: &Target,
        registers: Register,
        set: Option<&[usize]>,
        node: &SyntaxNode,
    ) -> Result<RowRules, StatementError> {
        let mut rules = self.bind_rules(&target.table, registers, set, node)?;
        for number in target.checked() {
            let view = &target.views[number];
            if self.schema.is_partition(&view.name) {
                let checks = &mut rules.conditions;
                self.within_partition(&view.name, &target.table, registers, checks, node)?;
                continue;
            }
            let Some(condition) = &view.condition else { continue };
            let level = self.queries.levels.len();
            let bound = self.over_target(target, registers, |binder| {
                binder.applying(|binder| {
                    binder.in_view(Below { level, relation: number }, view, node, |inner| {
                        inner.bind_condition(condition)
                    })
                })
            });
            let (condition, applied) = bound?;
            if !applied.is_empty() {
                let what = "CHECK OPTION of a condition with a subquery or a function of the schema";
                return Err(self.unsupported(node, what));
            }
            // In contrast to a CHECK constraint, NULL violates it.
            let condition = Expression::Coalesce(vec![condition, Expression::boolean(false)]);
            rules.conditions.push(Check {
                name: short(&view.name).into(),
                owner: CheckOwner::View,
                condition,
            });
        }
        Ok(rules)
    }

    /// Returns a column of a view that a statement writes, as a value.
    pub(super) fn column_of_view(
        &mut self,
        below: Below,
        view: &Rc<SimpleView>,
        column: usize,
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let Shown { ty, value, .. } = &view.columns[column];
        match value {
            ShownValue::Column(index) => self.column_of_relation(below.level, below.relation, *index, node),
            ShownValue::Computed(expression) => {
                let bind = |inner: &mut Binder<'_>| {
                    let value = inner.bind(expression)?;
                    inner.coerce(value, *ty, CastContext::Explicit, expression.syntax())
                };
                Ok(Typed::Known(self.in_view(below, view, node, bind)?, *ty))
            }
        }
    }

    /// Binds a part of a view over the relation below it, with the rights that the view reads with.
    pub(super) fn in_view<T>(
        &mut self,
        Below { level, relation }: Below,
        view: &SimpleView,
        node: &SyntaxNode,
        bind: impl FnOnce(&mut Binder<'_>) -> Result<T, StatementError>,
    ) -> Result<T, StatementError> {
        let mut inner = Binder::new(self.schema, &view.source);
        inner.views_within = self.views_within + 1;
        inner.is_kept_text = true;
        inner.relations_as = self.schema.reader_of(&view.name, view.reads_as_invoker);
        std::mem::swap(&mut inner.registers, &mut self.registers);
        std::mem::swap(&mut inner.needs, &mut self.needs);
        inner.queries.begin_slots_at(self.queries.slots());
        inner.queries.applied = self.queries.applied.take();
        let mut outer = std::mem::take(&mut self.queries.levels[level]);
        let hidden = outer.hide_but(relation, view);
        inner.queries.levels.push(outer);
        let bound = bind(&mut inner);
        let mut outer = inner.queries.levels.remove(0);
        outer.show(relation, hidden);
        self.queries.levels[level] = outer;
        if inner.queries.lowest.is_some() {
            self.refer_to(level);
        }
        self.queries.applied = inner.queries.applied.take();
        self.queries.begin_slots_at(inner.queries.slots());
        std::mem::swap(&mut inner.registers, &mut self.registers);
        std::mem::swap(&mut inner.needs, &mut self.needs);
        self.take_effects(&mut inner);
        bound.map_err(|error| self.error(node, error.error))
    }

    /// Notes SELECT on the relations of a target, as far as the statement refers to their columns. The table
    /// is the relation at a position of the level.
    pub(super) fn need_target_read(&mut self, target: &Target, table: usize) {
        for number in (0..=target.views.len()).rev() {
            let (name, names) = self.named(target, number);
            self.as_reader(target, number, |binder| binder.need_read(table + number, &name, names, false));
        }
    }

    /// Notes a privilege on some columns of a target, which are columns of the table; without columns on the
    /// whole target.
    pub(super) fn need_target(&mut self, target: &Target, privilege: Privileges, columns: &[usize]) {
        let mut columns_of = vec![columns.to_vec()];
        for view in &target.views {
            let below = columns_of.last().into_iter().flatten();
            columns_of.push(below.filter_map(|column| view.above(*column)).collect());
        }
        for (number, columns) in columns_of.into_iter().enumerate().rev() {
            let (name, names) = self.named(target, number);
            self.as_reader(target, number, |binder| {
                if let Some(need) = binder.need_relation(&name, privilege, names, true) {
                    columns.into_iter().for_each(|column| binder.need_column(need, column));
                }
            });
        }
    }

    /// Returns the name of the table, for 0, or of a view, and the names of its columns.
    fn named(&self, target: &Target, number: usize) -> (String, Vec<String>) {
        match number.checked_sub(1).map(|number| &target.views[number]) {
            None => (target.table.name.clone(), names_of(&target.table)),
            Some(view) => {
                (view.name.clone(), view.columns.iter().map(|column| column.name.clone()).collect())
            }
        }
    }

    /// Notes needs with the rights with which the view over a relation reads and writes it.
    fn as_reader(&mut self, target: &Target, number: usize, note: impl FnOnce(&mut Self)) {
        let Some(view) = target.views.get(number) else { return note(self) };
        let reader = self.schema.reader_of(&view.name, view.reads_as_invoker);
        let role = std::mem::replace(&mut self.relations_as, reader);
        self.views_within += 1;
        note(self);
        self.views_within -= 1;
        self.relations_as = role;
    }
}
