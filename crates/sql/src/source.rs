//! Source text: positions, parsing, and the INTO clauses of PL/pgSQL statements.
//!
//! PL/pgSQL's `SELECT … INTO a, b FROM …` is not SQL. As in PostgreSQL, the INTO clause is lifted out of the
//! statement before it is parsed as SQL: blanks overwrite its bytes, so positions stay valid.

use crate::StatementError;
use crate::cursor_options::in_order;
use crate::nesting::{check_text, check_tree};
use crate::regrouped::Insertions;
use crate::routine_body::ParsedBody;
use crate::truncation::truncated;
use crate::words::{Word, words_of};
use procedure::SqlError;
use squawk_lexer::TokenKind;
use squawk_syntax::ast::{self, AstNode};
use squawk_syntax::{Parse, SourceFile, SyntaxNode};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The INTO clause of a PL/pgSQL statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Into {
    pub(crate) strict: bool,
    /// For each target: the variable, its field, and the offset in the source.
    pub(crate) targets: Vec<(String, Option<String>, usize)>,
}

/// What parsing a text has found.
pub(crate) struct Parsed {
    text: String,
    tree: Parse<SourceFile>,
    /// The INTO clauses, by the offset of the statement's first word.
    into: HashMap<usize, Into>,
    /// The insertions that only the parsed text has.
    insertions: Insertions,
    /// The body of the first routine, once it is needed.
    body: OnceLock<ParsedBody>,
}

/// A parsed text, with its tree for one thread.
pub(crate) struct Source {
    parsed: Arc<Parsed>,
    pub(crate) file: SourceFile,
}

/// A part of a source, for errors.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) source: &'a Source,
    pub(crate) node: &'a SyntaxNode,
}

/// Returns PostgreSQL's message of a syntax error: with the word at which the text goes wrong.
fn near(text: &str, error_at: usize) -> String {
    let mut offset = 0;
    for token in squawk_lexer::tokenize(text) {
        let word = offset..offset + token.len as usize;
        offset = word.end;
        let is_blank = matches!(
            token.kind,
            TokenKind::Whitespace | TokenKind::LineComment | TokenKind::BlockComment { .. } | TokenKind::Eof
        );
        if !is_blank && word.end > error_at {
            return format!("syntax error at or near \"{}\"", &text[word]);
        }
    }
    "syntax error at end of input".into()
}

impl Source {
    fn new(text: &str, tree: Parse<SourceFile>, into: HashMap<usize, Into>, insertions: Insertions) -> Self {
        let body = OnceLock::new();
        Self::of(Arc::new(Parsed { text: text.into(), tree, into, insertions, body }))
    }

    /// Returns a text that was parsed before.
    pub(crate) fn of(parsed: Arc<Parsed>) -> Self {
        let file = parsed.tree.tree();
        Self { parsed, file }
    }

    pub(crate) fn parsed(&self) -> Arc<Parsed> {
        Arc::clone(&self.parsed)
    }

    /// Returns the body of the first routine that the text creates.
    pub(crate) fn body_of(&self, first: &ast::Stmt) -> ParsedBody {
        self.parsed.body.get_or_init(|| ParsedBody::of(first)).clone()
    }

    /// Parses a text of SQL statements.
    pub(crate) fn parse(text: &str) -> Result<Self, StatementError> {
        let at = |(offset, error): (usize, SqlError)| {
            let nothing = SourceFile::parse("");
            Self::new(text, nothing, HashMap::new(), Insertions::default()).error_at(offset, error)
        };
        check_text(text).map_err(at)?;
        let short = truncated(text);
        let text = short.as_deref().unwrap_or(text);
        let original = SourceFile::parse(text);
        if let Some(text) = with_dollar_quotes(text, &original.syntax_node()) {
            return Self::parse(&text);
        }
        let ordered = in_order(text).map_err(at)?;
        let mut is_changed = ordered.is_some();
        let mut blanked = ordered.unwrap_or_else(|| text.to_owned());
        let (mut into, mut insertions) = (HashMap::new(), Insertions::default());
        insertions.find(text, 0);
        for literal in original.syntax_node().descendants().filter_map(ast::Literal::cast) {
            let Some(ast::LitKind::DollarQuotedString(token)) = literal.kind() else { continue };
            let Some(tag) = token.text()[1..].find('$').map(|at| at + 2) else { continue };
            if token.text().len() < 2 * tag || !token.text().ends_with(&token.text()[..tag]) {
                // The body has no end; the parser reports this.
                continue;
            }
            let start = usize::from(token.text_range().start()) + tag;
            let end = usize::from(token.text_range().end()) - tag;
            if literal.syntax().ancestors().any(|node| is_routine(&node)) {
                check_text(&text[start..end]).map_err(|(offset, error)| at((start + offset, error)))?;
            }
            let short = truncated(&text[start..end]).filter(|_| is_body(&literal));
            if let Some(short) = &short {
                blanked.replace_range(start..end, short);
                is_changed = true;
            }
            let body = short.as_deref().unwrap_or(&text[start..end]);
            lift_into(body, start, &mut into, &mut blanked);
            insertions.find(body, start);
        }
        insertions.insert_into(&mut blanked);
        let is_original = into.is_empty() && insertions.is_empty() && !is_changed;
        let parse = if is_original { original } else { SourceFile::parse(&blanked) };
        let errors = parse.errors();
        let source = Self::new(text, parse, into, insertions);
        check_tree(source.file.syntax()).map_err(|(offset, error)| source.error_at(offset, error))?;
        if let Some(error) = errors.first() {
            let error_at = usize::from(error.range().start());
            let error = match error.message() {
                message if message.starts_with("expected ") => {
                    SqlError::new("42601", near(text, error_at)).with_detail(message)
                }
                "VARIADIC param must be last." => {
                    SqlError::new("42P13", "VARIADIC parameter must be the last parameter")
                }
                "VARIADIC param must be last input param." => {
                    SqlError::new("42P13", "VARIADIC parameter must be the last input parameter")
                }
                message => SqlError::new("42601", message),
            };
            return Err(source.error_at(error_at, error));
        }
        Ok(source)
    }

