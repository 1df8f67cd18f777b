//! Words that do not name their actor or that give a vague time, and citations of documents that are not in
//! the repository.

use super::sources::Sources;
use super::{Break, Rule};
use regex::Regex;

/// OTHERS in capitals is a condition of PL/pgSQL.
const BANNED: &str =
    r"\b((?i:whoever|somebody|nobody|everybody|anybody|now and then|so many|a while)|[Oo]thers)\b|DESIGN §";

/// The files that have to spell the words.
const EXEMPT: [&str; 2] = ["tidy/words.rs", "tidy/tests.rs"];

pub(super) fn check(sources: &Sources, breaks: &mut Vec<Break>) {
    let banned = Regex::new(BANNED).expect("the pattern is constant");
    let is_checked = |path: &str| !EXEMPT.iter().any(|exempt| path.ends_with(exempt));
    for source in sources.files.iter().filter(|source| is_checked(&source.path)) {
        for (number, line) in source.text.lines().enumerate() {
            for found in banned.find_iter(line) {
                breaks.push(Break::at(source, Rule::Word, number + 1, format!("\"{}\"", found.as_str())));
            }
        }
    }
}
