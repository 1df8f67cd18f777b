//! CALL: the procedure that it names, its arguments, the variables that it sets.
//! Source: PostgreSQL 15, `transformCallStmt` and `make_callstmt_target`.

use crate::arguments::{fits, takes_inputs};
use crate::binder::{Binder, Name, Typed, Variable};
use crate::error::StatementError;
use crate::plan::Bound;
use crate::types::object_name;
use procedure::query::{OutputColumn, Plan};
use procedure::{
    Cast, CastContext, Expression, Parameter, Procedure, QueryTarget, Raise, Register, SqlError, Statement,
    built_ins_named,
};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// A procedure with the arguments of a CALL.
pub(crate) struct CalledProcedure {
    pub(crate) procedure: Arc<Procedure>,
    /// The values of the input parameters.
    pub(crate) inputs: Vec<Expression>,
    /// The argument of each parameter; `None` for an omitted one.
    placed: Vec<Option<Typed>>,
}

impl Binder<'_> {
    /// Binds the procedure and the arguments of a CALL. As in PostgreSQL, there is an argument for every OUT
    /// parameter; it has the parameter's type and is not evaluated.
    ///
    /// # Errors
    /// `3F000`: there is no such schema. `42883`: there is no such procedure. `42809`: it is a function.
    pub(crate) fn bind_called(&mut self, call: &ast::Call) -> Result<CalledProcedure, StatementError> {
        let path = self.part(call.procedure_name_ref().and_then(|name| name.path_ref()), call.syntax())?;
        self.check_argument_names(call.arg_list().as_ref())?;
        self.check_qualifier(&path, call.syntax())?;
        let (name, node) = (object_name(&path), path.syntax());
        let Some(procedure) = self.schema.procedure(&name).cloned() else {
            let shown = self.shown_call(&name, call.arg_list(), node)?;
            return Err(match built_ins_named(&name) {
                [] => self.no_procedure_of(&shown, node),
                _ => self.no_procedure_but_function(&shown, node),
            });
        };
        let parameters: Vec<_> = procedure.parameters.iter().collect();
        let placed = self.placed_values(&procedure, &parameters, call.arg_list(), node)?;
        let takes = |(parameter, argument): (&Parameter, &Option<Typed>)| match argument {
            Some(argument) => procedure.is_template || fits(argument, parameter.ty),
            None => parameter.is_input() && parameter.has_default(),
        };
        if !procedure.parameters.iter().zip(&placed).all(takes) {
            let given: Vec<_> = placed.into_iter().flatten().collect();
            return Err(self.no_routine(&procedure, &given, node));
        }
        if procedure.is_function {
            let shown = self.shown_call(&name, call.arg_list(), node)?;
            return Err(self.no_procedure_but_function(&shown, node));
        }
        let mut inputs = Vec::new();
        for (parameter, argument) in procedure.parameters.iter().zip(&placed) {
            match argument.clone() {
                argument if parameter.is_input() => inputs.push(argument),
                Some(argument) => {
                    self.coerce(argument, parameter.ty, CastContext::Implicit, node)?;
                }
                None => {}
            }
        }
        let inputs = self.call_arguments(&procedure, inputs, node)?;
        Ok(CalledProcedure { procedure, inputs, placed })
    }

    /// Returns the error of a CALL of a function. `shown` has the types of the arguments.
    fn no_procedure_but_function(&self, shown: &str, node: &SyntaxNode) -> StatementError {
        let error = SqlError::new("42809", format!("{shown} is not a procedure"));
        self.error(node, error.with_hint("To call a function, use SELECT."))
    }

    /// Refuses a call of a procedure as a function.
    ///
    /// # Errors
    /// `42809`: the name is that of a procedure. `42883`: this procedure does not take the arguments.
    pub(crate) fn refuse_procedure(
        &mut self,
        name: &str,
        list: Option<ast::ArgList>,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let procedure = self.schema.procedure(name).filter(|own| !own.is_function).cloned();
        let Some(procedure) = procedure.filter(|_| built_ins_named(name).is_empty()) else { return Ok(()) };
        let shown = self.shown_call(name, list.clone(), node)?;
        let placed = self.function_arguments(&procedure, list, node);
        if !placed.is_ok_and(|placed| takes_inputs(&procedure, &placed)) {
            return Err(self.no_function_of(&shown, node));
        }
        let error = SqlError::new("42809", format!("{shown} is a procedure"));
        Err(self.error(node, error.with_hint("To call a procedure, use CALL.")))
    }

    /// Binds a CALL whose outputs are discarded.
    pub(crate) fn bind_call_without_outputs(
        &mut self,
        call: &ast::Call,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let CalledProcedure { procedure, inputs: arguments, .. } = self.bind_called(call)?;
        self.note_call(&procedure);
        out.push(Statement::Call { procedure, arguments, outputs: Vec::new() });
        Ok(())
    }

    /// Binds a CALL whose outputs are a row for the client.
    pub(crate) fn bind_call_for_client(
        &mut self,
        call: &ast::Call,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let CalledProcedure { procedure, inputs: arguments, .. } = self.bind_called(call)?;
        self.note_call(&procedure);
        let mut columns = Vec::new();
        for (name, _, ty) in procedure.outputs() {
            columns.push(OutputColumn { name: name.to_owned(), ty, register: self.new_register(ty) });
        }
        let outputs = columns.iter().map(|column| (column.register, Cast::Same)).collect();
        out.push(Statement::Call { procedure, arguments, outputs });
        if !columns.is_empty() {
            let query = self.bind_query(|_| Ok(Bound { plan: Plan::One, columns, ..Bound::default() }))?;
            out.push(Statement::Query(self.query(query, QueryTarget::Client, call.syntax())));
        }
        Ok(())
    }

    /// Binds a CALL whose outputs are variables.
    pub(crate) fn bind_call_statement(
        &mut self,
        call: &ast::Call,
        out: &mut Vec<Statement>,
    ) -> Result<(), StatementError> {
        let CalledProcedure { procedure, inputs, placed } = self.bind_called(call)?;
        // Also a CALL that fails depends on the procedure, because its text does.
        self.note_call(&procedure);
        let mut outputs = Vec::new();
        for (parameter, argument) in procedure.parameters.iter().zip(&placed) {
            if !parameter.is_output() {
                continue;
            }
            // As in PostgreSQL, a variable whose value is converted is not writable.
            let variable = match argument {
                Some(Typed::Known(Expression::Register(register), ty))
                    if ty.base() == parameter.ty.base() =>
                {
                    Cast::between(parameter.ty.element(), ty.element(), false).map(|cast| (*register, cast))
                }
                _ => None,
            };
            let Some((register, cast)) = variable else {
                let reason = "is an output parameter but corresponding argument is not writable";
                let message = format!("procedure parameter \"{}\" {reason}", parameter.name);
                return Err(self.error(call.syntax(), SqlError::new("42601", message)));
            };
            if let Some(name) = self.constant_of(register) {
                // As in PostgreSQL, the execution of the statement fails, before it evaluates an argument.
                let message = format!("variable \"{name}\" is declared CONSTANT");
                self.lifted.iter_mut().for_each(Vec::clear);
                out.push(Statement::Raise(Box::new(Raise::error("22005", &message))));
                return Ok(());
            }
            outputs.push((self.target_for(register), cast));
        }
        out.push(Statement::Call { procedure, arguments: inputs, outputs });
        Ok(())
    }

    /// Returns the name of the constant that a register holds, or a field of; `None` if it holds none.
    fn constant_of(&self, register: Register) -> Option<&str> {
        let is_it = |variable: &Variable| variable.constant && variable.register == register;
        let holds = |name: &Name| match name {
            Name::Variable(variable) => is_it(variable),
            Name::Record(Some(fields)) | Name::Row(fields) => fields.iter().any(|(_, own)| is_it(own)),
            _ => false,
        };
        let mut names = self.scopes.iter().rev().flat_map(|(_, names)| names);
        names.find(|(_, meaning)| holds(meaning)).map(|(name, _)| name.as_str())
    }
}
