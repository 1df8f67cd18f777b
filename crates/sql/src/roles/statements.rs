//! The statements CREATE, ALTER and DROP ROLE, and GRANT and REVOKE of roles.
//! Source: PostgreSQL 15's documentation of the statements; the order of its checks.

use super::acl::{AclKind, RoleId};
use super::clause::{Clause, RoleName};
use super::password::refuse_hash;
use super::rights::DefaultAcl;
use super::role::{BOOTSTRAP, DATABASE_OWNER, Membership, Role};
use crate::error::StatementError;
use crate::notices::notice;
use crate::schema::Schema;
use procedure::{Severity, SqlError};

/// The options of CREATE ROLE and ALTER ROLE; `None` if the statement has no such option.
#[derive(Default)]
struct Options {
    superuser: Option<bool>,
    inherit: Option<bool>,
    create_role: Option<bool>,
    create_database: Option<bool>,
    login: Option<bool>,
    replication: Option<bool>,
    bypass_rls: Option<bool>,
    connections: Option<i64>,
    /// `Some(None)` is PASSWORD NULL.
    password: Option<Option<String>>,
    valid_until: Option<String>,
    in_roles: Vec<RoleName>,
    members: Vec<RoleName>,
    admins: Vec<RoleName>,
}

/// How a membership is granted.
#[derive(Clone, Copy)]
pub(crate) struct Granting {
    grantor: RoleId,
    /// WITH ADMIN OPTION.
    admin: bool,
}

impl Granting {
    fn plain(grantor: RoleId) -> Self {
        Self { grantor, admin: false }
    }
}

fn denied(message: impl Into<String>) -> SqlError {
    SqlError::new("42501", message)
}

/// Returns the option that a keyword sets, with `false` if the keyword has the prefix NO.
fn flag(word: &str) -> Option<(&str, bool)> {
    let flags = ["SUPERUSER", "INHERIT", "CREATEROLE", "CREATEDB", "LOGIN", "REPLICATION", "BYPASSRLS"];
    let plain = |word: &str| flags.iter().find(|known| word.eq_ignore_ascii_case(known)).copied();
    if let Some(known) = plain(word) {
        return Some((known, true));
    }
    let negated = word.get(..2).filter(|no| no.eq_ignore_ascii_case("NO")).and(word.get(2..))?;
    plain(negated).map(|known| (known, false))
}

/// Sets an option.
///
/// # Errors
/// `42601`: the statement has set it before.
fn set<T>(clause: &Clause<'_>, option: &mut Option<T>, value: T) -> Result<(), StatementError> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(clause.refuse(SqlError::new("42601", "conflicting or redundant options"))),
    }
}

impl Options {
    fn read(clause: &mut Clause<'_>) -> Result<Self, StatementError> {
        let mut options = Self::default();
        clause.skip(&["WITH"]);
        while !clause.is_at_end() {
            if clause.skip(&["CONNECTION", "LIMIT"]) {
                let limit = clause.integer()?;
                if limit < -1 {
                    let message = format!("invalid connection limit: {limit}");
                    return Err(clause.refuse(SqlError::new("22023", message)));
                }
                set(clause, &mut options.connections, limit)?;
            } else if clause.skip(&["PASSWORD", "NULL"]) {
                set(clause, &mut options.password, None)?;
            } else if clause.skip(&["ENCRYPTED", "PASSWORD"]) || clause.skip(&["PASSWORD"]) {
                let text = clause.text()?;
                refuse_hash(&text).map_err(|error| clause.refuse(error))?;
                set(clause, &mut options.password, Some(text))?;
            } else if clause.skip(&["VALID", "UNTIL"]) {
                let text = clause.text()?;
                set(clause, &mut options.valid_until, text)?;
            } else if clause.skip(&["IN", "ROLE"]) || clause.skip(&["IN", "GROUP"]) {
                options.in_roles.extend(clause.roles()?);
            } else if clause.skip(&["ADMIN"]) {
                options.admins.extend(clause.roles()?);
            } else if clause.skip(&["ROLE"]) || clause.skip(&["USER"]) {
                options.members.extend(clause.roles()?);
            } else if clause.skip(&["SYSID"]) {
                clause.integer()?;
            } else {
                options.read_flag(clause)?;
            }
        }
        Ok(options)
    }

