//! The statements that EXECUTE compiles from text, and the memory for parsing texts.

use crate::definitions::{Version, Viewpoint};
use catalog::{SessionZone, Type};
use memory::{Account, Reserved};
use procedure::{Compiler, Procedure, SqlError};
use sql::{Kind, Schema};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Most compiled statements in the cache.
const KEPT: usize = 256;
/// Bytes of the longest statement in the cache.
const LONGEST_KEPT: usize = 16 << 10;
/// Texts with fewer bytes are parsed without a reservation of memory.
const SHORT: usize = 8 << 10;
/// A statement's tree and its plan take up to this many bytes for each byte of the text.
const BYTES_FOR_ONE: usize = 100;

/// Reserves memory for parsing and planning a text, until the result is dropped. `None`: the text is short.
///
/// # Errors
/// `53200`: there is not enough memory.
pub(crate) fn room_for<'a>(text: &str, account: &'a Account) -> Result<Option<Reserved<'a>>, SqlError> {
    if text.len() < SHORT {
        return Ok(None);
    }
    account.reserve(text.len().saturating_mul(BYTES_FOR_ONE)).map(Some).map_err(|_| {
        let error = SqlError::new("53200", "out of memory");
        let detail = format!("A statement of {} bytes needs more memory than is free.", text.len());
        error.with_detail(detail).with_hint("Send less in one statement, or values as parameters or by COPY.")
    })
}

/// A statement that is compiled.
#[derive(PartialEq, Eq, Hash)]
struct TextKey {
    text: String,
    /// The types of its parameters.
    types: Vec<Type>,
    /// The role with whose rights it runs.
    role: u32,
    /// The name of the zone of its literals; `None` is UTC.
    zone: Option<String>,
}

/// Compiles statements under one version of the definitions, with a cache.
pub(super) struct Texts {
    version: Arc<Version>,
    /// The temporary schema of the session.
    temporary: Option<Arc<str>>,
    compiled: Mutex<HashMap<TextKey, Arc<Procedure>>>,
}

impl Texts {
    pub(super) fn new(version: &Arc<Version>, temporary: Option<&Arc<str>>) -> Self {
        let temporary = temporary.map(Arc::clone);
        Self { version: Arc::clone(version), temporary, compiled: Mutex::default() }
    }
}

impl Compiler for Texts {
    fn compile(
        &self,
        text: &str,
        types: &[Type],
        role: u32,
        zone: Option<&Arc<SessionZone>>,
    ) -> Result<Arc<Procedure>, SqlError> {
        let name = zone.map(|zone| zone.name().to_owned());
        let key = TextKey { text: text.to_owned(), types: types.to_vec(), role, zone: name };
        let known = self.compiled.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(procedure) = known {
            return Ok(procedure);
        }
        let _room = room_for(text, self.version.tables.memory.account())?;
        let known: Vec<_> = types.iter().map(|ty| Some(*ty)).collect();
        // A text that names the schema of another session is refused as one that has no temporary relation.
        let none = Schema::may_be_temporary(text).then(|| Schema::temporary_schema(0).into());
        let temporary = self.temporary.as_ref().or(none.as_ref());
        let viewpoint = Viewpoint { role, zone, temporary };
        let prepared = self.version.with_schema_of(viewpoint, |schema| schema.prepare(text, &known));
        let prepared = match prepared {
            Ok(Some(known)) if known.parameters.len() > types.len() => {
                sql::missing_parameter(text, types.len()).map_or(Ok(Some(known)), Err)
            }
            Err(error) if error.error.sqlstate == "42P18" => {
                Err(sql::missing_parameter(text, types.len()).unwrap_or(error))
            }
            prepared => prepared,
        };
        let prepared = prepared.map_err(|error| {
            let position = format!("In EXECUTE, line {}, column {}.", error.line, error.column);
            SqlError { detail: error.error.detail.clone().or(Some(position)), ..error.error }
        })?;
        let Some(prepared) = prepared else {
            return Err(SqlError::new("42601", "the text of EXECUTE holds no statement"));
        };
        if let Some(refused) = prepared.refused {
            return Err(*refused);
        }
        let procedure = match prepared.kind {
            Kind::Run(procedure) => procedure,
            Kind::Notify { channel, payload } => {
                let [channel, payload] = [channel, payload].map(|own| own.replace('\'', "''"));
                return self.compile(&format!("SELECT pg_notify('{channel}', '{payload}')"), &[], role, zone);
            }
            _ => return Err(SqlError::new("0A000", format!("EXECUTE of {} is not supported", prepared.tag))),
        };
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if compiled.len() >= KEPT {
            compiled.clear();
        }
        if text.len() <= LONGEST_KEPT {
            compiled.insert(key, Arc::clone(&procedure));
        }
        Ok(procedure)
    }

    fn routine(&self, name: &str) -> Option<Arc<Procedure>> {
        let (role, temporary) = (Schema::first_superuser(), self.temporary.as_ref());
        let viewpoint = Viewpoint { role, zone: None, temporary };
        self.version.with_schema_of(viewpoint, |schema| schema.procedure(name).cloned())
    }
}
