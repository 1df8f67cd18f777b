//! Replaces the integers of statements by parameters, so that statements which differ in their integers only
//! have one text and share a plan.

use catalog::{ScalarType, Type, Value};
use squawk_lexer::{LiteralKind, TokenKind};

/// Maximum number of integers that are replaced. A statement with more of them loads rows, and its text is
/// not expected again.
const MOST: usize = 64;

/// The integer that is of the type INTEGER only with a minus before it.
const LEAST: i64 = 1 << 31;

/// A statement whose integers have become parameters.
#[derive(Clone, PartialEq, Debug)]
pub struct Lifted {
    /// The statement with parameters.
    pub text: String,
    /// The types that the integers have, as PostgreSQL reads them.
    pub types: Vec<Option<Type>>,
    /// The integers.
    pub values: Vec<Value>,
}

/// Replaces a statement's integers by parameters where an integer can only be a value: after comparisons,
/// plus and minus, in VALUES, and as arguments of CALL. Returns `None` if there is no such integer, or if a
/// parameter could change the meaning of the statement.
pub fn lift(text: &str) -> Option<Lifted> {
    let mut lifted =
        Lifted { text: String::with_capacity(text.len()), types: Vec::new(), values: Vec::new() };
    let (mut offset, mut depth) = (0, 0usize);
    let (mut has_begun, mut is_ordered) = (false, false);
    // Whether brackets hold a list of values, and whether the last token takes one.
    let (mut lists, mut takes) = (false, false);
    for token in squawk_lexer::tokenize(text) {
        let token_text = &text[offset..offset + token.len as usize];
        offset += token_text.len();
        let took = takes;
        match token.kind {
            TokenKind::Whitespace | TokenKind::LineComment | TokenKind::BlockComment { .. } => {
                lifted.text.push_str(token_text);
                continue;
            }
            TokenKind::Ident => {
                let word = token_text.to_ascii_lowercase();
                match (has_begun, word.as_str()) {
                    (false, "select" | "insert" | "update" | "delete") => {}
                    (false, "call") => lists = true,
                    // Keys of groups are compared by their text, so they must stay as they are written.
                    (false, _) | (true, "group" | "distinct" | "over") => return None,
                    (true, "values") => lists = true,
                    (true, "order") => is_ordered = true,
                    _ => {}
                }
                has_begun = true;
            }
            TokenKind::PositionalParam { .. } => return None,
            TokenKind::OpenParen | TokenKind::OpenBracket => depth += 1,
            TokenKind::CloseParen | TokenKind::CloseBracket => depth = depth.saturating_sub(1),
            _ => {}
        }
        takes = match token.kind {
            TokenKind::Eq | TokenKind::Lt | TokenKind::Gt | TokenKind::Plus => true,
            // `ORDER BY -1` is a position.
            TokenKind::Minus => !is_ordered,
            TokenKind::OpenParen | TokenKind::Comma => lists && depth == 1,
            _ => false,
        };
        let is_integer = matches!(token.kind, TokenKind::Literal { kind: LiteralKind::Int { .. }, .. })
            && token_text.bytes().all(|byte| byte.is_ascii_digit());
        match token_text.parse::<i64>() {
            // With a minus before it, it is the least number of the type INTEGER.
            Ok(LEAST) => lifted.text.push_str(token_text),
            Ok(value) if is_integer && took => {
                let ty = if i32::try_from(value).is_ok() { ScalarType::Integer } else { ScalarType::BigInt };
                lifted.types.push(Some(ty.into()));
                lifted.values.push(Value::Int(value));
                lifted.text.push('$');
                lifted.text.push_str(&lifted.values.len().to_string());
            }
            _ => lifted.text.push_str(token_text),
        }
        if lifted.values.len() > MOST {
            return None;
        }
    }
    (!lifted.values.is_empty()).then_some(lifted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifted(text: &str) -> String {
        lift(text).map_or_else(|| "-".into(), |lifted| lifted.text)
    }

    #[test]
    fn only_plain_values_are_lifted() {
        for (text, expected) in [
            ("SELECT a FROM t WHERE id = 5", "SELECT a FROM t WHERE id = $1"),
            (
                "UPDATE t SET a = a + -7 WHERE id>=12 AND b < 3",
                "UPDATE t SET a = a + -$1 WHERE id>=$2 AND b < $3",
            ),
            (
                "INSERT INTO t (a, b) VALUES (1, f(2)), (3, 'x 4')",
                "INSERT INTO t (a, b) VALUES ($1, f(2)), ($2, 'x 4')",
            ),
            ("CALL pay(1, ARRAY[2, 3], 4)", "CALL pay($1, ARRAY[2, 3], $2)"),
            (
                "SELECT a FROM t WHERE id = 1 ORDER BY 2 LIMIT 3",
                "SELECT a FROM t WHERE id = $1 ORDER BY 2 LIMIT 3",
            ),
            (
                "DELETE FROM t WHERE d = DATE '2020-01-05' - 3",
                "DELETE FROM t WHERE d = DATE '2020-01-05' - $1",
            ),
            ("SELECT a FROM t WHERE id = 1.5 OR c = 99999999999999999999 OR e = /* 1 */ 0x10", "-"),
            ("SELECT -2147483648 FROM t ORDER BY -1", "-"),
            ("SELECT a + 1 FROM t GROUP BY a + 1", "-"),
            ("SELECT DISTINCT a + 1 FROM t", "-"),
            ("SELECT $1 = 1", "-"),
            ("EXPLAIN SELECT a FROM t WHERE id = 1", "-"),
            ("CREATE TABLE t (a INT DEFAULT +1)", "-"),
            ("SELECT count(*) FROM generate_series(1, 10)", "-"),
        ] {
            assert_eq!(lifted(text), expected, "{text}");
        }
        let types = lift("SELECT 1 = 2147483647, 2 = 2147483649").expect("two integers").types;
        assert_eq!(types, [Some(ScalarType::Integer.into()), Some(ScalarType::BigInt.into())]);
        let many: String = (0..100).map(|n| format!("({n}),")).collect();
        assert_eq!(lift(&format!("INSERT INTO t VALUES {}", many.trim_end_matches(','))), None);
    }
}
