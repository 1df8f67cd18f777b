//! The operators of the grammar by their symbols.

use procedure::CompareOperator;
use squawk_syntax::ast::{self, AstNode};

/// Returns the symbol of an operator that the table of operators may have, without the schema of
/// `OPERATOR(schema.symbol)`; `None` for any other operator.
pub(crate) fn symbol_of(operator: &ast::BinOp) -> Option<String> {
    use ast::BinOp;
    let symbol = match operator {
        BinOp::Plus(_) => "+",
        BinOp::Minus(_) => "-",
        BinOp::Star(_) => "*",
        BinOp::Slash(_) => "/",
        BinOp::Percent(_) => "%",
        BinOp::Caret(_) => "^",
        BinOp::Like(_) => "~~",
        BinOp::NotLike(_) => "!~~",
        BinOp::Ilike(_) => "~~*",
        BinOp::NotIlike(_) => "!~~*",
        BinOp::CustomOp(custom) => return Some(custom.syntax().text().to_string()),
        BinOp::OperatorCall(qualified) => {
            let text = qualified.syntax().text().to_string();
            let inner = text.trim_end_matches(')').rsplit('(').next().unwrap_or_default().trim().to_owned();
            return Some(inner.rsplit('.').next().unwrap_or_default().to_owned());
        }
        _ => return None,
    };
    Some(symbol.into())
}

/// Returns the comparison that a binary operator denotes.
pub(crate) fn comparison_operator(operator: &ast::BinOp) -> Option<CompareOperator> {
    Some(match operator {
        ast::BinOp::Eq(_) => CompareOperator::Equal,
        ast::BinOp::Neq(_) | ast::BinOp::Neqb(_) => CompareOperator::NotEqual,
        ast::BinOp::LAngle(_) => CompareOperator::Less,
        ast::BinOp::Lteq(_) => CompareOperator::LessOrEqual,
        ast::BinOp::RAngle(_) => CompareOperator::Greater,
        ast::BinOp::Gteq(_) => CompareOperator::GreaterOrEqual,
        _ => return None,
    })
}