    fn read_flag(&mut self, clause: &mut Clause<'_>) -> Result<(), StatementError> {
        let position = clause.position();
        let word = clause.name()?;
        let Some((flag, value)) = flag(&word) else {
            clause.return_to(position);
            let message = format!("unrecognized role option \"{word}\"");
            return Err(clause.refuse(SqlError::new("42601", message)));
        };
        let option = match flag {
            "SUPERUSER" => &mut self.superuser,
            "INHERIT" => &mut self.inherit,
            "CREATEROLE" => &mut self.create_role,
            "CREATEDB" => &mut self.create_database,
            "LOGIN" => &mut self.login,
            "REPLICATION" => &mut self.replication,
            _ => &mut self.bypass_rls,
        };
        set(clause, option, value)
    }

    /// Sets the attributes of a role that the statement has options for.
    fn apply(&self, role: &mut Role) -> Result<(), SqlError> {
        let flags = [
            (&mut role.is_superuser, self.superuser),
            (&mut role.inherits, self.inherit),
            (&mut role.creates_roles, self.create_role),
            (&mut role.creates_databases, self.create_database),
            (&mut role.logs_in, self.login),
            (&mut role.replicates, self.replication),
            (&mut role.bypasses_rls, self.bypass_rls),
        ];
        flags.into_iter().for_each(|(attribute, given)| *attribute = given.unwrap_or(*attribute));
        role.connections = self.connections.unwrap_or(role.connections);
        match &self.password {
            Some(Some(text)) if text.is_empty() => role.password = None,
            Some(password) => role.password.clone_from(password),
            None => {}
        }
        if let Some(text) = &self.valid_until {
            role.valid_until = Some((time_of(text)?, text.clone()));
        }
        Ok(())
    }
}

/// Returns a time in microseconds since 1970.
fn time_of(text: &str) -> Result<i64, SqlError> {
    catalog::parse_timestamptz(text, None).map_err(|error| SqlError::new(error.sqlstate(), error.to_string()))
}

impl Schema {
    /// Returns the number of a role that a statement names.
    ///
    /// # Errors
    /// `42704`: there is no such role.
    pub(crate) fn role_meant(&self, name: &RoleName, clause: &Clause<'_>) -> Result<RoleId, StatementError> {
        let missing =
            |name: &str| clause.refuse(SqlError::new("42704", format!("role \"{name}\" does not exist")));
        match name {
            RoleName::Named(name) if name == "public" => Err(missing("public")),
            RoleName::Named(name) => self.roles().named(name).ok_or_else(|| missing(name)),
            RoleName::Current => Ok(self.maker),
            RoleName::Public => Err(missing("public")),
        }
    }

    pub(crate) fn roles_meant(
        &self,
        names: &[RoleName],
        clause: &Clause<'_>,
    ) -> Result<Vec<RoleId>, StatementError> {
        names.iter().map(|name| self.role_meant(name, clause)).collect()
    }

    /// Returns whether the acting role may create, alter and drop roles.
    fn changes_roles(&self) -> bool {
        self.is_superuser(self.maker)
            || self.roles().all.get(&self.maker).is_some_and(|role| role.creates_roles)
    }

    fn acts_as_superuser(&self) -> bool {
        self.is_superuser(self.maker)
    }

    fn check_new_name(&self, name: &str, clause: &Clause<'_>) -> Result<(), StatementError> {
        let reserved = |message: String| Err(clause.refuse(SqlError::new("42939", message)));
        if name.starts_with("pg_") {
            return reserved(format!("role name \"{name}\" is reserved"));
        }
        if name == "public" || name == "none" {
            return reserved(format!("role name \"{name}\" is reserved"));
        }
        if self.roles().named(name).is_some() {
            let message = format!("role \"{name}\" already exists");
            return Err(clause.refuse(SqlError::new("42710", message)));
        }
        Ok(())
    }

    fn plain_name(clause: &Clause<'_>, name: RoleName) -> Result<String, StatementError> {
        match name {
            RoleName::Named(name) => Ok(name),
            RoleName::Current => {
                let message = "CURRENT_USER cannot be used as a role name here";
                Err(clause.refuse(SqlError::new("42939", message)))
            }
            RoleName::Public => {
                let message = "role name \"public\" is reserved";
                Err(clause.refuse(SqlError::new("42939", message)))
            }
        }
    }

