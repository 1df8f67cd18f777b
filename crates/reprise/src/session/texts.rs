//! Statements that procedures give as text.

use crate::definitions::Version;
use procedure::{Compiler, Procedure, SqlError};
use sql::Kind;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Statements that are kept compiled, at most.
const KEPT: usize = 256;

/// A statement: its text and the types of its parameters.
type Asked = (String, Vec<catalog::Type>);

/// Compiles statements under one version of the definitions, and remembers them.
pub(super) struct Texts {
    version: Arc<Version>,
    compiled: Mutex<HashMap<Asked, Arc<Procedure>>>,
}

impl Texts {
    pub(super) fn new(version: &Arc<Version>) -> Self {
        Self { version: Arc::clone(version), compiled: Mutex::default() }
    }
}

impl Compiler for Texts {
    fn compile(&self, text: &str, types: &[catalog::Type]) -> Result<Arc<Procedure>, SqlError> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (text.to_owned(), types.to_vec());
        if let Some(procedure) = compiled.get(&key) {
            return Ok(Arc::clone(procedure));
        }
        let known: Vec<_> = types.iter().map(|ty| Some(*ty)).collect();
        let prepared = self.version.schema.prepare(text, &known).map_err(|error| {
            let place = format!("In EXECUTE, line {}, column {}.", error.line, error.column);
            SqlError { detail: error.error.detail.clone().or(Some(place)), ..error.error }
        })?;
        let Some(prepared) = prepared else {
            return Err(SqlError::new("42601", "EXECUTE of a text without a statement"));
        };
        let Kind::Run(procedure) = prepared.kind else {
            return Err(SqlError::new("0A000", format!("EXECUTE of {} is not supported", prepared.tag)));
        };
        if compiled.len() >= KEPT {
            compiled.clear();
        }
        compiled.insert(key, Arc::clone(&procedure));
        Ok(procedure)
    }
}
