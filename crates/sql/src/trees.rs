//! The trees of the texts that the definitions keep: routines, views, checks and defaults.
//!
//! A change of definitions compiles all routines again, and a statement binds the views and checks that it
//! meets. Parsing takes three quarters of that time, so each kept text is parsed once.

use crate::StatementError;
use crate::source::{Parsed, Source};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// Most bytes of texts whose trees are held. A tree takes about 20 times the memory of its text.
const MOST_BYTES: usize = 2 << 20;

/// Parsed texts. All versions of the definitions share them.
#[derive(Clone, Default)]
pub(crate) struct Trees(Arc<RwLock<Held>>);

#[derive(Default)]
struct Held {
    by_text: HashMap<Box<str>, Arc<Parsed>>,
    bytes: usize,
}

impl fmt::Debug for Trees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trees").finish_non_exhaustive()
    }
}

impl Held {
    /// Adds a text. Texts of earlier definitions leave when there are too many.
    fn add(&mut self, text: &str, parsed: Arc<Parsed>) {
        if self.bytes + text.len() > MOST_BYTES {
            *self = Self::default();
        }
        if text.len() <= MOST_BYTES && self.by_text.insert(text.into(), parsed).is_none() {
            self.bytes += text.len();
        }
    }
}

impl Trees {
    /// Parses a text that the definitions keep.
    ///
    /// # Errors
    /// As `Source::parse`.
    pub(crate) fn parse(&self, text: &str) -> Result<Source, StatementError> {
        let Self(held) = self;
        let known = held.read().unwrap_or_else(PoisonError::into_inner).by_text.get(text).cloned();
        if let Some(parsed) = known {
            return Ok(Source::of(parsed));
        }
        let source = Source::parse(text)?;
        held.write().unwrap_or_else(PoisonError::into_inner).add(text, source.parsed());
        Ok(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_parsed_once_and_errors_stay_errors() {
        let trees = Trees::default();
        let (first, second) = (trees.parse("SELECT 1").unwrap(), trees.clone().parse("SELECT 1").unwrap());
        assert!(Arc::ptr_eq(&first.parsed(), &second.parsed()));
        assert!(trees.parse("SELECT FROM FROM").is_err() && trees.parse("SELECT FROM FROM").is_err());
    }

    #[test]
    fn at_most_so_many_texts_are_held() {
        let parsed = Source::parse("SELECT 1").unwrap().parsed();
        let mut held = Held::default();
        for length in [10, MOST_BYTES + 1, MOST_BYTES - 9, 10] {
            held.add(&"x".repeat(length), Arc::clone(&parsed));
            assert!(held.bytes <= MOST_BYTES);
            assert_eq!(held.bytes, held.by_text.keys().map(|text| text.len()).sum::<usize>());
        }
        assert_eq!(held.by_text.len(), 1);
    }
}
