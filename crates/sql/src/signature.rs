//! The signature of a routine: its options, its parameters, its result.

use crate::binder::{Binder, Name, Variable};
use crate::domain_values::DeclaredType;
use crate::error::StatementError;
use crate::full_names::short;
use crate::routine::Routine;
use crate::source::Source;
use crate::types::object_name;
use catalog::{ScalarType, Type};
use procedure::{Expression, Parameter, Register, SqlError, Statement};
use squawk_syntax::ast::{self, AstNode};

/// Returns the OUT and INOUT parameters, with their registers.
fn outputs_of(parameters: &[Parameter]) -> impl Iterator<Item = (Register, &Parameter)> {
    let outputs = parameters.iter().enumerate().filter(|(_, parameter)| parameter.is_output());
    outputs.map(|(position, parameter)| (Register(position as u32), parameter))
}

/// Returns the domains of parameters.
fn domains_of(parameters: &[(Register, &Parameter)]) -> Vec<Option<String>> {
    parameters.iter().map(|(_, own)| own.domain().map(str::to_owned)).collect()
}

/// Returns the type of a result, and its domain. As in PostgreSQL, only the type of a domain has a length or
/// precision.
fn type_of_result(binder: &Binder<'_>, ty: &ast::FuncType) -> Result<DeclaredType, StatementError> {
    Ok(match binder.bind_function_type(ty)? {
        (ty, None) => (ty.base(), None),
        of_domain => of_domain,
    })
}

/// Binds RETURNS TABLE, whose columns are variables.
fn bind_table(binder: &mut Binder<'_>, list: &ast::ReturnTableArgList) -> Result<(), StatementError> {
    let mut columns = Vec::new();
    for column in list.args() {
        let name = binder.part(column.name(), column.syntax())?;
        let ty = binder.part(column.func_type(), column.syntax())?;
        let (ty, domain) = type_of_result(binder, &ty)?;
        columns.push((ast::normalize_name_node(name.syntax()), ty));
        binder.returned_domains.push(domain);
    }
    for (position, (name, ty)) in columns.iter().enumerate() {
        let register = binder.new_register(*ty);
        binder.returned_domains[position].clone().map(|own| binder.domains.insert(register, own));
        binder.returned.push(register);
        let variable = Variable { register, ty: *ty, constant: false };
        binder.declare(name.clone(), Name::Variable(variable));
    }
    binder.returns = Some(columns);
    Ok(())
}

impl Routine {
    /// Refuses a new procedure with an OUT parameter behind one with a default. One that an earlier release
    /// has made stays.
    pub(crate) fn check_outputs(&self, source: &Source) -> Result<(), StatementError> {
        let parameters = self.parameters.iter().flat_map(|list| list.params());
        let mut by_default = parameters.skip_while(|own| own.param_default().is_none());
        if self.is_function || !by_default.any(|own| matches!(own.mode(), Some(ast::ParamMode::ParamOut(_))))
        {
            return Ok(());
        }
        let message = "procedure OUT parameters cannot appear after one with a default value";
        Err(source.error_at(self.node.text_range().start().into(), SqlError::new("42P13", message)))
    }

