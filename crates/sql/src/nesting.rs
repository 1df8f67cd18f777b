//! Limits the nesting of texts. Parsing and binding are recursive, so they run with the stack that the text
//! may need. A text whose result would need too much stack when it runs is refused.
//!
//! Invariant: no text makes the stack overflow, neither here nor on a thread with 2 MiB that runs the result.
//! Held by: `deep_texts_are_refused_and_long_ones_are_not` (crates/reprise/tests/suite/nesting.rs).

use crate::interrupt;
use procedure::SqlError;
use squawk_lexer::TokenKind;
use squawk_syntax::ast::{self, AstNode};
use squawk_syntax::{SyntaxKind, SyntaxNode};

/// Maximum number of levels of a text.
const MOST_LEVELS: usize = 1000;
/// Maximum number of tokens without a space or comma between them. The parser's cache hashes such an
/// expression again for each of its operators. A node with more than three children, such as an operator with
/// spaces around it, is not cached.
const MOST_UNSPACED: usize = 8 * MOST_LEVELS;
/// Number of bytes of stack that a byte of text may need.
const STACK_PER_BYTE: usize = 4 << 10;
const LEAST_STACK: usize = 512 << 10;
const MOST_STACK: usize = 1 << 30;

/// Parses or binds a text with the stack that it may need.
pub(crate) fn with_stack<R>(text: &str, act: impl FnOnce() -> R) -> R {
    let needed = text.len().saturating_mul(STACK_PER_BYTE).clamp(LEAST_STACK, MOST_STACK);
    stacker::maybe_grow(needed, needed + LEAST_STACK, act)
}

fn too_deep() -> SqlError {
    let hint = format!("At most {MOST_LEVELS} levels are supported: split the statement.");
    SqlError::new("54001", "the statement is nested too deeply").with_hint(hint)
}

fn too_dense() -> SqlError {
    let hint = format!(
        "At most {MOST_UNSPACED} words and operators without a space between them are supported: \
         put spaces around operators."
    );
    SqlError::new("54001", "the expression is too long").with_hint(hint)
}

/// Refuses texts that the parser cannot handle: too many levels of brackets, prefix operators, casts of casts
/// or joins of joins, and long expressions without spaces. The parser recurses for brackets and prefix
/// operators, and takes quadratic time for the remaining cases.
///
/// # Errors
/// The byte offset of the first level beyond the limit.
pub(crate) fn check_text(text: &str) -> Result<(), (usize, SqlError)> {
    let (mut brackets, mut prefixes, mut colons, mut offset) = (0usize, 0usize, 0usize, 0);
    // Each join and each query may be a level of the plan.
    let (mut joins, mut queries) = (0usize, 0usize);
    let (mut unspaced, mut has_space) = (0usize, false);
    for token in squawk_lexer::tokenize(text) {
        interrupt::check().map_err(|error| (offset, error))?;
        let range = offset..offset + token.len as usize;
        offset = range.end;
        match token.kind {
            TokenKind::Whitespace | TokenKind::LineComment | TokenKind::BlockComment { .. } => {
                has_space = true;
                continue;
            }
            TokenKind::OpenParen | TokenKind::OpenBracket => brackets += 1,
            TokenKind::CloseParen | TokenKind::CloseBracket => brackets = brackets.saturating_sub(1),
            TokenKind::Colon => colons += 1,
            TokenKind::Semi => (colons, joins, queries) = (0, 0, 0),
            TokenKind::Ident => {
                joins += usize::from(text[range.clone()].eq_ignore_ascii_case("join"));
                queries += usize::from(text[range.clone()].eq_ignore_ascii_case("select"));
            }
            TokenKind::Literal { .. } | TokenKind::QuotedIdent { .. } | TokenKind::Dot => {}
            _ => colons = 0,
        }
        // ISNULL has three children: its operand, the space and the keyword. So it is cached.
        let is_postfix = token.kind == TokenKind::Ident
            && ["isnull", "notnull"].iter().any(|word| text[range.clone()].eq_ignore_ascii_case(word));
        let is_spaced = has_space && !is_postfix || matches!(token.kind, TokenKind::Comma | TokenKind::Semi);
        unspaced = if is_spaced { 0 } else { unspaced + 1 };
        has_space = false;
        if unspaced > MOST_UNSPACED {
            return Err((range.start, too_dense()));
        }
        // An operand ends a row of prefix operators. A keyword that is no operand does not.
        let is_operand = match token.kind {
            TokenKind::Ident => !["not", "case", "when", "select", "if", "then", "begin", "loop", "else"]
                .iter()
                .any(|word| text[range.clone()].eq_ignore_ascii_case(word)),
            TokenKind::Literal { .. } | TokenKind::QuotedIdent { .. } | TokenKind::CloseParen => true,
            _ => false,
        };
        prefixes = if is_operand { 0 } else { prefixes + 1 };
        let is_too_deep = brackets > MOST_LEVELS
            || prefixes > 4 * MOST_LEVELS
            || colons > 2 * MOST_LEVELS
            || joins > MOST_LEVELS
            || queries > MOST_LEVELS;
        if is_too_deep {
            return Err((range.start, too_deep()));
        }
    }
    Ok(())
}