    /// Returns an error at a byte offset of the file.
    pub(crate) fn error_at(&self, offset: usize, error: SqlError) -> StatementError {
        let (line, column) = self.position(offset);
        StatementError { line, column, error }
    }

    /// Returns line and column of a byte offset of the file, from 1.
    pub(crate) fn position(&self, offset: usize) -> (u32, u32) {
        self.line_and_column(self.written(offset))
    }

    /// Returns line and column of a byte offset of the text as it is written, from 1.
    pub(crate) fn line_and_column(&self, written: usize) -> (u32, u32) {
        line_and_column(&self.parsed.text, written)
    }

    /// Returns the range of a node of the file in the text as it is written.
    pub(crate) fn range_of(&self, node: &SyntaxNode) -> Range<usize> {
        let range = node.text_range();
        self.written(range.start().into())..self.written(range.end().into())
    }

    /// Returns the offset in the text as it is written of an offset of the file.
    pub(crate) fn written(&self, offset: usize) -> usize {
        self.parsed.insertions.original(offset)
    }

    /// Returns a range of the text as it is written.
    pub(crate) fn written_text(&self, range: Range<usize>) -> &str {
        &self.parsed.text[range]
    }

    /// Returns the text of a node of the file, as it is written.
    pub(crate) fn text_of(&self, node: &SyntaxNode) -> &str {
        &self.parsed.text[self.range_of(node)]
    }

    /// Returns the text of a node of the file, with blanks for what is before it, so that positions stay.
    pub(crate) fn text_in_place(&self, node: &SyntaxNode) -> String {
        let range = self.range_of(node);
        let text = &self.parsed.text;
        let before = text[..range.start].chars().map(|char| if char == '\n' { char } else { ' ' });
        before.chain(text[range].chars()).collect()
    }

    /// Returns the INTO clause of the PL/pgSQL statement that begins at an offset of the file.
    pub(crate) fn targets_at(&self, offset: usize) -> Option<&Into> {
        self.parsed.into.get(&self.written(offset))
    }
}

