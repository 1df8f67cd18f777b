//! What proves who a client is: SCRAM-SHA-256.
//! Source: RFC 5802, RFC 7677; PostgreSQL's form of a verifier.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pgwire::api::auth::sasl::scram::{ScramSecret, gen_salted_password};
use std::collections::HashMap;
use std::fmt;

const ITERATIONS: usize = 4096;

/// A password as the server keeps it: enough to check one, and not to give it.
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
    /// Reads a verifier as PostgreSQL keeps it (`SCRAM-SHA-256$iterations:salt$stored key:server key`); anything else is the
    /// password itself.
    fn of(text: &str) -> Self {
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
    fn nobodys() -> Self {
        let random = |bytes: usize| (0..bytes).map(|_| rand::random()).collect::<Vec<u8>>();
        Self { salt: random(16), iterations: ITERATIONS, stored_key: random(32), server_key: random(32) }
    }

    pub(crate) fn secret(self) -> ScramSecret {
        let Self { salt, iterations, stored_key, server_key } = self;
        ScramSecret::Verifier { salt, iterations, stored_key, server_key }
    }
}

/// Who may come, and what proves it.
#[derive(Clone, Debug)]
pub struct Users(HashMap<String, Password>);

/// A line of a list of users that says nothing.
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
    /// Reads lines of `name:password` or `name:verifier`; empty lines and those that begin with `#` say nothing.
    ///
    /// # Errors
    /// Says which line has no name or no password, or a name that another line has.
    pub fn parse(text: &str) -> Result<Self, UsersError> {
        let mut users = HashMap::new();
        for (index, line) in text.lines().enumerate() {
            let error = |message: &str| UsersError { line: index + 1, message: message.into() };
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, password) = line.split_once(':').ok_or_else(|| error("expected name:password"))?;
            if name.is_empty() || password.is_empty() {
                return Err(error("expected name:password, neither of them empty"));
            }
            if users.insert(name.to_owned(), Password::of(password)).is_some() {
                return Err(error(&format!("the user \"{name}\" is there twice")));
            }
        }
        Ok(Self(users))
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The password of a user; one that nobody has, where there is no such user.
    pub(crate) fn password(&self, name: &str) -> Password {
        self.0.get(name).cloned().unwrap_or_else(Password::nobodys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_users_say_where_they_are_wrong() {
        let users =
            Users::parse("# people\nada:secret\n\nbob:SCRAM-SHA-256$4096:c2FsdA==$a2V5:a2V5\n").unwrap();
        assert!(users.contains("ada") && users.contains("bob") && !users.contains("# people"));
        assert_eq!(users.password("bob").salt, b"salt");
        let error = |text| Users::parse(text).unwrap_err().to_string();
        assert_eq!(error("ada:x\nbob"), "line 2: expected name:password");
        assert_eq!(error("ada:"), "line 1: expected name:password, neither of them empty");
        assert_eq!(error("ada:x\nada:y"), "line 2: the user \"ada\" is there twice");
    }
}
