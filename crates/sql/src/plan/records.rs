//! Binds JSON functions in FROM that return records. The statement defines their columns, as in
//! `json_to_recordset(…) AS r (a INT, b TEXT)`, or names a table that has them, as in
//! `json_populate_recordset(NULL::t, …)`.
//! Source: PostgreSQL 15, `jsonfuncs.c`, `populate_record`.

use super::applied::{Applied, apply_ahead, compute};
use super::sets::{SetFunction, returns_record};
use super::{References, Relation, Rows};
use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use catalog::{ScalarType, Type};
use procedure::query::{Plan, TableFunction};
use procedure::{CastContext, Expression, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// A call in FROM of a function of JSON objects, with its bound arguments.
pub(super) struct RecordCall<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: Vec<Typed>,
    pub(super) applied: Vec<Applied>,
    pub(super) references: References,
}

impl Binder<'_> {
    /// Adds the rows of a function of JSON objects, with the columns of a definition list.
    pub(super) fn add_records(
        &mut self,
        call: RecordCall<'_>,
        item: &ast::FunctionFromItem,
        list: &ast::ColumnDefList,
    ) -> Result<usize, StatementError> {
        if !returns_record(call.name) {
            let message = "a column definition list is only allowed for functions returning \"record\"";
            return Err(self.error(list.syntax(), SqlError::new("42601", message)));
        }
        let mut columns = Vec::new();
        for column in list.column_defs() {
            let node = column.syntax();
            let name = ast::normalize_name_node(self.part(column.name(), node)?.syntax());
            columns.push((name, self.bind_type(&self.part(column.ty(), node)?)?, node.clone()));
        }
        self.add_objects(call, item, columns)
    }

    /// Binds `json_populate_record(NULL::table, …)`, `json_populate_recordset` and their `jsonb` variants.
    /// Returns `None` for any other call.
    pub(super) fn add_populated(
        &mut self,
        name: &str,
        arguments: &[ast::Expr],
        item: &ast::FunctionFromItem,
    ) -> Result<Option<usize>, StatementError> {
        let of_record = match name {
            "json_populate_record" => "json_to_record",
            "json_populate_recordset" => "json_to_recordset",
            "jsonb_populate_record" => "jsonb_to_record",
            "jsonb_populate_recordset" => "jsonb_to_recordset",
            _ => return Ok(None),
        };
        let node = item.syntax();
        let Some((table, objects)) = arguments.split_first().and_then(|(base, objects)| {
            let ast::Expr::CastExpr(cast) = base else { return None };
            let is_null =
                |operand: ast::Expr| operand.syntax().text().to_string().eq_ignore_ascii_case("null");
            cast.expr().filter(|operand| is_null(operand.clone()))?;
            Some((self.table_named_by(&cast.ty()?)?, objects))
        }) else {
            return Err(self.unsupported(node, &format!("{name} of a row other than NULL::table")));
        };
        self.refuse_domains(&table, "JSON as rows", node)?;
        let bind = |binder: &mut Self| objects.iter().map(|object| binder.bind(object)).collect();
        let ((arguments, applied), references) = self.referring(|binder| binder.applying(bind))?;
        let columns =
            table.visible().iter().map(|column| (column.name.clone(), column.ty, node.clone())).collect();
        let call = RecordCall { name: of_record, arguments, applied, references };
        self.add_objects(call, item, columns).map(Some)
    }

    fn add_objects(
        &mut self,
        call: RecordCall<'_>,
        item: &ast::FunctionFromItem,
        defined: Vec<(String, Type, SyntaxNode)>,
    ) -> Result<usize, StatementError> {
        let node = item.syntax();
        let RecordCall { name, arguments, applied, references } = call;
        let SetFunction { function, arguments, .. } = self.set_function(name, arguments, node)?;
        let TableFunction::Json(rows) = function else { unreachable!("{name} returns JSON objects") };
        if item.with_ordinality().is_some() {
            return Err(self.unsupported(node, "WITH ORDINALITY of this function"));
        }
        let object = self.new_register(rows.argument());
        let (mut columns, mut registers, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (column_name, ty, column_node) in defined {
            let register = self.new_register(ty);
            let object = Typed::Known(Expression::Register(object), rows.argument().into());
            values.push((register, self.member(object, &column_name, ty, &column_node)?));
            registers.push(register);
            columns.push((column_name, ty));
        }
        let of = Plan::Function { function, arguments, registers: vec![object], ordinality: None };
        let plan = apply_ahead(applied, compute(of, values));
        let alias = item.alias().and_then(|name| name.name());
        let alias = alias.map_or_else(|| name.into(), |name| ast::normalize_name_node(name.syntax()));
        let (lateral, outer) = (references.relations, references.outer);
        let rows = Rows::Plan { plan: Some(Box::new(plan)), registers, lateral, outer };
        self.add_relation(Relation { alias, columns, rows, is_plain: true, hidden: 0 }, node)
    }

    /// Returns a member of a JSON object as a value of a type.
    fn member(
        &self,
        object: Typed,
        name: &str,
        ty: Type,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let Type::Scalar(scalar) = ty else {
            return Err(self.unsupported(node, "an array as a column of a JSON object"));
        };
        let is_json = matches!(scalar, ScalarType::Json | ScalarType::Jsonb);
        let operands = vec![object, Typed::Literal(name.into())];
        let value = self.operator(if is_json { "->" } else { "->>" }, operands, node)?;
        // An assignment cast refuses a text that is too long, as the input function of the type does.
        let context = if scalar.is_text() { CastContext::Assignment } else { CastContext::Explicit };
        self.coerce(value, ty, context, node)
    }
}
