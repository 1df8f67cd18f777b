//! The user guide is true: its SQL and its commands run in the order in which they stand, against one server.
//!
//! A block ```` ```sql ```` is run by a client, ```` ```sql error CODE ```` must fail so, and a block
//! ```` ```text ```` behind it has the rows of all its queries. A block ```` ```sh ```` is run by a shell.

use crate::common::Serving;
use postgres::SimpleQueryMessage;
use std::path::Path;
use std::process::Command;

/// A fenced block of a document.
struct Block<'a> {
    language: &'a str,
    /// What stands behind the language, such as `error 23514`.
    note: &'a str,
    text: &'a str,
}

fn blocks(document: &str) -> Vec<Block<'_>> {
    let fences = document.split("```").skip(1).step_by(2);
    let block = |fence| {
        let (head, text) = str::split_once(fence, '\n').unwrap();
        let (language, note) = head.split_once(' ').unwrap_or((head, ""));
        Block { language, note, text }
    };
    fences.map(block).collect()
}

/// Runs statements; returns the rows, one a line, or the code of the error.
fn run_sql(client: &mut postgres::Client, text: &str) -> Result<String, String> {
    let messages = client.simple_query(text);
    let messages = messages.map_err(|error| error.code().unwrap().code().to_owned())?;
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            let values = (0..row.len()).map(|column| row.get(column).unwrap_or_default());
            Some(values.collect::<Vec<_>>().join("|") + "\n")
        }
        _ => None,
    };
    Ok(messages.iter().filter_map(row).collect())
}

/// Runs commands in a folder, where `reprise` is the program under test.
fn run_shell(folder: &Path, text: &str) {
    let script = format!("reprise() {{ \"$0\" \"$@\"; }}\n{text}");
    let mut shell = Command::new("sh");
    let output = shell.args(["-ec", &script, env!("CARGO_BIN_EXE_reprise")]).current_dir(folder).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_guide_runs() {
    let folder = tempfile::tempdir().unwrap();
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/user-guide.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let server = Serving::start(&folder.path().join("data"));
    let mut client = server.connect();
    let (mut rows, mut checked) = (String::new(), 0);
    for block in blocks(&guide) {
        match block.language {
            "sql" => {
                let expected = block.note.strip_prefix("error ");
                let result = run_sql(&mut client, block.text);
                assert_eq!(result.as_ref().err().map(String::as_str), expected, "{}", block.text);
                rows = result.unwrap_or_default();
            }
            "text" => assert_eq!(rows, block.text),
            "sh" => run_shell(folder.path(), block.text),
            _ => continue,
        }
        checked += 1;
    }
    assert!(checked >= 10, "only {checked} blocks");
}