/// Returns line and column of a byte offset of a text, from 1.
pub(crate) fn line_and_column(text: &str, offset: usize) -> (u32, u32) {
    let before = &text[..offset.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (line as u32, before[line_start..].chars().count() as u32 + 1)
}

/// Returns the text with the bodies of its routines in dollar quotes, so that bodies contain no escapes;
/// `None` if all of them are in dollar quotes already. Lines stay the same; columns may change.
fn with_dollar_quotes(text: &str, tree: &SyntaxNode) -> Option<String> {
    let is_quoted = |literal: &ast::Literal| {
        is_body(literal) && !matches!(literal.kind(), Some(ast::LitKind::DollarQuotedString(_)))
    };
    let mut quoted: Option<String> = None;
    let bodies = tree.descendants().filter_map(ast::Literal::cast).filter(is_quoted);
    // From the end, so that earlier offsets stay valid.
    for literal in bodies.collect::<Vec<_>>().into_iter().rev() {
        let Some(body) = literal.decoded_value() else { continue };
        // The body does not contain the beginning of the tag.
        let mut name = String::from("body");
        while body.text().contains(&format!("${name}")) {
            name.push('_');
        }
        let range = literal.syntax().text_range();
        let range = usize::from(range.start())..usize::from(range.end());
        let whole = quoted.get_or_insert_with(|| text.to_owned());
        whole.replace_range(range, &format!("${name}${}${name}$", body.text()));
    }
    quoted
}

/// Returns whether a literal is the body of a routine or of a DO.
fn is_body(literal: &ast::Literal) -> bool {
    let parent = literal.syntax().parent();
    parent.is_some_and(|node| ast::AsDefinition::can_cast(node.kind()) || ast::Do::can_cast(node.kind()))
}

fn is_routine(node: &SyntaxNode) -> bool {
    ast::CreateProcedure::can_cast(node.kind()) || ast::CreateFunction::can_cast(node.kind())
}

/// Finds the INTO clauses of a PL/pgSQL body, and blanks them. `base` is the offset of the body.
fn lift_into(body: &str, base: usize, found: &mut HashMap<usize, Into>, blanked: &mut String) {
    let words = words_of(body);
    let mut at = 0;
    let mut begins_statement = true;
    while at < words.len() {
        let word = &words[at];
        if begins_statement && word.is_any(&["select", "insert", "update", "delete", "with"]) {
            let end = (at..words.len()).find(|w| words[*w].kind == TokenKind::Semi).unwrap_or(words.len());
            if let Some((into, range)) = find_into(&words[at..end]) {
                let shifted = into.targets.into_iter().map(|(name, field, o)| (name, field, o + base));
                let into = Into { strict: into.strict, targets: shifted.collect() };
                found.insert(word.range.start + base, into);
                let blanks: String = body[range.clone()]
                    .chars()
                    .flat_map(|c| std::iter::repeat_n(if c == '\n' { '\n' } else { ' ' }, c.len_utf8()))
                    .collect();
                blanked.replace_range(range.start + base..range.end + base, &blanks);
            }
            at = end;
            continue;
        }
        begins_statement = word.kind == TokenKind::Semi || word.is_any(&["begin", "then", "else", "loop"]);
        at += 1;
    }
}

fn find_into(words: &[Word<'_>]) -> Option<(Into, Range<usize>)> {
    let mut depth = 0;
    for (position, word) in words.iter().enumerate() {
        match word.kind {
            TokenKind::OpenParen => depth += 1,
            TokenKind::CloseParen => depth -= 1,
            _ if depth == 0 && word.is("into") && position > 0 && !words[position - 1].is("insert") => {
                return read_targets(words, position);
            }
            _ => {}
        }
    }
    None
}

fn read_targets(words: &[Word<'_>], into: usize) -> Option<(Into, Range<usize>)> {
    let mut at = into + 1;
    let strict = words.get(at)?.is("strict");
    at += usize::from(strict);
    let mut targets = Vec::new();
    loop {
        let word = words.get(at)?;
        let name = word.name()?;
        at += 1;
        let mut field = None;
        if words.get(at).is_some_and(|word| word.kind == TokenKind::Dot) {
            field = words.get(at + 1)?.name();
            at += 2;
        }
        targets.push((name, field, word.range.start));
        if words.get(at).is_none_or(|word| word.kind != TokenKind::Comma) {
            break;
        }
        at += 1;
    }
    let range = words[into].range.start..words[at - 1].range.end;
    Some((Into { strict, targets }, range))
}

/// Returns whether the routine around a statement has a word, and so may read FOUND or ROW_COUNT.
pub(crate) fn mentions(node: &SyntaxNode, word: &str) -> bool {
    let routine = node.ancestors().last();
    routine.is_some_and(|body| body.text().to_string().to_ascii_lowercase().contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn into_is_lifted_and_positions_stay() {
        let text = "CREATE PROCEDURE p() LANGUAGE plpgsql AS $b$ BEGIN\n  \
                    SELECT a, (SELECT 1) INTO STRICT x, r.f FROM t;\n  \
                    INSERT INTO t VALUES (1) RETURNING a INTO x;\n  \
                    INSERT INTO t VALUES (2);\nEND $b$;";
        let source = Source::parse(text).unwrap();
        let select = source.targets_at(text.find("SELECT a").unwrap()).unwrap();
        assert!(select.strict);
        assert_eq!(select.targets[1].0, "r");
        assert_eq!(select.targets[1].1.as_deref(), Some("f"));
        let insert = source.targets_at(text.find("INSERT").unwrap()).unwrap();
        assert_eq!(insert.targets.len(), 1);
        assert_eq!(source.parsed.into.len(), 2);
    }

    #[test]
    fn bodies_in_other_quotes_are_read_as_in_dollar_quotes() {
        let head = "CREATE FUNCTION f() RETURNS text LANGUAGE plpgsql AS";
        let source = Source::parse(&format!("{head} 'BEGIN\n  RETURN ''a$body'';\nEND'")).unwrap();
        let expected = format!("{head} $body_$BEGIN\n  RETURN 'a$body';\nEND$body_$");
        assert_eq!(source.parsed.text, expected);
        let source = Source::parse("DO E'BEGIN RAISE NOTICE \\'x\\'; END'").unwrap();
        assert_eq!(source.parsed.text, "DO $body$BEGIN RAISE NOTICE 'x'; END$body$");
    }

    #[test]
    fn texts_without_an_end_are_errors() {
        for text in
            ["DO $$ BEGIN é", "DO $a$ é$$", "DO $é", "SELECT 'é", "CREATE FUNCTION f() RETURNS INT AS $é"]
        {
            assert!(Source::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn errors_have_line_and_column() {
        let error = Source::parse("SELECT 1;\n\nCREATE TABL x();").err().unwrap();
        assert_eq!((error.line, error.error.sqlstate.as_str()), (3, "42601"));
    }
}