    /// Executes CREATE ROLE, USER or GROUP, from the word after these keywords on.
    pub(crate) fn create_role(
        &mut self,
        clause: &mut Clause<'_>,
        logs_in: bool,
    ) -> Result<(), StatementError> {
        let name = clause.role()?;
        let name = Self::plain_name(clause, name)?;
        let options = Options::read(clause)?;
        let is_super = self.acts_as_superuser();
        let refusal = if options.superuser == Some(true) && !is_super {
            Some("must be superuser to create superusers")
        } else if options.replication == Some(true) && !is_super {
            Some("must be superuser to create replication users")
        } else if options.bypass_rls == Some(true) && !is_super {
            Some("must be superuser to create bypassrls users")
        } else if !self.changes_roles() {
            Some("permission denied to create role")
        } else {
            None
        };
        if let Some(message) = refusal {
            return Err(clause.refuse(denied(message)));
        }
        self.check_new_name(&name, clause)?;
        let mut role = Role { logs_in, ..Role::new(name) };
        self.check_zone(options.valid_until.as_deref()).map_err(|error| clause.refuse(error))?;
        options.apply(&mut role).map_err(|error| clause.refuse(error))?;
        let id = self.rights_mut().roles.add(role);
        for role in self.roles_meant(&options.in_roles, clause)? {
            self.add_members(clause, role, &[id], Granting::plain(self.maker))?;
        }
        for (members, admin) in [(&options.admins, true), (&options.members, false)] {
            let members = self.roles_meant(members, clause)?;
            self.add_members(clause, id, &members, Granting { grantor: self.maker, admin })?;
        }
        Ok(())
    }

    /// Executes ALTER ROLE, USER or GROUP, from the word after these keywords on.
    pub(crate) fn alter_role(&mut self, clause: &mut Clause<'_>) -> Result<(), StatementError> {
        if clause.is("ALL") {
            return Err(clause.unsupported("settings of roles"));
        }
        let name = clause.role()?;
        if clause.skip(&["RENAME", "TO"]) {
            return self.rename_role(clause, name);
        }
        if clause.is("SET") || clause.is("RESET") || clause.is("IN") {
            return Err(clause.unsupported("settings of roles"));
        }
        let id = self.role_meant(&name, clause)?;
        if clause.skip(&["ADD", "USER"]) {
            let members = clause.roles()?;
            let members = self.roles_meant(&members, clause)?;
            return self.add_members(clause, id, &members, Granting::plain(self.maker));
        }
        if clause.skip(&["DROP", "USER"]) {
            let members = clause.roles()?;
            let members = self.roles_meant(&members, clause)?;
            return self.remove_members(clause, id, &members, false);
        }
        let options = Options::read(clause)?;
        if !(options.in_roles.is_empty() && options.admins.is_empty()) {
            return Err(clause.syntax());
        }
        self.check_alter(clause, id, &options)?;
        let mut role = self.roles().all[&id].clone();
        self.check_zone(options.valid_until.as_deref()).map_err(|error| clause.refuse(error))?;
        options.apply(&mut role).map_err(|error| clause.refuse(error))?;
        if id == BOOTSTRAP && !role.is_superuser {
            return Err(clause.unsupported("taking SUPERUSER from the bootstrap superuser"));
        }
        self.rights_mut().roles.all.insert(id, role);
        let members = self.roles_meant(&options.members, clause)?;
        self.add_members(clause, id, &members, Granting::plain(self.maker))
    }

    /// Checks that the acting role may change the attributes of a role.
    fn check_alter(&self, clause: &Clause<'_>, id: RoleId, options: &Options) -> Result<(), StatementError> {
        let role = &self.roles().all[&id];
        if role.name.starts_with("pg_") {
            let error = SqlError::new("42939", format!("role name \"{}\" is reserved", role.name));
            return Err(clause.refuse(error.with_detail("Cannot alter reserved roles.")));
        }
        let is_super = self.acts_as_superuser();
        let mut refusal = None;
        if options.superuser.is_some() || role.is_superuser {
            refusal = (!is_super)
                .then_some("must be superuser to alter superuser roles or change superuser attribute");
        } else if options.replication.is_some() || role.replicates {
            refusal = (!is_super)
                .then_some("must be superuser to alter replication roles or change replication attribute");
        } else if options.bypass_rls.is_some() {
            refusal = (!is_super).then_some("must be superuser to change bypassrls attribute");
        } else if !self.changes_roles() {
            let flags = [options.inherit, options.create_role, options.create_database, options.login];
            let is_own_password = flags.iter().all(Option::is_none)
                && options.connections.is_none()
                && options.valid_until.is_none()
                && options.members.is_empty()
                && options.password.is_some()
                && id == self.maker;
            refusal = (!is_own_password).then_some("permission denied");
        }
        refusal.map_or(Ok(()), |message| Err(clause.refuse(denied(message))))
    }