    /// Binds and declares the parameters. They can be qualified by the routine's name.
    pub(crate) fn bind_parameters(&self, binder: &mut Binder<'_>) -> Result<Vec<Parameter>, StatementError> {
        let mut parameters = Vec::new();
        for parameter in self.parameters.iter().flat_map(|list| list.params()) {
            parameters.push(binder.bind_parameter(&parameter)?);
        }
        let mut inputs = parameters.iter().filter(|parameter| parameter.is_input());
        if inputs.by_ref().any(|parameter| parameter.is_variadic) && inputs.next().is_some() {
            let error = SqlError::new("42P13", "VARIADIC parameter must be the last input parameter");
            return Err(binder.error(&self.node, error));
        }
        let inputs = parameters.iter().filter(|parameter| parameter.is_input());
        if inputs.skip_while(|own| !own.has_default()).any(|own| !own.has_default()) {
            let message = "input parameters after one with a default value must also have defaults";
            return Err(binder.error(&self.node, SqlError::new("42P13", message)));
        }
        binder.scopes.push((Some(short(&self.name).to_owned()), Default::default()));
        for (position, parameter) in parameters.iter().enumerate() {
            let register = binder.new_register(parameter.ty);
            let variable = Variable { register, ty: parameter.ty, constant: false };
            let number = format!("${}", position + 1);
            if !parameter.takes_row() {
                binder.declare(number, Name::Variable(variable));
            }
            if !parameter.name.is_empty() {
                if parameters[..position].iter().any(|earlier| earlier.name == parameter.name) {
                    let message = format!("parameter name \"{}\" used more than once", parameter.name);
                    return Err(binder.error(&self.node, SqlError::new("42P13", message)));
                }
                if !parameter.takes_row() {
                    binder.declare(parameter.name.clone(), Name::Variable(variable));
                }
            }
        }
        // The registers of parameters come first.
        for (position, parameter) in parameters.iter().enumerate() {
            self.bind_domain_of(binder, parameter, Register(position as u32))?;
        }
        for (position, parameter) in parameters.iter().enumerate() {
            if parameter.takes_row() {
                let number = format!("${}", position + 1);
                binder.declare_row_parameter(parameter, position, [&parameter.name, &number])?;
            }
        }
        Ok(parameters)
    }

    /// Notes the domain of a parameter. The value of an argument is checked before the first statement.
    fn bind_domain_of(
        &self,
        binder: &mut Binder<'_>,
        parameter: &Parameter,
        target: Register,
    ) -> Result<(), StatementError> {
        let Some(domain) = parameter.domain() else { return Ok(()) };
        binder.domains.insert(target, domain.to_owned());
        if parameter.is_input() {
            let value = binder.checked_for(target, Expression::Register(target), &self.node)?;
            binder.prologue.push(Statement::Assign { target, value });
        }
        Ok(())
    }

    /// Binds SETOF: rows of one value, of a table's columns, or of the OUT parameters.
    fn bind_rows(
        &self,
        binder: &mut Binder<'_>,
        ty: &ast::FuncType,
        parameters: &[Parameter],
    ) -> Result<(), StatementError> {
        let outputs: Vec<_> = outputs_of(parameters).collect();
        if let Some(columns) = binder.actual.as_ref().and_then(|actual| actual.columns.clone()) {
            binder.returns = Some(columns);
            return Ok(());
        }
        if !outputs.is_empty() {
            binder.returned = outputs.iter().map(|(register, _)| *register).collect();
            binder.returned_domains = domains_of(&outputs);
            binder.returns = Some(
                outputs.into_iter().map(|(_, parameter)| (parameter.name.clone(), parameter.ty)).collect(),
            );
            return Ok(());
        }
        let path = match ty {
            ast::FuncType::Type(ast::Type::PathType(path)) => path.path_ref(),
            _ => None,
        };
        let table = path.and_then(|path| binder.schema.catalog().table(&object_name(&path)).ok());
        (binder.returns, binder.returned_domains) = match table {
            Some(table) => {
                binder.refuse_domains(table, "a result of rows", ty.syntax())?;
                (Some(Binder::row_columns(table)), Vec::new())
            }
            None => {
                let (ty, domain) = type_of_result(binder, ty)?;
                (Some(vec![(short(&self.name).to_owned(), ty)]), vec![domain])
            }
        };
        Ok(())
    }

