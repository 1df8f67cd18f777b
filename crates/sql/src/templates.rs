//! Routines whose types each call decides: polymorphic parameters, and results of the type RECORD.
//! Source: PostgreSQL 15's documentation, "Polymorphic Types".
//!
//! Such a routine is a template. A call compiles the template for its types.
//! Not here: the choice of a built-in function for its arguments (`resolution`).
//! Held by: `templates.slt` in `crates/workload/tests/sql`.

use crate::actual::{Actual, Family, family_of};
use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::full_names::short;
use catalog::{ProcedureId, ScalarType, Type};
use procedure::{Procedure, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

impl Binder<'_> {
    /// Returns a polymorphic type as the call has decided it; `None` for any other type. Until a call decides
    /// it, TEXT is in its place.
    pub(crate) fn polymorphic_type(
        &self,
        name: &str,
        node: &SyntaxNode,
    ) -> Result<Option<Type>, StatementError> {
        let Some((family, is_array)) = family_of(name) else { return Ok(None) };
        let own = self.actual.as_ref().and_then(|actual| match family {
            Family::Element => actual.element,
            Family::Compatible => actual.compatible,
        });
        let own = own.unwrap_or(ScalarType::Text.into());
        match (own, is_array) {
            (own, false) => Ok(Some(own)),
            (Type::Scalar(element), true) => Ok(Some(Type::Array(element))),
            (Type::Array(_), true) => Err(self.unsupported(node, "an array of arrays")),
        }
    }

    /// Compiles a template for a call.
    ///
    /// # Errors
    /// The body cannot be bound for the types. `42883`: no types fit the arguments. `42804`: the arguments
    /// don't decide the types.
    pub(crate) fn instance(
        &mut self,
        template: &Arc<Procedure>,
        arguments: &[Typed],
        columns: Option<Vec<(String, Type)>>,
        node: &SyntaxNode,
    ) -> Result<Arc<Procedure>, StatementError> {
        let actual = self.actual_types(template, arguments, false, node)?;
        self.instance_of(template, actual, columns, node)
    }

    /// Compiles a template for a call with an argument for each parameter, some by name: the argument of a
    /// VARIADIC parameter is the whole array. `None` is an omitted argument.
    ///
    /// # Errors
    /// As `instance`.
    pub(crate) fn placed_instance(
        &mut self,
        template: &Arc<Procedure>,
        arguments: &[Option<Typed>],
        columns: Option<Vec<(String, Type)>>,
        node: &SyntaxNode,
    ) -> Result<Arc<Procedure>, StatementError> {
        let given: Vec<_> = arguments.iter().map(|own| own.clone().unwrap_or(Typed::Null)).collect();
        let actual = self.actual_types(template, &given, true, node)?;
        self.instance_of(template, actual, columns, node)
    }

    fn instance_of(
        &mut self,
        template: &Arc<Procedure>,
        mut actual: Actual,
        columns: Option<Vec<(String, Type)>>,
        node: &SyntaxNode,
    ) -> Result<Arc<Procedure>, StatementError> {
        let source = self.schema.trees.parse(&template.source)?;
        let routine = source.routine();
        let Some(mut routine) = routine else { return Err(self.unsupported(node, "this routine")) };
        if routine.returns_record() && columns.is_none() {
            let message = "a column definition list is required for functions returning \"record\"";
            return Err(self.error(node, SqlError::new("42601", message)));
        }
        actual.columns = columns;
        routine.actual = Some(actual);
        let mut schema = self.schema.clone();
        schema.procedures.remove(&template.name);
        let compiled = routine.compile(ProcedureId(u32::MAX), 0, &schema, &source).map_err(|error| {
            let calls_itself =
                error.error.sqlstate == "42883" && error.error.message.contains(short(&template.name));
            match calls_itself {
                true => self.unsupported(node, "a routine of RECORD or polymorphic types that calls itself"),
                false => self.error(node, error.error),
            }
        })?;
        self.callees.extend(compiled.callees.iter().cloned());
        Ok(Arc::new(compiled))
    }

    /// Returns the types that the arguments of a call decide. `is_placed`: the argument of a VARIADIC
    /// parameter is the whole array.
    fn actual_types(
        &self,
        template: &Procedure,
        arguments: &[Typed],
        is_placed: bool,
        node: &SyntaxNode,
    ) -> Result<Actual, StatementError> {
        let mut parameters: Vec<_> = template.inputs().map(|(_, own)| own).collect();
        let mut given: Vec<(&str, bool, &Typed)> = Vec::new();
        let rest = (template.is_variadic() && !is_placed).then(|| parameters.pop()).flatten();
        let fixed = arguments.len().min(parameters.len());
        for (parameter, argument) in parameters.iter().zip(&arguments[..fixed]) {
            given.extend(parameter.type_of.as_deref().map(|name| (name, false, argument)));
        }
        // Further arguments are elements of the array of the last parameter.
        let name = rest.and_then(|own| own.type_of.as_deref());
        given.extend(
            name.into_iter().flat_map(|name| arguments[fixed..].iter().map(move |own| (name, true, own))),
        );
        let mut actual = Actual::default();
        let mut compatible = Vec::new();
        for (name, is_element, argument) in given {
            let Some((family, is_array)) = family_of(name) else { continue };
            let Some(ty) = argument.known_type().map(Type::base) else { continue };
            let own = match (is_array && !is_element, ty) {
                (false, ty) => ty,
                (true, Type::Array(element)) => Type::Scalar(element),
                (true, Type::Scalar(_)) => {
                    return Err(self.no_function(short(&template.name), arguments, node));
                }
            };
            match family {
                Family::Compatible => {
                    compatible.push(Typed::Known(procedure::Expression::NULL, own));
                }
                Family::Element if actual.element.is_some_and(|known| known != own) => {
                    return Err(self.no_function(short(&template.name), arguments, node));
                }
                Family::Element => actual.element = Some(own),
            }
        }
        if !compatible.is_empty() {
            let unified = self.unify(&template.name, compatible, node);
            let refused = |_| self.no_function(short(&template.name), arguments, node);
            actual.compatible = Some(unified.map_err(refused)?.1);
        }
        let names = template.parameters.iter().filter_map(|own| own.type_of.as_deref());
        let mut families = names.filter_map(family_of).map(|(family, _)| family);
        if actual.element.is_none() && families.any(|family| family == Family::Element) {
            let message = "could not determine polymorphic type because input has type unknown";
            return Err(self.error(node, SqlError::new("42804", message)));
        }
        Ok(actual)
    }

    /// Returns the function that a call in FROM runs.
    ///
    /// # Errors
    /// `42601`: the call defines columns of a function that has its own. The errors of `instance`.
    pub(crate) fn function_of_rows(
        &mut self,
        called: Arc<Procedure>,
        arguments: &[Typed],
        item: &ast::FunctionFromItem,
    ) -> Result<Arc<Procedure>, StatementError> {
        let (columns, node) = (self.defined_columns(item.alias())?, item.syntax());
        if called.is_template {
            return self.instance(&called, arguments, columns, node);
        }
        if columns.is_some() {
            let message = "a column definition list is only allowed for functions returning \"record\"";
            return Err(self.error(node, SqlError::new("42601", message)));
        }
        Ok(called)
    }

    /// Returns the columns of a column definition list; `None` for any other alias.
    pub(crate) fn defined_columns(
        &self,
        alias: Option<ast::FromAlias>,
    ) -> Result<Option<Vec<(String, Type)>>, StatementError> {
        let Some(ast::FromAliasColumns::ColumnDefList(list)) = alias.and_then(|own| own.columns()) else {
            return Ok(None);
        };
        let mut columns = Vec::new();
        for column in list.column_defs() {
            let node = column.syntax();
            let name = ast::normalize_name_node(self.part(column.name(), node)?.syntax());
            columns.push((name, self.bind_type(&self.part(column.ty(), node)?)?));
        }
        Ok(Some(columns))
    }
}
