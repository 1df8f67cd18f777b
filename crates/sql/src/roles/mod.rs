//! Roles, owners and privileges: the statements that change them, and the checks of definitions.
//!
//! The log has a SET ROLE before each statement of a role other than the bootstrap superuser, so that
//! recovery knows the creator (`acting`). Passwords are logged as verifiers (`password`).
//! Not here: the privileges that queries and writes need, which the binder notes (`needs`).

pub(crate) mod acl;
mod acting;
mod authorize;
pub(crate) mod clause;
mod grants;
mod hidden_keys;
pub(crate) mod need;
mod needs;
mod objects;
mod owned;
mod password;
pub(crate) mod rights;
pub(crate) mod role;
mod statements;
mod used_types;
pub(crate) mod variant;

pub use password::{needs_verifier, with_verifier};
pub use role::Role;

use crate::error::StatementError;
use crate::schema::Schema;
use crate::source::Source;
use crate::subject::Subject;
use crate::types::object_name;
use clause::Clause;
use procedure::{Effect, SqlError};
use squawk_syntax::ast::{self, AstNode};

/// Returns PostgreSQL's tag of a statement about roles and privileges; `None` for any other statement.
pub(crate) fn tag_of(statement: &ast::Stmt) -> Option<&'static str> {
    Some(match statement {
        ast::Stmt::CreateRole(_) | ast::Stmt::CreateUser(_) | ast::Stmt::CreateGroup(_) => "CREATE ROLE",
        ast::Stmt::AlterRole(_) | ast::Stmt::AlterUser(_) | ast::Stmt::AlterGroup(_) => "ALTER ROLE",
        ast::Stmt::DropRole(_) | ast::Stmt::DropUser(_) | ast::Stmt::DropGroup(_) => "DROP ROLE",
        ast::Stmt::Grant(statement) if is_of_roles(statement.syntax()) => "GRANT ROLE",
        ast::Stmt::Revoke(statement) if is_of_roles(statement.syntax()) => "REVOKE ROLE",
        ast::Stmt::Grant(_) => "GRANT",
        ast::Stmt::Revoke(_) => "REVOKE",
        ast::Stmt::AlterDefaultPrivileges(_) => "ALTER DEFAULT PRIVILEGES",
        ast::Stmt::Reassign(_) => "REASSIGN OWNED",
        ast::Stmt::DropOwned(_) => "DROP OWNED",
        _ => return None,
    })
}

/// Returns whether a GRANT or REVOKE is one of roles, which has no ON.
fn is_of_roles(node: &squawk_syntax::SyntaxNode) -> bool {
    let text = node.text().to_string();
    !crate::words::words_of(&text).iter().any(|word| word.is("ON"))
}

impl Schema {
    /// Returns whether a text may be a statement about roles and privileges.
    pub fn may_change_rights(text: &str) -> bool {
        let source = Source::parse(text);
        source.is_ok_and(|source| source.file.stmts().any(|statement| tag_of(&statement).is_some()))
    }

    /// Executes a statement about roles and privileges; `None` for any other statement.
    pub(crate) fn change_rights(
        &mut self,
        statement: &ast::Stmt,
        source: &Source,
    ) -> Result<Option<Effect>, StatementError> {
        let Some(tag) = tag_of(statement) else { return Ok(None) };
        let clause = &mut Clause::new(source, statement.syntax());
        match tag {
            "CREATE ROLE" => {
                clause.require("CREATE")?;
                let word = clause.skip_any(&["ROLE", "USER", "GROUP"]);
                self.create_role(clause, word == Some("USER"))?;
            }
            "ALTER ROLE" => {
                clause.require("ALTER")?;
                clause.skip_any(&["ROLE", "USER", "GROUP"]);
                self.alter_role(clause)?;
            }
            "DROP ROLE" => {
                clause.require("DROP")?;
                clause.skip_any(&["ROLE", "USER", "GROUP"]);
                self.drop_role(clause)?;
            }
            "GRANT ROLE" | "REVOKE ROLE" | "GRANT" | "REVOKE" => {
                let grants = clause.skip(&["GRANT"]);
                if !grants {
                    clause.require("REVOKE")?;
                }
                match tag.ends_with("ROLE") {
                    true => self.grant_roles(clause, grants)?,
                    false => self.grant_privileges(clause, grants)?,
                }
            }
            "ALTER DEFAULT PRIVILEGES" => {
                ["ALTER", "DEFAULT", "PRIVILEGES"].iter().try_for_each(|word| clause.require(word))?;
                self.alter_default_privileges(clause)?;
            }
            "REASSIGN OWNED" => {
                ["REASSIGN", "OWNED", "BY"].iter().try_for_each(|word| clause.require(word))?;
                self.reassign_owned(clause)?;
            }
            _ => {
                ["DROP", "OWNED", "BY"].iter().try_for_each(|word| clause.require(word))?;
                return self.drop_owned_by(clause).map(Some);
            }
        }
        // Routines with SECURITY DEFINER are compiled with the privileges of their owners.
        if self.procedures.values().any(|routine| routine.is_definer) {
            self.recompile(source, statement.syntax())?;
        }
        Ok(Some(Effect::None))
    }