    fn rename_role(&mut self, clause: &mut Clause<'_>, name: RoleName) -> Result<(), StatementError> {
        let old = Self::plain_name(clause, name)?;
        let new = clause.role()?;
        let new = Self::plain_name(clause, new)?;
        let id = self.role_meant(&RoleName::Named(old), clause)?;
        if id == self.maker {
            let error = SqlError::new("0A000", "current user cannot be renamed");
            return Err(clause.refuse(error));
        }
        if self.roles().name(id).starts_with("pg_") {
            let message = format!("role name \"{}\" is reserved", self.roles().name(id));
            return Err(clause.refuse(SqlError::new("42939", message)));
        }
        self.check_new_name(&new, clause)?;
        if self.is_superuser(id) && !self.acts_as_superuser() {
            return Err(clause.refuse(denied("must be superuser to rename superusers")));
        }
        if !self.changes_roles() {
            return Err(clause.refuse(denied("permission denied to rename role")));
        }
        if let Some(role) = self.rights_mut().roles.all.get_mut(&id) {
            role.name = new;
        }
        Ok(())
    }

    /// Executes DROP ROLE, USER or GROUP, from the word after these keywords on.
    pub(crate) fn drop_role(&mut self, clause: &mut Clause<'_>) -> Result<(), StatementError> {
        if !self.changes_roles() {
            return Err(clause.refuse(denied("permission denied to drop role")));
        }
        let if_exists = clause.skip(&["IF", "EXISTS"]);
        for name in clause.roles()? {
            let name = Self::plain_name(clause, name)?;
            let Some(id) = self.roles().named(&name) else {
                if if_exists {
                    self.notices.skip_missing(&format!("role \"{name}\""));
                    continue;
                }
                let message = format!("role \"{name}\" does not exist");
                return Err(clause.refuse(SqlError::new("42704", message)));
            };
            if id == self.maker {
                let error = SqlError::new("55006", "current user cannot be dropped");
                return Err(clause.refuse(error));
            }
            if self.is_superuser(id) && !self.acts_as_superuser() {
                return Err(clause.refuse(denied("must be superuser to drop superusers")));
            }
            if id == BOOTSTRAP || name.starts_with("pg_") {
                let message =
                    format!("cannot drop role {name} because it is required by the database system");
                return Err(clause.refuse(SqlError::new("2BP01", message)));
            }
            let users = self.dependents_of(id);
            if !users.is_empty() {
                let message = format!("role \"{name}\" cannot be dropped because some objects depend on it");
                let error = SqlError::new("2BP01", message).with_detail(users.join("\n"));
                return Err(clause.refuse(error));
            }
            self.rights_mut().roles.remove(id);
        }
        Ok(())
    }

    /// Returns PostgreSQL's descriptions of the objects that depend on a role.
    fn dependents_of(&self, id: RoleId) -> Vec<String> {
        let rights = &self.rights;
        let owned = rights.owners.iter().filter(|(_, owner)| **owner == id);
        let mut all: Vec<String> =
            owned.map(|(subject, _)| format!("owner of {}", self.described(subject))).collect();
        let is_its = |item: &super::acl::AclItem| item.grantee == id || item.grantor == id;
        let granted = rights
            .acls
            .iter()
            .filter(|(subject, acl)| self.owner_of(subject) != id && acl.0.iter().any(is_its));
        all.extend(granted.map(|(subject, _)| format!("privileges for {}", self.described(subject))));
        for own in &rights.defaults {
            if own.role == id {
                all.push(format!("owner of {}", self.described_default(own)));
            } else if own.acl.0.iter().any(is_its) {
                all.push(format!("privileges for {}", self.described_default(own)));
            }
        }
        all
    }

    /// Returns default privileges as error messages write them.
    fn described_default(&self, default: &DefaultAcl) -> String {
        let kind = match default.kind {
            AclKind::Sequence => "sequences",
            AclKind::Routine => "functions",
            AclKind::Type => "types",
            AclKind::Namespace => "schemas",
            AclKind::Table | AclKind::Column | AclKind::Database => "relations",
        };
        let role = self.role_name(default.role);
        let schema = default.namespace.as_ref().map_or(String::new(), |name| format!(" in schema {name}"));
        format!("default privileges on new {kind} belonging to role {role}{schema}")
    }

    /// Checks that the acting role may change who is a member of a role.
    fn check_membership(&self, clause: &Clause<'_>, role: RoleId) -> Result<(), StatementError> {
        if self.is_superuser(role) {
            return match self.acts_as_superuser() {
                true => Ok(()),
                false => Err(clause.refuse(denied("must be superuser to alter superusers"))),
            };
        }
        if !self.changes_roles() && !self.roles().is_admin(self.maker, role) {
            let message = format!("must have admin option on role \"{}\"", self.role_name(role));
            return Err(clause.refuse(denied(message)));
        }
        Ok(())
    }

