//! Plans of simple queries, by their text without its integers: clients that write values into their texts
//! ask for the same few again and again.

use crate::hold;
use reprise::rooms::sql::{Lifted, lift};
use reprise::{Error, Parameters, Session, Statement};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard};

const SHARDS: usize = 16;
/// A shard that has this many begins anew.
const MOST_PLANS: usize = 64;

/// Bytes of the longest text whose plan is kept.
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

    /// A statement, ready to run with the values that come with it; `None` when the text holds none.
    ///
    /// # Errors
    /// Anything wrong with it, at its place in the text.
    pub(crate) fn prepare(
        &self,
        text: &str,
        session: &mut Session,
    ) -> Result<(Option<Statement>, Parameters), Error> {
        let Some(Lifted { text: lifted, types, values }) = lift(text) else {
            return Ok((session.prepare_typed(text, &[])?, Parameters::default()));
        };
        let known = self.shard(&lifted).get(&lifted).cloned();
        // The same text may come with greater integers, of another type.
        let fits = |known: &Statement| known.parameters().iter().copied().map(Some).eq(types.iter().copied());
        if let Some(known) = known.filter(|known| fits(known) && session.is_current(known)) {
            let parameters = Parameters::of(&known, &values)?;
            return Ok((Some(known), parameters));
        }
        // What is wrong is told of the text that was sent.
        let Ok(Some(prepared)) = session.prepare_typed(&lifted, &types) else {
            return Ok((session.prepare_typed(text, &[])?, Parameters::default()));
        };
        if text.len() <= LONGEST && session.is_current(&prepared) {
            let mut shard = self.shard(&lifted);
            if shard.len() >= MOST_PLANS {
                shard.clear();
            }
            shard.insert(lifted, prepared.clone());
        }
        let parameters = Parameters::of(&prepared, &values)?;
        Ok((Some(prepared), parameters))
    }
}