/// Returns the number of levels that a node adds. Each ELSIF and WHEN is a level below the previous one. A
/// chain of ANDs or of ORs is one level.
fn levels(node: &SyntaxNode) -> usize {
    if let Some(branch) = ast::PlpgsqlIfStmt::cast(node.clone()) {
        return 1 + branch.elsifs().count();
    }
    if let Some(case) = ast::PlpgsqlCaseStmt::cast(node.clone()) {
        return 1 + case.syntax().children().count();
    }
    usize::from(!continues_chain(node))
}

fn continues_chain(node: &SyntaxNode) -> bool {
    let operator = |node: SyntaxNode| ast::BinExpr::cast(node).and_then(|binary| binary.op());
    let Some(kind) = operator(node.clone()) else { return false };
    let above = node.parent().and_then(operator);
    match kind {
        ast::BinOp::And(_) => matches!(above, Some(ast::BinOp::And(_))),
        ast::BinOp::Or(_) => matches!(above, Some(ast::BinOp::Or(_))),
        _ => false,
    }
}

/// Returns whether the grammar has torn an expression: it parses a BETWEEN after a cast as a separate node.
fn is_torn(node: &SyntaxNode) -> bool {
    let most = match node.kind() {
        SyntaxKind::TARGET
        | SyntaxKind::WHERE_CLAUSE
        | SyntaxKind::HAVING_CLAUSE
        | SyntaxKind::PAREN_EXPR => 1,
        SyntaxKind::BIN_EXPR => 2,
        SyntaxKind::BETWEEN_EXPR => {
            return ast::BetweenExpr::cast(node.clone()).is_some_and(|between| between.target().is_none());
        }
        _ => return false,
    };
    node.children().filter(|child| ast::Expr::can_cast(child.kind())).count() > most
}

fn torn() -> SqlError {
    let error = SqlError::new("0A000", "an operator after a cast without parentheses is not supported");
    error.with_hint("Put the cast into parentheses: (value::type) BETWEEN … AND ….")
}

/// Refuses trees with too many levels, and expressions that the grammar has torn.
///
/// # Errors
/// The byte offset of the first level beyond the limit, or of the torn expression.
pub(crate) fn check_tree(root: &SyntaxNode) -> Result<(), (usize, SqlError)> {
    let (mut node, mut depth) = (root.clone(), 0usize);
    loop {
        interrupt::check().map_err(|error| (node.text_range().start().into(), error))?;
        if is_torn(&node) {
            return Err((node.text_range().start().into(), torn()));
        }
        depth += levels(&node);
        if depth > MOST_LEVELS {
            return Err((node.text_range().start().into(), too_deep()));
        }
        if let Some(child) = node.first_child() {
            node = child;
            continue;
        }
        // Goes to the next node that is not below this one.
        loop {
            depth -= levels(&node);
            if let Some(sibling) = node.next_sibling() {
                node = sibling;
                break;
            }
            match node.parent() {
                Some(parent) => node = parent,
                None => return Ok(()),
            }
        }
    }
}
