//! Row triggers of a partitioned table: TG_TABLE_NAME and its relatives are those of the leaf partition.
//!
//! A new row has the partition that takes it before the trigger changes it, any other row that of OLD.

use super::function::has_record;
use crate::StatementError;
use crate::binder::{Binder, Name, Variable};
use crate::full_names::short;
use crate::system_functions::looked_up;
use catalog::{ScalarType, Table, Trigger, TriggerEvent};
use procedure::{CastContext, Expression, Statement};
use squawk_syntax::SyntaxNode;

impl Binder<'_> {
    /// Declares the names of the partition of a trigger's row. Returns the statements that find it; none if
    /// the table is not partitioned or the trigger has no row.
    pub(crate) fn declare_partition(
        &mut self,
        table: &Table,
        trigger: &Trigger,
        event: TriggerEvent,
        node: &SyntaxNode,
    ) -> Result<Vec<Statement>, StatementError> {
        let schema = self.schema;
        let record = if has_record("old", event) { "old" } else { "new" };
        let first = match self.name(record) {
            Some(Name::Row(fields)) => fields.first().map(|(_, variable)| variable.register),
            _ => None,
        };
        let Some(first) = first.filter(|_| trigger.for_each_row && schema.is_partitioned(&table.name)) else {
            return Ok(Vec::new());
        };
        let ty = ScalarType::BigInt.into();
        let value = self.bind_definition(&schema.number_of_leaf(&table.name), node, |inner, number| {
            inner.over_row(table, first, |inner| inner.bind_as(number, ty, CastContext::Explicit))
        })?;
        let register = self.new_register(ScalarType::BigInt);
        let number = Variable { register, ty, constant: true };
        self.declare("tg_relid".into(), Name::Variable(number));
        let leaves = schema.leaves_of(&table.name);
        let schema_of = |name: &str| name.rsplit_once('.').map_or("public", |(schema, _)| schema).to_owned();
        let names: Vec<_> = leaves.iter().map(|(number, name)| (*number, short(name).to_owned())).collect();
        let schemas: Vec<_> = leaves.iter().map(|(number, name)| (*number, schema_of(name))).collect();
        for (name, texts, otherwise) in [
            ("tg_table_name", names.clone(), table.short_name()),
            ("tg_relname", names, table.short_name()),
            ("tg_table_schema", schemas, &*schema_of(&table.name)),
        ] {
            let value = looked_up(Expression::Register(register), texts, Expression::text(otherwise));
            self.declare(name.into(), Name::Constant(value, ScalarType::Text.into()));
        }
        Ok(vec![Statement::Assign { target: register, value }])
    }
}
