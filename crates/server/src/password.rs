//! The passwords of users, for authentication by SCRAM-SHA-256.
//! Source: RFC 5802, RFC 7677; PostgreSQL's form of a verifier, and its mock authentication.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pgwire::api::auth::sasl::scram::{ScramSecret, gen_salted_password};
use ring::hmac;
use std::collections::HashMap;
use std::fmt;

const ITERATIONS: usize = 4096;
/// Bytes of a salt.
const SALT: usize = 16;
/// Bytes of a key.
const KEY: usize = 32;

/// The verifier of a password: it checks a password, but does not reveal it.
#[derive(Clone)]
pub(crate) struct Password {
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
    /// Reads a verifier in PostgreSQL's form: `SCRAM-SHA-256$iterations:salt$stored key:server key`.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix("SCRAM-SHA-256$")?.split('$');
        let (iterations, salt) = parts.next()?.split_once(':')?;
        let (stored, server) = parts.next()?.split_once(':')?;
        let bytes = |text: &str| STANDARD.decode(text).ok().filter(|bytes| !bytes.is_empty());
        let key = |text: &str| bytes(text).filter(|bytes| bytes.len() == KEY);
        let iterations = iterations.parse().ok().filter(|iterations| *iterations > 0)?;
        let (salt, stored_key, server_key) = (bytes(salt)?, key(stored)?, key(server)?);
        parts.next().is_none().then_some(Self { salt, iterations, stored_key, server_key })
    }

    /// Returns a verifier that fits no password, for an unknown user. Its salt depends on the name and on a
    /// secret, so that it stays the same, as a user's salt does.
    fn mock(name: &str, secret: &hmac::Key) -> Self {
        let derived =
            |purpose: &str| hmac::sign(secret, format!("{purpose}:{name}").as_bytes()).as_ref().to_vec();
        let mut salt = derived("salt");
        salt.truncate(SALT);
        Self { salt, iterations: ITERATIONS, stored_key: derived("stored"), server_key: derived("server") }
    }

    /// Returns whether the verifier is that of a password. Takes as long for a wrong one.
    pub(crate) fn fits(&self, text: &str) -> bool {
        let Self { salt, iterations, stored_key, .. } = self;
        let salted = gen_salted_password(text, salt, *iterations);
        let derived = ScramSecret::verifier_from_salted_password(salt.clone(), salted, *iterations);
        let ScramSecret::Verifier { stored_key: derived, .. } = derived else { return false };
        // The tags of equal keys are equal, and `verify` takes constant time.
        let key = hmac::Key::new(hmac::HMAC_SHA256, salt);
        hmac::verify(&key, &derived, hmac::sign(&key, stored_key).as_ref()).is_ok()
    }

    pub(crate) fn secret(self) -> ScramSecret {
        let Self { salt, iterations, stored_key, server_key } = self;
        ScramSecret::Verifier { salt, iterations, stored_key, server_key }
    }
}

/// The list of users, with the verifiers of their passwords.
#[derive(Clone, Debug)]
pub struct Users {
    passwords: HashMap<String, Password>,
    /// The secret of unknown users' salts. It is derived from the list, so that restarts do not change the
    /// salts.
    secret: hmac::Key,
}

/// An invalid line of a list of users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsersError {
    line: usize,
    message: String,
}

impl fmt::Display for UsersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for UsersError {}

impl Users {
    /// Reads lines of `name:verifier`, with verifiers in PostgreSQL's form. Skips empty
    /// lines and lines that begin with `#`.
    ///
    /// # Errors
    /// The number of a line without a name or verifier, or with the name of an earlier line.
    pub fn parse(text: &str) -> Result<Self, UsersError> {
        let mut users = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            let error = |message: &str| UsersError { line: index + 1, message: message.into() };
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let expected = "expected name:SCRAM-SHA-256$iterations:salt$stored key:server key";
            let (name, verifier) = line.split_once(':').ok_or_else(|| error(expected))?;
            // The message does not quote the line, because it may hold a password.
            let password =
                Password::of(verifier).filter(|_| !name.is_empty()).ok_or_else(|| error(expected))?;
            if users.insert(name.to_owned(), password).is_some() {
                return Err(error(&format!("the user \"{name}\" is listed twice")));
            }
        }
        Ok(Self { passwords: users, secret: hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes()) })
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.passwords.contains_key(name)
    }

    /// Returns the verifier of a user. For an unknown user, it fits no password.
    pub(crate) fn password(&self, name: &str) -> Password {
        self.passwords.get(name).cloned().unwrap_or_else(|| Password::mock(name, &self.secret))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reprise::verifier;

    #[test]
    fn lists_of_users_say_where_they_are_wrong() {
        let (one, other) = (verifier("one"), verifier("other"));
        let users = Users::parse(&format!("# people\nada:{one}\n\nbob:{other}\n")).unwrap();
        assert!(users.contains("ada") && users.contains("bob") && !users.contains("# people"));
        let error = |text: &str| Users::parse(text).unwrap_err().to_string();
        let expected = "expected name:SCRAM-SHA-256$iterations:salt$stored key:server key";
        let short = "SCRAM-SHA-256$4096:c2FsdA==$a2V5:a2V5";
        for wrong in ["bob", "bob:", "bob:secret", "bob:md5d41d8cd98f00b204e9800998ecf8427e"] {
            assert_eq!(error(&format!("ada:{one}\n{wrong}")), format!("line 2: {expected}"));
        }
        for wrong in
            [format!(":{one}"), format!("ada:{short}"), format!("ada:{one}$"), one.replace("4096", "0")]
        {
            assert_eq!(error(&wrong), format!("line 1: {expected}"), "{wrong}");
        }
        assert_eq!(error(&format!("ada:{one}\nada:{other}")), "line 2: the user \"ada\" is listed twice");
    }

    #[test]
    fn passwords_fit_their_verifiers() {
        let list = format!("ada:{}\nbob:{}", verifier("secret"), verifier("géheim \u{2168}"));
        let users = Users::parse(&list).unwrap();
        assert!(users.password("ada").fits("secret") && users.password("bob").fits("géheim \u{2168}"));
        // SASLprep makes them one.
        assert!(users.password("bob").fits("ge\u{301}heim IX"));
        for (name, wrong) in
            [("ada", "Secret"), ("ada", ""), ("bob", "secret"), ("eve", "secret"), ("eve", "")]
        {
            assert!(!users.password(name).fits(wrong), "{name}: {wrong}");
        }
    }

    #[test]
    fn an_unknown_user_has_a_salt_that_stays() {
        let list = format!("ada:{}", verifier("secret"));
        let [before, after] = [0, 1].map(|_| Users::parse(&list).unwrap());
        let salt = |users: &Users, name: &str| users.password(name).salt;
        assert_eq!(salt(&before, "eve"), salt(&after, "eve"));
        assert_eq!(salt(&before, "eve").len(), salt(&before, "ada").len());
        assert_ne!(salt(&before, "eve"), salt(&before, "eva"));
        let another = Users::parse(&format!("ada:{}", verifier("secret"))).unwrap();
        assert_ne!(salt(&before, "eve"), salt(&another, "eve"));
    }
}
