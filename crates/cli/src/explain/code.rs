//! `reprise explain --code`: the machine code of procedures, and what stays interpreted.

use native::{NotCompiled, Report};
use procedure::Procedure;
use serde::Serialize;
use std::fmt::Write as _;
use std::sync::Arc;

/// The code of a procedure.
#[derive(Serialize)]
pub(super) struct Code {
    name: String,
    /// Size of the code, in bytes; 0 if the whole procedure is interpreted.
    bytes: usize,
    compile_us: u64,
    /// The statements and operations that are interpreted, in their order.
    interpreted: Vec<String>,
    /// Why the whole procedure is interpreted.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

/// Compiles procedures.
pub(super) fn of(procedures: &[&Arc<Procedure>]) -> Vec<Code> {
    let code = |procedure: &&Arc<Procedure>| {
        let name = procedure.name.clone();
        let compiled: Result<Report, NotCompiled> = procedure.with_source(native::compile);
        match compiled {
            Ok(Report { bytes, time, interpreted, .. }) => {
                let compile_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
                Code { name, bytes, compile_us, interpreted, refused: None }
            }
            Err(reason) => {
                let refused = Some(reason.to_string());
                Code { name, bytes: 0, compile_us: 0, interpreted: Vec::new(), refused }
            }
        }
    };
    procedures.iter().map(code).collect()
}

/// Returns the code of procedures in words.
pub(super) fn text(codes: &[Code]) -> String {
    let mut text = String::new();
    for Code { name, bytes, compile_us, interpreted, refused } in codes {
        let _ = match refused {
            Some(reason) => writeln!(text, "{name} is interpreted: {reason}"),
            None => {
                writeln!(text, "{name}: {bytes} bytes, compiled in {:.1} ms", *compile_us as f64 / 1e3)
            }
        };
        for part in interpreted {
            let _ = writeln!(text, "  interpreted: {part}");
        }
    }
    text
}