    /// Drops what a role owns. An object is dropped after the objects that need it.
    fn drop_owned_by(&mut self, clause: &mut Clause<'_>) -> Result<Effect, StatementError> {
        let (mut effects, mut pending) = (Vec::new(), self.drop_owned(clause)?);
        while !pending.is_empty() {
            let (count, mut refusal) = (pending.len(), None);
            let mut refused = Vec::new();
            for text in pending {
                match self.apply_unchecked(&text) {
                    Ok((changed, effect)) => {
                        let maker = self.maker;
                        *self = Self { maker, ..changed };
                        effects.push(effect);
                    }
                    Err(error) => {
                        refusal.get_or_insert(error.error);
                        refused.push(text);
                    }
                }
            }
            if let Some(error) = refusal.filter(|_| refused.len() == count) {
                let message = "cannot drop desired object(s) because other objects depend on them";
                let depends = error.sqlstate == "2BP01";
                return Err(clause.refuse(if depends {
                    SqlError { message: message.into(), ..error }
                } else {
                    error
                }));
            }
            pending = refused;
        }
        Ok(Effect::All(effects))
    }

    /// Executes ALTER … OWNER TO; `None` for any other statement.
    ///
    /// # Errors The errors of `change_owner`. `3F000`, `42704`, `42883`, `42P01`: the object or the role does
    /// not exist.
    pub(crate) fn alter_owner(
        &mut self,
        statement: &ast::Stmt,
        source: &Source,
    ) -> Result<Option<Effect>, StatementError> {
        let node = statement.syntax();
        let Some(to) = node.descendants().find_map(ast::OwnerTo::cast) else { return Ok(None) };
        let path = node.descendants().find_map(ast::PathRef::cast);
        let name = path.as_ref().map(object_name).unwrap_or_default();
        let (subject, code, what) = match statement {
            ast::Stmt::AlterSchema(alter) => {
                let name = alter.schema_ref().map(|name| ast::normalize_name_node(name.syntax()));
                let name = name.unwrap_or_default();
                (Subject::Namespace(name.clone()), "3F000", format!("schema \"{name}\""))
            }
            ast::Stmt::AlterType(_) | ast::Stmt::AlterDomain(_) => {
                (Subject::Type(name.clone()), "42704", format!("type \"{name}\""))
            }
            ast::Stmt::AlterFunction(_) | ast::Stmt::AlterProcedure(_) | ast::Stmt::AlterRoutine(_) => {
                (Subject::Routine(name.clone()), "42883", format!("function {name}"))
            }
            _ => (Subject::Relation(name.clone()), "42P01", format!("relation \"{name}\"")),
        };
        let mut clause = Clause::new(source, to.syntax());
        let refused = |error| source.error_at(node.text_range().start().into(), error);
        if !self.has_subject(&subject) {
            return match node.children().any(|child| ast::IfExists::can_cast(child.kind())) {
                true => Ok(Some(Effect::None)),
                false => Err(refused(SqlError::new(code, format!("{what} does not exist")))),
            };
        }
        ["OWNER", "TO"].iter().try_for_each(|word| clause.require(word))?;
        let role = clause.role()?;
        let role = self.role_meant(&role, &clause)?;
        self.change_owner(&subject, role).map_err(refused)?;
        self.recompile(source, node)?;
        Ok(Some(Effect::None))
    }
}
