//! SET ROLE and SET SESSION AUTHORIZATION.
//! Source: PostgreSQL 15's documentation of the statements.

use super::Settings;
use super::identity::{Identity, KnownRoles};
use crate::Server;
use reprise::SqlError;
use sql::Schema;
use std::sync::Arc;

/// Reads a role as SET writes it: in either quotes, or in lower case.
fn role_named(text: &str) -> String {
    let text = text.trim();
    let inside = |quote: char| text.strip_prefix(quote).and_then(|inner| inner.strip_suffix(quote));
    match (inside('"'), inside('\'')) {
        (Some(name), _) => name.replace("\"\"", "\""),
        (_, Some(name)) => name.replace("''", "'"),
        _ => text.to_lowercase(),
    }
}

fn missing(name: &str) -> SqlError {
    SqlError::new("22023", format!("role \"{name}\" does not exist"))
}

impl Settings {
    /// Sets the roles at the begin of a connection.
    pub(crate) fn logged_in(&mut self, server: &Arc<Server>, role: u32) {
        self.roles = KnownRoles::of(server);
        self.values.identity = Identity::of(role);
        self.show_superuser();
        self.initial = self.values.clone();
    }

    pub(crate) fn identity(&self) -> Identity {
        self.values.identity
    }

    /// Returns whether the acting role is a superuser.
    pub(crate) fn acts_as_superuser(&self) -> bool {
        let role = self.values.identity.role();
        self.roles.with(|schema| schema.is_superuser(role)).unwrap_or(role == Schema::first_superuser())
    }

    fn show_superuser(&mut self) {
        let is_super = self.acts_as_superuser();
        self.values.insert("is_superuser".into(), if is_super { "on" } else { "off" }.into());
    }

    /// SET ROLE.
    ///
    /// # Errors
    /// `22023`: there is no such role. `42501`: the session's role is no member of it.
    pub(super) fn set_role(&mut self, text: &str, is_default: bool) -> Result<(), SqlError> {
        let name = role_named(text);
        let is_none = is_default || name == "none" && !text.trim().starts_with('"');
        let session = self.values.identity.session;
        let current = match is_none {
            true => None,
            false => Some(self.role_of(&name, |schema, role| {
                if schema.is_member_of(session, role) {
                    return Ok(());
                }
                Err(SqlError::new("42501", format!("permission denied to set role \"{name}\"")))
            })?),
        };
        self.values.identity.current = current;
        self.values.insert("role".into(), if is_none { "none".into() } else { name });
        self.show_superuser();
        self.changes += 1;
        Ok(())
    }

    /// SET SESSION AUTHORIZATION.
    ///
    /// # Errors
    /// `22023`: there is no such role. `42501`: it is another one, and the role that logged in is no
    /// superuser.
    pub(super) fn set_session_authorization(&mut self, text: &str, is_default: bool) -> Result<(), SqlError> {
        let authenticated = self.values.identity.authenticated;
        let name = role_named(text);
        let first = self.initial.get("session_authorization").cloned().unwrap_or_default();
        let (session, name) = match is_default || name == first {
            true => (authenticated, first),
            false => {
                let role = self.role_of(&name, |schema, role| {
                    if role == authenticated || schema.is_superuser(authenticated) {
                        return Ok(());
                    }
                    Err(SqlError::new("42501", "permission denied to set session authorization"))
                })?;
                (role, name)
            }
        };
        self.values.identity = Identity { authenticated, session, current: None };
        self.values.insert("session_authorization".into(), name);
        self.values.insert("role".into(), "none".into());
        self.show_superuser();
        self.changes += 1;
        Ok(())
    }

    /// Returns the number of a role that passes a check.
    fn role_of(
        &self,
        name: &str,
        check: impl FnOnce(&Schema, u32) -> Result<(), SqlError>,
    ) -> Result<u32, SqlError> {
        let found = self.roles.with(|schema| {
            let (id, _) = schema.role(name).ok_or_else(|| missing(name))?;
            check(schema, id).map(|()| id)
        });
        found.unwrap_or_else(|| Err(missing(name)))
    }
}
