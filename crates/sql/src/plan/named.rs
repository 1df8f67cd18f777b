//! The named relations of FROM: tables, views, system relations, sequences and queries of WITH.

use super::{Binder, Bound, Named, Relation, Rows};
use crate::error::StatementError;
use crate::roles::acl::RoleId;
use crate::roles::need::names_of;
use crate::roles::role::BOOTSTRAP;
use crate::schema::View;
use crate::system::{Cell, SystemRelation, SystemRows, system_view};
use catalog::{Datum, ScalarType, TableId};
use procedure::query::{OutputColumn, Plan, TableFunction};
use procedure::{ByValueCause, Expression, Function, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// Maximum nesting of views.
const MOST_VIEWS: usize = 64;

impl Binder<'_> {
    /// Adds a stored relation: a table, view, sequence or system relation.
    pub(super) fn add_stored(
        &mut self,
        name: &str,
        (alias, names): (String, Vec<String>),
        node: &SyntaxNode,
    ) -> Result<usize, StatementError> {
        let Some(view) = self.schema.view(name) else {
            let is_table = self.schema.catalog().table(name).is_ok();
            if let Some(system) = self.schema.system_relation(name).filter(|_| !is_table) {
                let short = name.trim_start_matches("pg_catalog.");
                if ["pg_authid", "pg_shadow"].contains(&short) {
                    self.need_superuser(short);
                }
                return self.add_system(system, (alias, names), node);
            }
            if let Some(view) = system_view(name).filter(|_| !is_table) {
                let bound = self.bind_view(&view, BOOTSTRAP, node)?;
                return self.add_bound(bound, (Some(alias), names), (0, false), node);
            }
            let table = self.table(name, node)?;
            if table.sequence.is_some() {
                let columns = ["last_value", "log_cnt", "is_called"].map(str::to_owned).to_vec();
                let relation = self.add_sequence(table.id, (alias, names), node)?;
                self.need_read(relation, name, columns, true);
                return Ok(relation);
            }
            let relation = self.add_table(&table, alias, names, node)?;
            self.need_read(relation, name, names_of(&table), true);
            return Ok(relation);
        };
        let names = if names.is_empty() { view.names.clone() } else { names };
        let reader = self.schema.reader_of(name, view.reads_as_invoker());
        let bound = self.bind_view(view, reader, node)?;
        // As in PostgreSQL, the columns are those of the view, whatever its query reads.
        let oid = self.schema.view_oid(view);
        for (position, column) in bound.columns.iter().enumerate() {
            self.origins.note_column(column.register, oid, position, column.ty);
        }
        let column_names = bound.columns.iter().map(|column| column.name.clone());
        let column_names = view.names.iter().cloned().chain(column_names.skip(view.names.len())).collect();
        let relation = self.add_bound(bound, (Some(alias), names), (0, false), node)?;
        self.need_read(relation, name, column_names, true);
        Ok(relation)
    }

    /// Adds the row of a sequence. `log_cnt` is 0, because a sequence logs no numbers in advance.
    fn add_sequence(
        &mut self,
        sequence: TableId,
        (alias, names): (String, Vec<String>),
        node: &SyntaxNode,
    ) -> Result<usize, StatementError> {
        self.log_by_value(ByValueCause::Sequence);
        let call = |function| Expression::Function { function, arguments: Vec::new() };
        let cells = [
            ("last_value", ScalarType::BigInt, call(Function::LastValue(sequence))),
            ("log_cnt", ScalarType::BigInt, Expression::Constant(Datum::Int(0))),
            ("is_called", ScalarType::Boolean, call(Function::IsCalled(sequence))),
        ];
        let (mut columns, mut row) = (Vec::new(), Vec::new());
        for (name, ty, value) in cells {
            let (ty, register) = (ty.into(), self.new_register(ty));
            columns.push(OutputColumn { name: name.into(), ty, register });
            row.push(value);
        }
        let registers = columns.iter().map(|column| column.register).collect();
        let bound = Bound { plan: Plan::Values { registers, rows: vec![row] }, columns, ..Bound::default() };
        self.add_bound(bound, (Some(alias), names), (0, false), node)
    }

    /// Adds a system relation.
    fn add_system(
        &mut self,
        system: SystemRelation,
        names: (String, Vec<String>),
        node: &SyntaxNode,
    ) -> Result<usize, StatementError> {
        self.reads_catalog = true;
        let (mut columns, mut registers) = (Vec::new(), Vec::new());
        for (name, ty) in system.columns {
            let register = self.new_register(ty);
            if name.ends_with("name") {
                self.queries.catalog_names.insert(register);
            }
            registers.push(register);
            columns.push(OutputColumn { name: name.into(), ty, register });
        }
        if let Some(oid) = system.oid {
            for (position, column) in columns.iter().enumerate() {
                self.origins.note_column(column.register, oid, position, column.ty);
            }
        }
        // Every row also has the hidden column `tableoid`, which is no part of `*`.
        let hidden = usize::from(system.oid.is_some());
        if system.oid.is_some() {
            let (ty, register) = (ScalarType::Integer.into(), self.new_register(ScalarType::Integer));
            registers.push(register);
            columns.push(OutputColumn { name: "tableoid".into(), ty, register });
        }
        let constant = |number: i64| Expression::Constant(Datum::Int(number));
        let mut value = |(cell, column): (Cell, &OutputColumn)| match cell {
            Cell::Null => Expression::NULL,
            Cell::Bool(value) => Expression::boolean(value),
            Cell::Int(value) if column.ty.element().is_float() => {
                Expression::Constant(Datum::Double(value as f64))
            }
            Cell::Int(value) => constant(value),
            Cell::Double(value) => Expression::Constant(Datum::Double(value)),
            Cell::Text(text) => Expression::text(&text),
            Cell::Named(name) => {
                self.by_path(Expression::text(&name.plain), Expression::text(&name.qualified))
            }
            Cell::Texts(all) => Expression::Array(all.iter().map(|text| Expression::text(text)).collect()),
            Cell::Ints(all) => Expression::Array(all.into_iter().map(constant).collect()),
        };
        let mut row = |cells: Vec<Cell>| {
            let oid = system.oid.map(Cell::Int);
            cells.into_iter().chain(oid).zip(&columns).map(&mut value).collect()
        };
        let plan = match system.rows {
            SystemRows::Known(rows) => {
                let rows = rows.into_iter().map(&mut row).collect();
                Plan::Values { registers, rows }
            }
            SystemRows::Live(relation) => {
                self.log_by_value(ByValueCause::Moment);
                let (function, arguments) = (TableFunction::Live(relation), Vec::new());
                Plan::Function { function, arguments, registers, ordinality: None }
            }
        };
        let bound = Bound { plan, columns, ..Bound::default() };
        let relation = self.add_bound(bound, (Some(names.0), names.1), (0, false), node)?;
        self.level().relations[relation].hidden = hidden;
        Ok(relation)
    }

    /// Binds the query of a view, whose relations are read with the rights of its owner. It cannot refer to
    /// the query around it.
    fn bind_view(&mut self, view: &View, reader: RoleId, node: &SyntaxNode) -> Result<Bound, StatementError> {
        if self.views_within >= MOST_VIEWS {
            let message = format!("infinite recursion detected in rules for relation \"{}\"", view.name);
            return Err(self.error(node, SqlError::new("42P17", message)));
        }
        let source = self.schema.trees.parse(&view.query)?;
        let query = source.file.syntax().descendants().find_map(ast::SelectVariant::cast);
        let query = self.part(query, node)?;
        let mut inner = Binder::new(self.schema, &source);
        inner.views_within = self.views_within + 1;
        inner.is_kept_text = true;
        inner.relations_as = reader;
        std::mem::swap(&mut inner.registers, &mut self.registers);
        inner.queries.begin_slots_at(self.queries.slots());
        let bound = inner.bind_variant(&query);
        std::mem::swap(&mut inner.registers, &mut self.registers);
        self.queries.begin_slots_at(inner.queries.slots());
        self.take_effects(&mut inner);
        self.origins.take_computed(&inner.origins);
        bound.map_err(|error| self.error(node, error.error))
    }

    /// Takes over the needs and effects of a binder of a part of a view.
    pub(super) fn take_effects(&mut self, inner: &mut Binder<'_>) {
        self.uses_seed |= inner.uses_seed;
        self.uses_timestamp |= inner.uses_timestamp;
        self.writes |= inner.writes;
        self.callees.append(&mut inner.callees);
        self.take_needs(inner);
        if let Some(cause @ (ByValueCause::Moment | ByValueCause::Sequence)) = inner.by_value.take() {
            self.log_by_value(cause);
        }
    }

    pub(super) fn add_named(
        &mut self,
        named: Named,
        alias: String,
        names: Vec<String>,
        node: &SyntaxNode,
    ) -> Result<usize, StatementError> {
        let Named { name, slot, mut columns, origins, lowest } = named;
        if let Some(level) = lowest {
            self.refer_to(level);
        }
        let registers: Vec<_> = columns.iter().map(|(_, ty)| self.new_register(*ty)).collect();
        registers.iter().zip(origins).for_each(|(register, origin)| self.origins.note(*register, origin));
        self.rename(&mut columns, names, &alias, node)?;
        let plan = Some(Box::new(Plan::Named { slot, name, registers: registers.clone() }));
        let rows = Rows::Plan { plan, registers, lateral: 0, outer: lowest.is_some() };
        self.add_relation(Relation { alias, columns, rows, is_plain: true, hidden: 0 }, node)
    }
}
