//! Binds ROWS FROM: set-returning functions that run side by side.
//! Source: PostgreSQL 15's documentation, "Table Functions".

use super::applied::apply_ahead;
use super::sets::{SetFunction, returns_record, returns_set};
use super::{Relation, Rows};
use crate::binder::Binder;
use crate::error::StatementError;
use crate::full_names::short;
use catalog::{ScalarType, Type};
use procedure::query::{Beside, Plan};
use squawk_syntax::ast::{self, AstNode};

impl Binder<'_> {
    /// Binds ROWS FROM.
    pub(super) fn bind_rows_from(&mut self, item: &ast::RowsFromItem) -> Result<usize, StatementError> {
        let node = item.syntax();
        let bind = |binder: &mut Self| {
            let calls = item.rows_from_args().map(|argument| binder.bind_rows_call(&argument));
            calls.collect::<Result<Vec<_>, _>>()
        };
        let ((calls, applied), references) = self.referring(|binder| binder.applying(bind))?;
        let (mut parts, mut columns): (Vec<Beside>, Vec<(String, Type)>) = Default::default();
        for (part, call_columns) in calls {
            parts.push(part);
            columns.extend(call_columns);
        }
        let mut registers: Vec<_> = parts.iter().flat_map(|part| part.registers.clone()).collect();
        let ordinality = item.with_ordinality().map(|_| self.new_register(ScalarType::BigInt));
        if let Some(ordinality) = ordinality {
            registers.push(ordinality);
            columns.push(("ordinality".into(), ScalarType::BigInt.into()));
        }
        let plan = apply_ahead(applied, Plan::Together { parts, ordinality });
        let (alias, names) = self.alias_of(item.alias())?;
        let alias = alias.unwrap_or_default();
        self.rename(&mut columns, names, &alias, node)?;
        let (lateral, outer) = (references.relations, references.outer);
        let rows = Rows::Plan { plan: Some(Box::new(plan)), registers, lateral, outer };
        self.add_relation(Relation { alias, columns, rows, is_plain: true, hidden: 0 }, node)
    }

    /// Binds a function of ROWS FROM. Returns its plan with its columns.
    fn bind_rows_call(
        &mut self,
        argument: &ast::RowsFromArg,
    ) -> Result<(Beside, Vec<(String, Type)>), StatementError> {
        let node = argument.syntax();
        let call = self.part(argument.call_expr(), node)?;
        let name = self.callee(&call)?;
        let routine = self.schema.procedure(&name).filter(|routine| routine.rows.is_some()).cloned();
        if let Some(procedure) = routine {
            let arguments = self.function_arguments(&procedure, call.arg_list(), node)?;
            let arguments = self.call_arguments(&procedure, arguments, node)?;
            let columns: Vec<_> = procedure.rows.iter().flatten().cloned().collect();
            let registers: Vec<_> = columns.iter().map(|(_, ty)| self.new_register(*ty)).collect();
            self.note_call(&procedure);
            let outputs = registers.clone();
            let plan = Plan::Rows { procedure, arguments, registers: outputs, ordinality: None };
            let only = columns.len() == 1;
            let named = |(column_name, ty): (String, Type)| {
                (if only { short(&name).to_owned() } else { column_name }, ty)
            };
            return Ok((Beside { plan, registers }, columns.into_iter().map(named).collect()));
        }
        if argument.column_def_list().is_some() || returns_record(&name) || !returns_set(&name) {
            return Err(self.unsupported(node, &format!("function {name} in ROWS FROM")));
        }
        let arguments = self.plain_arguments(call.arg_list())?;
        let arguments = self.without_results(&name, arguments);
        let bound = arguments.iter().map(|argument| self.bind(argument)).collect::<Result<Vec<_>, _>>()?;
        let SetFunction { function, arguments, columns } = self.set_function(&name, bound, node)?;
        let registers: Vec<_> = columns.iter().map(|(_, ty)| self.new_register(*ty)).collect();
        let outputs = registers.clone();
        let plan = Plan::Function { function, arguments, registers: outputs, ordinality: None };
        let named = columns
            .into_iter()
            .map(|(column_name, ty)| (column_name.map_or_else(|| name.clone(), str::to_owned), ty));
        Ok((Beside { plan, registers }, named.collect()))
    }
}
