//! A reader for the words of a statement about roles and privileges.

use crate::error::StatementError;
use crate::escapes::decode;
use crate::source::Source;
use crate::words::{Word, words_of};
use procedure::SqlError;
use squawk_syntax::SyntaxNode;

/// The words of a statement, with the position of the reader.
pub(crate) struct Clause<'a> {
    words: Vec<Word<'a>>,
    /// The index of the next word.
    next: usize,
    source: &'a Source,
    /// The offset of the statement in the file.
    offset: usize,
}

/// A role as a statement names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RoleName {
    Named(String),
    /// CURRENT_USER and CURRENT_ROLE.
    Current,
    Public,
}

impl<'a> Clause<'a> {
    pub(crate) fn new(source: &'a Source, node: &SyntaxNode) -> Self {
        let mut words = words_of(source.text_of(node));
        words.retain(|word| word.text != ";");
        Self { words, next: 0, source, offset: node.text_range().start().into() }
    }

    /// Returns an error with the position of the statement's beginning.
    pub(crate) fn refuse(&self, error: SqlError) -> StatementError {
        self.source.error_at(self.offset, error)
    }

    /// Returns the error of a form that is not supported.
    pub(crate) fn unsupported(&self, what: &str) -> StatementError {
        self.refuse(SqlError::new("0A000", format!("{what} is not supported")))
    }

    /// Returns the syntax error of the next word.
    pub(crate) fn syntax(&self) -> StatementError {
        let word =
            self.words.get(self.next).map_or("end of input".into(), |word| format!("\"{}\"", word.text));
        let near = if word.starts_with('"') { "at or near " } else { "at " };
        self.refuse(SqlError::new("42601", format!("syntax error {near}{word}")))
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.next >= self.words.len()
    }

    /// Returns whether the next word is a keyword or symbol.
    pub(crate) fn is(&self, keyword: &str) -> bool {
        self.words.get(self.next).is_some_and(|word| word.is(keyword) || word.text == keyword)
    }

    /// Skips keywords if they are the next words. Returns whether they are.
    pub(crate) fn skip(&mut self, keywords: &[&str]) -> bool {
        let begin = self.next;
        for keyword in keywords {
            if !self.is(keyword) {
                self.next = begin;
                return false;
            }
            self.next += 1;
        }
        true
    }

    /// Skips the next word and returns it, if it is one of these keywords.
    pub(crate) fn skip_any(&mut self, keywords: &[&'static str]) -> Option<&'static str> {
        let found = keywords.iter().find(|keyword| self.is(keyword)).copied();
        self.next += usize::from(found.is_some());
        found
    }

    pub(crate) fn require(&mut self, keyword: &str) -> Result<(), StatementError> {
        if self.skip(&[keyword]) { Ok(()) } else { Err(self.syntax()) }
    }

    /// Reads a name.
    pub(crate) fn name(&mut self) -> Result<String, StatementError> {
        let name = self.words.get(self.next).and_then(Word::name).ok_or_else(|| self.syntax())?;
        self.next += 1;
        Ok(name)
    }

    /// Reads a name that may have a schema. The result has no schema `public`.
    pub(crate) fn object(&mut self) -> Result<String, StatementError> {
        let first = self.name()?;
        if !self.skip(&["."]) {
            return Ok(first);
        }
        let name = self.name()?;
        Ok(if first == "public" { name } else { format!("{first}.{name}") })
    }

    /// Skips a list in parentheses. Returns whether there was one.
    pub(crate) fn skip_parentheses(&mut self) -> bool {
        if !self.skip(&["("]) {
            return false;
        }
        let mut depth = 1;
        while depth > 0 && !self.is_at_end() {
            depth += i32::from(self.is("(")) - i32::from(self.is(")"));
            self.next += 1;
        }
        true
    }

    /// Reads a list of names in parentheses; none if there are no parentheses.
    pub(crate) fn names_in_parentheses(&mut self) -> Result<Vec<String>, StatementError> {
        let mut names = Vec::new();
        if self.skip(&["("]) {
            names.push(self.name()?);
            while self.skip(&[","]) {
                names.push(self.name()?);
            }
            self.require(")")?;
        }
        Ok(names)
    }

    /// Reads a string literal.
    pub(crate) fn text(&mut self) -> Result<String, StatementError> {
        let word = self.words.get(self.next).ok_or_else(|| self.syntax())?;
        let text = literal_text(word.text).ok_or_else(|| self.syntax())?;
        self.next += 1;
        Ok(text)
    }

    /// Reads an integer.
    pub(crate) fn integer(&mut self) -> Result<i64, StatementError> {
        let is_negative = self.skip(&["-"]);
        let word = self.words.get(self.next).and_then(|word| word.text.parse::<i64>().ok());
        let number = word.ok_or_else(|| self.syntax())?;
        self.next += 1;
        Ok(if is_negative { -number } else { number })
    }

    /// Reads a role.
    pub(crate) fn role(&mut self) -> Result<RoleName, StatementError> {
        let is_keyword = self.words.get(self.next).is_some_and(|word| !word.text.starts_with('"'));
        if is_keyword {
            if self.is("SESSION_USER") {
                return Err(self.unsupported("SESSION_USER in place of a role's name"));
            }
            if self.skip_any(&["CURRENT_USER", "CURRENT_ROLE"]).is_some() {
                return Ok(RoleName::Current);
            }
            if self.skip(&["PUBLIC"]) {
                return Ok(RoleName::Public);
            }
            if self.is("NONE") {
                let error = SqlError::new("42939", "role name \"none\" is reserved");
                return Err(self.refuse(error));
            }
        }
        self.name().map(RoleName::Named)
    }

    /// Reads a list of roles.
    pub(crate) fn roles(&mut self) -> Result<Vec<RoleName>, StatementError> {
        let mut roles = Vec::new();
        loop {
            // As in PostgreSQL, GROUP before a role changes nothing.
            if self.is("GROUP") && self.words.get(self.next + 1).is_some_and(|word| word.name().is_some()) {
                self.next += 1;
            }
            roles.push(self.role()?);
            if !self.skip(&[","]) {
                return Ok(roles);
            }
        }
    }

    /// Returns the position of the reader, for `return_to`.
    pub(crate) fn position(&self) -> usize {
        self.next
    }

    pub(crate) fn return_to(&mut self, position: usize) {
        self.next = position;
    }
}

/// Returns the text of a string literal; `None` for any other word.
pub(crate) fn literal_text(word: &str) -> Option<String> {
    let quoted =
        |text: &str| text.strip_prefix('\'').and_then(|body| body.strip_suffix('\'')).map(str::to_owned);
    if let Some(escaped) = word.strip_prefix(['E', 'e']) {
        return decode(&quoted(escaped)?).ok();
    }
    if let Some(rest) = word.strip_prefix('$') {
        let tag = rest.find('$')? + 2;
        return word.get(tag..word.len().checked_sub(tag)?).map(str::to_owned);
    }
    quoted(word).map(|text| text.replace("''", "'"))
}
