//! Checks passwords of HTTP Basic authentication against the list of users.
//! Source: RFC 7617.
//!
//! A check takes milliseconds, so that guessing from verifiers is slow. One password is checked at a time, on
//! a thread for blocking work. The checker remembers the tags of accepted headers, so that a page which asks
//! each second costs one hash. A refusal is delayed.
//! Not here: clients of the SQL port, which authenticate by SCRAM (`startup`).

use crate::hold;
use crate::password::Users;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Most remembered passwords.
const MOST: usize = 64;
/// The longest header that is checked, in bytes.
const LONGEST: usize = 4096;
/// The delay of a refusal.
const DELAY: Duration = Duration::from_millis(200);

/// Checks passwords, and remembers those that were right.
pub(crate) struct PasswordChecker {
    key: hmac::Key,
    /// Tags of accepted headers. Users do not change while the server runs.
    accepted: Mutex<Vec<hmac::Tag>>,
    one_at_a_time: Semaphore,
}

impl Default for PasswordChecker {
    fn default() -> Self {
        let secret: [u8; 32] = rand::random();
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, &secret),
            accepted: Mutex::default(),
            one_at_a_time: Semaphore::new(1),
        }
    }
}

/// Returns the name and the password of a header `Authorization`.
pub(super) fn credentials(header: &str) -> Option<(String, String)> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (name, password) = text.split_once(':')?;
    Some((name.into(), password.into()))
}

impl PasswordChecker {
    fn remembers(&self, header: &str) -> bool {
        let accepted = hold(&self.accepted);
        accepted.iter().any(|tag| hmac::verify(&self.key, header.as_bytes(), tag.as_ref()).is_ok())
    }

    fn remember(&self, header: &str) {
        let mut accepted = hold(&self.accepted);
        if accepted.len() >= MOST {
            accepted.remove(0);
        }
        accepted.push(hmac::sign(&self.key, header.as_bytes()));
    }

    /// Returns whether a header `Authorization` has the name and the password of a user.
    pub(crate) async fn admits(&self, users: &Users, header: Option<&str>) -> bool {
        let Some(header) = header.filter(|header| header.len() <= LONGEST) else { return false };
        if self.remembers(header) {
            return true;
        }
        let Some((name, password)) = credentials(header) else { return false };
        let Ok(turn) = self.one_at_a_time.acquire().await else { return false };
        // An unknown user's verifier fits no password, and takes as long.
        let (verifier, is_known) = (users.password(&name), users.contains(&name));
        let checked = tokio::task::spawn_blocking(move || verifier.fits(&password));
        if checked.await.unwrap_or(false) && is_known {
            self.remember(header);
            return true;
        }
        drop(turn);
        tokio::time::sleep(DELAY).await;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read() {
        let of = |text: &str| credentials(&format!("Basic {}", STANDARD.encode(text)));
        let pair = |name: &str, password: &str| Some((name.to_owned(), password.to_owned()));
        assert_eq!(of("ada:correct horse"), pair("ada", "correct horse"));
        assert_eq!(of("ada:a:b"), pair("ada", "a:b"));
        assert_eq!(of("ada:ü"), pair("ada", "ü"));
        assert_eq!(credentials("bAsIc YTpi"), pair("a", "b"));
        for wrong in ["", "Basic", "Basic !", "Bearer YTpi", "Basic YQ=="] {
            assert_eq!(credentials(wrong), None, "{wrong}");
        }
    }
}
