//! A cache of plans of simple queries. The key is the role, the zone and the text without its integers,
//! because clients that write values into texts send the same few texts with other integers.

use crate::hold;
use reprise::{Error, Parameters, Session, Statement};
use sql::{Lifted, lift};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard};

const SHARDS: usize = 16;
/// A shard is emptied when it holds this many plans.
const MOST_PLANS: usize = 64;

/// Bytes of the longest text in the cache.
const LONGEST: usize = 16 << 10;

/// The plans that all clients share.
#[derive(Default)]
pub(crate) struct Plans {
    shards: [Mutex<HashMap<String, Statement>>; SHARDS],
    hasher: RandomState,
}

impl Plans {
    fn shard(&self, text: &str) -> MutexGuard<'_, HashMap<String, Statement>> {
        let shard = self.hasher.hash_one(text) as usize % SHARDS;
        hold(&self.shards[shard])
    }

    /// Returns the statement of a text, and the values of its integers as parameters. `None`: the text holds
    /// no statement.
    ///
    /// # Errors
    /// As `Session::prepare`, with line and column in the given text.
    pub(crate) fn prepare(
        &self,
        text: &str,
        session: &mut Session,
    ) -> Result<(Option<Statement>, Parameters), Error> {
        let Some(Lifted { text: lifted, types, values }) = lift(text) else {
            return prepare_as_written(text, session);
        };
        // What a session with temporary relations prepares is of no use to other sessions.
        if session.temporary_number().is_some() || sql::Schema::may_be_temporary(text) {
            return prepare_as_written(text, session);
        }
        let key = match (session.role(), session.zone()) {
            (role, None) if role == sql::Schema::first_superuser() => lifted.clone(),
            (role, None) => format!("{role}\0{lifted}"),
            (role, Some(zone)) => format!("{role}\0{}\0{lifted}", zone.name()),
        };
        let known = self.shard(&key).get(&key).cloned();
        // The same text may have greater integers, which have another type.
        let fits = |known: &Statement| known.parameters().iter().copied().map(Some).eq(types.iter().copied());
        if let Some(known) = known.filter(|known| fits(known) && session.is_current(known)) {
            let parameters = Parameters::of(&known, &values)?;
            return Ok((Some(known), parameters));
        }
        // On an error the original text is prepared, so that line and column are those of the client.
        let Ok(Some(prepared)) = session.prepare_typed(&lifted, &types) else {
            return prepare_as_written(text, session);
        };
        if text.len() <= LONGEST && session.is_current(&prepared) {
            let mut shard = self.shard(&key);
            if shard.len() >= MOST_PLANS {
                shard.clear();
            }
            shard.insert(key, prepared.clone());
        }
        let parameters = Parameters::of(&prepared, &values)?;
        Ok((Some(prepared), parameters))
    }
}

/// Prepares a statement that has no parameters.
///
/// # Errors
/// `42P02`: it has a parameter. As `Session::prepare`.
fn prepare_as_written(text: &str, session: &mut Session) -> Result<(Option<Statement>, Parameters), Error> {
    let prepared = session.prepare_typed(text, &[]);
    let has_parameters = match &prepared {
        Ok(known) => known.as_ref().is_some_and(|known| !known.parameters().is_empty()),
        Err(error) => error.sqlstate() == "42P18",
    };
    match sql::missing_parameter(text, 0).filter(|_| has_parameters) {
        Some(error) => Err(error.into()),
        None => Ok((prepared?, Parameters::default())),
    }
}