    /// Makes roles members of a role.
    pub(crate) fn add_members(
        &mut self,
        clause: &Clause<'_>,
        role: RoleId,
        members: &[RoleId],
        granting: Granting,
    ) -> Result<(), StatementError> {
        let Granting { grantor, admin } = granting;
        if members.is_empty() {
            return Ok(());
        }
        self.check_membership(clause, role)?;
        let refuse = |message: String, code: &str| Err(clause.refuse(SqlError::new(code, message)));
        for member in members {
            if role == DATABASE_OWNER {
                let message = "role \"pg_database_owner\" cannot have explicit members";
                return refuse(message.into(), "XX000");
            }
            if *member == DATABASE_OWNER {
                let message = "role \"pg_database_owner\" cannot be a member of any role";
                return refuse(message.into(), "XX000");
            }
            if self.roles().is_true_member(role, *member) {
                let (role, member) = (self.role_name(role), self.role_name(*member));
                return refuse(format!("role \"{role}\" is a member of role \"{member}\""), "0LP01");
            }
            let all = &mut self.rights_mut().roles.memberships;
            match all.iter_mut().find(|known| known.role == role && known.member == *member) {
                Some(known) if known.admin || !admin => {
                    let (role, member) = (self.role_name(role), self.role_name(*member));
                    let message = format!("role \"{member}\" is already a member of role \"{role}\"");
                    self.notices.tell(notice(Severity::Notice, "00000", message));
                }
                Some(known) => (known.admin, known.grantor) = (true, grantor),
                None => all.push(Membership { role, member: *member, grantor, admin }),
            }
        }
        Ok(())
    }

    fn remove_members(
        &mut self,
        clause: &Clause<'_>,
        role: RoleId,
        members: &[RoleId],
        only_admin: bool,
    ) -> Result<(), StatementError> {
        self.check_membership(clause, role)?;
        for member in members {
            let mut all = self.roles().memberships.iter();
            if !all.any(|known| known.role == role && known.member == *member) {
                let (role, member) = (self.role_name(role), self.role_name(*member));
                let message = format!("role \"{member}\" is not a member of role \"{role}\"");
                self.notices.tell(notice(Severity::Warning, "01000", message));
            }
        }
        let all = &mut self.rights_mut().roles.memberships;
        if only_admin {
            let concerned = all
                .iter_mut()
                .filter(|membership| membership.role == role && members.contains(&membership.member));
            concerned.for_each(|membership| membership.admin = false);
        } else {
            all.retain(|membership| membership.role != role || !members.contains(&membership.member));
        }
        Ok(())
    }

    /// Executes GRANT or REVOKE of roles, from the word after the keyword on.
    pub(crate) fn grant_roles(
        &mut self,
        clause: &mut Clause<'_>,
        grants: bool,
    ) -> Result<(), StatementError> {
        let only_admin = !grants && clause.skip(&["ADMIN", "OPTION", "FOR"]);
        let roles = clause.roles()?;
        clause.require(if grants { "TO" } else { "FROM" })?;
        let members = clause.roles()?;
        let admin = grants && clause.skip(&["WITH", "ADMIN", "OPTION"]);
        if clause.is("WITH") {
            return Err(clause.unsupported("this option of a membership"));
        }
        let mut grantor = self.maker;
        if clause.skip(&["GRANTED", "BY"]) {
            let named = clause.role()?;
            grantor = self.role_meant(&named, clause)?;
            if grantor != self.maker && !self.acts_as_superuser() {
                return Err(clause.refuse(denied("must be superuser to set grantor")));
            }
        }
        if !grants {
            clause.skip_any(&["CASCADE", "RESTRICT"]);
        }
        if !clause.is_at_end() {
            return Err(clause.syntax());
        }
        let members = self.roles_meant(&members, clause)?;
        for role in roles {
            if role == RoleName::Public {
                let error = SqlError::new("42601", "column names cannot be included in GRANT/REVOKE ROLE");
                return Err(clause.refuse(error));
            }
            let role = self.role_meant(&role, clause)?;
            if grants {
                self.add_members(clause, role, &members, Granting { grantor, admin })?;
            } else {
                self.remove_members(clause, role, &members, only_admin)?;
            }
        }
        Ok(())
    }
}
