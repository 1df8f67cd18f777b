//! Verifiers of passwords, as roles and lists of users have them.
//! Source: RFC 5802, RFC 7677; PostgreSQL's form of a verifier.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};
use std::borrow::Cow;
use std::num::NonZeroU32;

const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("it is not 0");
/// Bytes of a salt.
const SALT: usize = 16;
/// Bytes of a key.
const KEY: usize = 32;

/// Returns the verifier of a password: SCRAM-SHA-256 in PostgreSQL's form, with a random salt. It checks the
/// password, but does not reveal it.
///
/// ```
/// assert!(reprise::verifier("secret").starts_with("SCRAM-SHA-256$4096:"));
/// ```
pub fn verifier(password: &str) -> String {
    // As in PostgreSQL, a password without a normal form is used as it is.
    let normal = stringprep::saslprep(password).unwrap_or(Cow::Borrowed(password));
    let salt: [u8; SALT] = rand::random();
    let mut salted = [0; KEY];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ITERATIONS, &salt, normal.as_bytes(), &mut salted);
    let key = hmac::Key::new(hmac::HMAC_SHA256, &salted);
    let client = hmac::sign(&key, b"Client Key");
    let stored = digest::digest(&digest::SHA256, client.as_ref());
    let server = hmac::sign(&key, b"Server Key");
    let [salt, stored, server] =
        [&salt[..], stored.as_ref(), server.as_ref()].map(|bytes| STANDARD.encode(bytes));
    format!("SCRAM-SHA-256${ITERATIONS}:{salt}${stored}:{server}")
}
