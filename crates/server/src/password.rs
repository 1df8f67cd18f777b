//! What proves who a client is: SCRAM-SHA-256.
//! Source: RFC 5802, RFC 7677; PostgreSQL's form of a verifier.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pgwire::api::auth::sasl::scram::{ScramSecret, gen_salted_password};
use std::fmt;

const ITERATIONS: usize = 4096;

/// A password as the server keeps it: enough to check one, and not to give it.
#[derive(Clone)]
pub struct Password {
    salt: Vec<u8>,
    iterations: usize,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

impl Password {
    /// Reads a verifier as PostgreSQL keeps it (`SCRAM-SHA-256$iterations:salt$stored key:server key`); anything else is the
    /// password itself.
    pub fn of(text: &str) -> Self {
        Self::verifier(text).unwrap_or_else(|| Self::plain(text))
    }

    fn verifier(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix("SCRAM-SHA-256$")?.split('$');
        let (iterations, salt) = parts.next()?.split_once(':')?;
        let (stored, server) = parts.next()?.split_once(':')?;
        let bytes = |text: &str| STANDARD.decode(text).ok();
        Some(Self {
            salt: bytes(salt)?,
            iterations: iterations.parse().ok()?,
            stored_key: bytes(stored)?,
            server_key: bytes(server)?,
        })
    }

    fn plain(text: &str) -> Self {
        let salt: Vec<u8> = (0..16).map(|_| rand::random()).collect();
        let salted = gen_salted_password(text, &salt, ITERATIONS);
        match ScramSecret::verifier_from_salted_password(salt, salted, ITERATIONS) {
            ScramSecret::Verifier { salt, iterations, stored_key, server_key } => {
                Self { salt, iterations, stored_key, server_key }
            }
            ScramSecret::SaltedPassword { .. } => unreachable!("a verifier was asked for"),
        }
    }

    /// One that nobody has.
    pub(crate) fn nobodys() -> Self {
        let random = |bytes: usize| (0..bytes).map(|_| rand::random()).collect::<Vec<u8>>();
        Self { salt: random(16), iterations: ITERATIONS, stored_key: random(32), server_key: random(32) }
    }

    pub(crate) fn secret(self) -> ScramSecret {
        let Self { salt, iterations, stored_key, server_key } = self;
        ScramSecret::Verifier { salt, iterations, stored_key, server_key }
    }
}
