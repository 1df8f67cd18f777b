//! The signature of a routine: its options, its parameters, its result.

use crate::binder::{Binder, Name, Variable};
use crate::error::StatementError;
use crate::routine::Routine;
use crate::types::{object_name, short, without_limits};
use catalog::{ScalarType, Type};
use procedure::{Parameter, Register, SqlError};
use squawk_syntax::ast::{self, AstNode};

/// Returns the OUT and INOUT parameters, with their registers.
fn outputs_of(parameters: &[Parameter]) -> impl Iterator<Item = (Register, &Parameter)> {
    let outputs = parameters.iter().enumerate().filter(|(_, parameter)| parameter.is_output());
    outputs.map(|(position, parameter)| (Register(position as u32), parameter))
}

impl Routine {
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
            if parameter.takes_row() {
                let number = format!("${}", position + 1);
                binder.declare_row_parameter(parameter, position, [&parameter.name, &number])?;
            }
        }
        Ok(parameters)
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
        if let Some(table) = table {
            binder.refuse_domains(table, "a result of rows", ty.syntax())?;
        }
        binder.returns = Some(match table {
            Some(table) => table.visible().iter().map(|column| (column.name.clone(), column.ty)).collect(),
            None => vec![(short(&self.name).to_owned(), binder.bind_function_type(ty)?)],
        });
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
            let mut columns = Vec::new();
            for column in list.args() {
                let name = binder.part(column.name(), column.syntax())?;
                let ty = binder.part(column.func_type(), column.syntax())?;
                columns.push((ast::normalize_name_node(name.syntax()), binder.bind_function_type(&ty)?));
            }
            for (name, ty) in &columns {
                let register = binder.new_register(*ty);
                binder.returned.push(register);
                let variable = Variable { register, ty: *ty, constant: false };
                binder.declare(name.clone(), Name::Variable(variable));
            }
            binder.returns = Some(columns);
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
        let declared = without_limits(binder.bind_function_type(&ty)?);
        let mut outputs = outputs_of(parameters);
        match (outputs.next(), outputs.next()) {
            (None, _) => Ok(Some((binder.new_register(declared), declared))),
            (Some((register, only)), None) if only.ty == declared => Ok(Some((register, declared))),
            (Some((_, only)), None) => {
                let message = format!("function result type must be {} because of OUT parameters", only.ty);
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
                let columns = outputs.iter().enumerate().map(|(position, (_, parameter))| {
                    let name = if parameter.name.is_empty() {
                        format!("column{}", position + 1)
                    } else {
                        parameter.name.clone()
                    };
                    (name, parameter.ty)
                });
                binder.returns = Some(columns.collect());
                binder.row_label = Some(binder.new_label());
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
