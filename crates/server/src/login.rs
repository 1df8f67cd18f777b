//! Who may log in: the users of the list, and the roles of the database with LOGIN.
//!
//! A user of the list logs in with the password of the list. If a role has the user's name, the connection
//! acts as this role; any other user of the list acts as the first superuser. A server without a list asks
//! for no password.

use crate::Server;
use crate::password::Password;
use catalog::now_us;
use reprise::SqlError;
use sql::Schema;

/// Returns the verifier of a user's password, if the user may log in with one.
pub(crate) fn password_of(server: &Server, user: &str) -> Option<Password> {
    let users = server.options.users.as_ref()?;
    if users.contains(user) {
        return Some(users.password(user));
    }
    server.pool().database().with_definitions(|schema| {
        let (_, role) = schema.role(user)?;
        let is_valid = role.valid_until.as_ref().is_none_or(|(until, _)| now_us() < *until);
        role.password.as_deref().filter(|_| is_valid).and_then(Password::of)
    })
}

/// An authenticated user.
pub(crate) struct Login {
    /// The number of the role as which the user acts.
    pub(crate) role: u32,
    pub(crate) is_superuser: bool,
}

impl Login {
    /// Returns the login of an authenticated user.
    ///
    /// # Errors
    /// `28000`: the role has no LOGIN. `42501`: the role has no CONNECT. `53300`: the role has reached its
    /// CONNECTION LIMIT.
    pub(crate) fn of(server: &Server, user: &str) -> Result<Self, SqlError> {
        let connections = server.connections.all();
        let count = connections.iter().filter(|connection| connection.presence.user() == user).count();
        server.pool().database().with_definitions(|schema| {
            let Some((role, known)) = schema.role(user) else {
                return Ok(Self { role: Schema::first_superuser(), is_superuser: true });
            };
            if !known.logs_in {
                return Err(SqlError::new("28000", format!("role \"{user}\" is not permitted to log in")));
            }
            let limit = usize::try_from(known.connections).unwrap_or(usize::MAX);
            if count >= limit && !known.is_superuser {
                return Err(SqlError::new("53300", format!("too many connections for role \"{user}\"")));
            }
            schema.check_connect(role)?;
            Ok(Self { role, is_superuser: known.is_superuser })
        })
    }
}

/// Returns the role of a connection's user.
pub(crate) fn role_of_user(schema: &Schema, user: &str) -> u32 {
    schema.role(user).map_or(Schema::first_superuser(), |(id, _)| id)
}
