//! Words that do not name their actor, or say a vague time, and citations of documents that are not in the
//! repository.

use super::sources::Sources;
use super::{Break, Rule};
use regex::Regex;

const BANNED: &str =
    r"(?i)\b(whoever|somebody|nobody|everybody|anybody|others|now and then|so many|a while)\b|DESIGN §";

pub(super) fn check(sources: &Sources, breaks: &mut Vec<Break>) {
    let banned = Regex::new(BANNED).expect("the pattern is constant");
    for source in sources.files.iter().filter(|source| !source.path.ends_with("tidy/words.rs")) {
        for (number, line) in source.text.lines().enumerate() {
            for found in banned.find_iter(line) {
                breaks.push(Break {
                    rule: Rule::Word,
                    package: source.package.clone(),
                    file: source.path.clone(),
                    line: number + 1,
                    what: format!("\"{}\"", found.as_str()),
                });
            }
        }
    }
}
