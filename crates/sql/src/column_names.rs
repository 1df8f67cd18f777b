//! Names of result columns that their query does not name, as PostgreSQL makes them.
//! Source: PostgreSQL, `FigureColname` in parse_target.c.

use crate::binder::Binder;
use crate::object_values::written_type;
use crate::system::type_name;
use squawk_syntax::ast;

/// The name of a column without a name.
const UNNAMED: &str = "?column?";

/// The name that an expression suggests.
enum Suggested {
    /// The name of a column or function. A cast keeps it.
    Own(String),
    /// The name of a form of expression. A cast replaces it by the name of its type.
    Form(String),
}

impl Binder<'_> {
    /// Returns the name of a result column whose expression has no alias.
    pub(crate) fn column_name(&self, expression: &ast::Expr) -> String {
        match self.suggested_name(expression) {
            Some(Suggested::Own(name) | Suggested::Form(name)) => name,
            None => UNNAMED.into(),
        }
    }

    fn suggested_name(&self, expression: &ast::Expr) -> Option<Suggested> {
        let named = |name: &str| Some(Suggested::Own(name.into()));
        match expression {
            ast::Expr::NameRef(name) => Some(Suggested::Own(name.text())),
            ast::Expr::FieldExpr(field) => Some(Suggested::Own(field.field()?.text())),
            ast::Expr::CallExpr(call) => match call.expr() {
                Some(callee) => self.suggested_name(&callee),
                None => named(special_name(call)?),
            },
            ast::Expr::CaseExpr(case) => {
                match case.else_clause().and_then(|clause| self.suggested_name(&clause.expr()?)) {
                    Some(Suggested::Own(name)) => Some(Suggested::Own(name)),
                    _ => Some(Suggested::Form("case".into())),
                }
            }
            ast::Expr::CastExpr(cast) => match cast.expr().and_then(|inner| self.suggested_name(&inner)) {
                Some(Suggested::Own(name)) => Some(Suggested::Own(name)),
                _ => Some(Suggested::Form(self.name_of_type(&cast.ty()?))),
            },
            ast::Expr::ArrayExpr(_) => named("array"),
            ast::Expr::TupleExpr(_) => named("row"),
            ast::Expr::Collate(collate) => self.suggested_name(&collate.expr()?),
            ast::Expr::IndexExpr(index) => self.suggested_name(&index.base()?),
            ast::Expr::SliceExpr(slice) => self.suggested_name(&slice.base()?),
            ast::Expr::ParenExpr(paren) => match paren.expr() {
                Some(inner) => self.suggested_name(&inner),
                None => self.first_name(&Self::query_of(paren)?).map(Suggested::Own),
            },
            ast::Expr::BinExpr(binary) if matches!(binary.op(), Some(ast::BinOp::AtTimeZone(_))) => {
                named("timezone")
            }
            _ => None,
        }
    }

    /// Returns the name of the first column of a subquery; `None` for one of `*`.
    fn first_name(&self, query: &ast::SelectVariant) -> Option<String> {
        match query {
            ast::SelectVariant::CompoundSelect(compound) => self.first_name(&compound.lhs()?),
            ast::SelectVariant::ParenSelect(paren) => self.first_name(&paren.select()?),
            ast::SelectVariant::Values(_) => Some("column1".into()),
            ast::SelectVariant::Select(select) => {
                let target = select.select_clause()?.target_list()?.targets().next()?;
                Some(match target.as_name().and_then(|name| name.name()) {
                    Some(alias) => alias.text(),
                    // A column without a name is `?column?` in a subquery, too.
                    None => self.column_name(&target.expr()?),
                })
            }
            _ => None,
        }
    }

    /// Returns the name of a type in the system catalogs.
    fn name_of_type(&self, ty: &ast::Type) -> String {
        match self.bind_type(ty) {
            Ok(ty) => type_name(ty.element()).into(),
            Err(_) => {
                let text = written_type(ty);
                text.rsplit('.').next().unwrap_or_default().trim().into()
            }
        }
    }
}

/// Returns the name of a function with a special syntax.
fn special_name(call: &ast::CallExpr) -> Option<&'static str> {
    let names = [
        (call.extract_fn().is_some(), "extract"),
        (call.exists_fn().is_some(), "exists"),
        (call.substring_fn().is_some(), "substring"),
        (call.position_fn().is_some(), "position"),
        (call.overlay_fn().is_some(), "overlay"),
        (call.json_object_fn().is_some(), "json_object"),
    ];
    if let Some(trim) = call.trim_fn() {
        return Some(match trim.trim_side() {
            Some(ast::TrimSide::TrimLeading(_)) => "ltrim",
            Some(ast::TrimSide::TrimTrailing(_)) => "rtrim",
            _ => "btrim",
        });
    }
    names.iter().find(|(is_called, _)| *is_called).map(|(_, name)| *name)
}