    pub(crate) fn bind_result(
        &self,
        binder: &mut Binder<'_>,
        parameters: &[Parameter],
    ) -> Result<Option<(Register, Type)>, StatementError> {
        let Some(result) = &self.result else {
            return if self.is_function { self.result_of_outputs(binder, parameters) } else { Ok(None) };
        };
        if let Some(list) = result.return_table_arg_list() {
            bind_table(binder, &list)?;
            return Ok(None);
        }
        let ty = binder.part(result.func_type(), result.syntax())?;
        let text = ty.syntax().text().to_string().to_lowercase();
        if text == "void" {
            binder.is_void = true;
            let ty = ScalarType::Text.into();
            return Ok(Some((binder.new_register(ty), ty)));
        }
        if text == "record" {
            if let Some(columns) = binder.actual.as_ref().and_then(|actual| actual.columns.clone()) {
                binder.declare_row_result(columns);
                return Ok(None);
            }
            return self.result_of_outputs(binder, parameters);
        }
        if text.starts_with("setof") {
            self.bind_rows(binder, &ty, parameters)?;
            return Ok(None);
        }
        if let Some(table) = binder.table_of_type(&ty) {
            binder.refuse_domains(&table, "a result of rows", ty.syntax())?;
            if outputs_of(parameters).next().is_some() {
                let message = "function result type must be record because of OUT parameters";
                return Err(binder.error(ty.syntax(), SqlError::new("42P13", message)));
            }
            binder.declare_row_result(Binder::row_columns(&table));
            return Ok(None);
        }
        let (declared, domain) = type_of_result(binder, &ty)?;
        let mut outputs = outputs_of(parameters);
        match (outputs.next(), outputs.next()) {
            (None, _) => {
                let register = binder.new_register(declared);
                domain.map(|domain| binder.domains.insert(register, domain));
                Ok(Some((register, declared)))
            }
            (Some((register, only)), None) if only.ty == declared && only.domain() == domain.as_deref() => {
                Ok(Some((register, declared)))
            }
            (Some((_, only)), None) => {
                let only = only.type_name();
                let message = format!("function result type must be {only} because of OUT parameters");
                Err(binder.error(ty.syntax(), SqlError::new("42P13", message)))
            }
            _ => {
                let message = "function result type must be record because of OUT parameters";
                Err(binder.error(ty.syntax(), SqlError::new("42P13", message)))
            }
        }
    }

    /// Returns the result of a function with OUT parameters: the only one, or a row of several.
    fn result_of_outputs(
        &self,
        binder: &mut Binder<'_>,
        parameters: &[Parameter],
    ) -> Result<Option<(Register, Type)>, StatementError> {
        let outputs: Vec<_> = outputs_of(parameters).collect();
        match outputs.as_slice() {
            [] if self.result.is_some() => {
                Err(binder.unsupported(&self.node, "RETURNS record without OUT parameters"))
            }
            [] => {
                let error = SqlError::new("42P13", "function result type must be specified");
                Err(binder.error(&self.node, error))
            }
            [(register, only)] => Ok(Some((*register, only.ty))),
            _ => {
                binder.returned = outputs.iter().map(|(register, _)| *register).collect();
                binder.returned_domains = domains_of(&outputs);
                let columns = outputs.iter().enumerate().map(|(position, (_, parameter))| {
                    let name = if parameter.name.is_empty() {
                        format!("column{}", position + 1)
                    } else {
                        parameter.name.clone()
                    };
                    (name, parameter.ty)
                });
                binder.returns = Some(columns.collect());
                binder.declare_row_end();
                Ok(None)
            }
        }
    }

    pub(crate) fn check_options(&self, binder: &Binder<'_>) -> Result<(), StatementError> {
        for option in self.options.iter().flat_map(|list| list.options()) {
            match option {
                ast::FuncOption::LanguageFuncOption(language) => {
                    let name = language.language_name().map(|language| language.name).unwrap_or_default();
                    if name != "plpgsql" && name != "sql" {
                        let what = format!("language {name} (use plpgsql or sql)");
                        return Err(binder.unsupported(language.syntax(), &what));
                    }
                }
                ast::FuncOption::SetFuncOption(option)
                    if option.syntax().text().to_string().to_lowercase().contains("search_path") => {}
                ast::FuncOption::SetFuncOption(_)
                | ast::FuncOption::WindowFuncOption(_)
                | ast::FuncOption::TransformFuncOption(_) => {
                    return Err(binder.unsupported(option.syntax(), "this option of a routine"));
                }
                _ => {}
            }
        }
        if !self.is_function && self.result.is_some() {
            return Err(binder.syntax(&self.node, "a procedure returns nothing: use OUT parameters"));
        }
        Ok(())
    }
}
