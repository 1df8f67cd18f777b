//! GRANT and REVOKE of privileges on objects, and ALTER DEFAULT PRIVILEGES.
//! Source: PostgreSQL 15's documentation of the statements; the order of its checks (`aclchk.c`).

use super::acl::{Acl, AclChange, AclItem, AclKind, PUBLIC, Privileges, RoleId, privilege_of};
use super::clause::{Clause, RoleName};
use super::rights::DefaultAcl;
use crate::error::StatementError;
use crate::full_names::short;
use crate::schema::Schema;
use crate::subject::Subject;
use procedure::SqlError;

/// The privileges that a statement names, on objects and on columns.
struct Named {
    /// `None` is ALL.
    privileges: Option<Privileges>,
    /// Privileges on columns; `None` is ALL.
    columns: Vec<(Option<Privileges>, Vec<String>)>,
    /// The keywords, for error messages.
    words: Vec<(Privileges, String)>,
}

/// The clauses of a statement that follow its objects.
struct Tail {
    grantees: Vec<RoleId>,
    /// WITH GRANT OPTION, or GRANT OPTION FOR.
    option: bool,
    cascades: bool,
    grants: bool,
}

impl Tail {
    /// Returns the part of a REVOKE ... FROM a role CASCADE.
    fn revoking_all(role: RoleId) -> Self {
        Self { grantees: vec![role], option: false, cascades: true, grants: false }
    }
}

/// Returns the word for a kind of objects in errors.
fn kind_word(kind: AclKind) -> &'static str {
    match kind {
        AclKind::Table => "table",
        AclKind::Column => "column",
        AclKind::Sequence => "sequence",
        AclKind::Routine => "function",
        AclKind::Namespace => "schema",
        AclKind::Type => "type",
        AclKind::Database => "database",
    }
}

impl Named {
    fn read(clause: &mut Clause<'_>) -> Result<Self, StatementError> {
        let mut named = Self { privileges: Some(0), columns: Vec::new(), words: Vec::new() };
        if clause.skip(&["ALL"]) {
            clause.skip(&["PRIVILEGES"]);
            let columns = clause.names_in_parentheses()?;
            match columns.is_empty() {
                true => named.privileges = None,
                false => named.columns.push((None, columns)),
            }
            return Ok(named);
        }
        loop {
            let word = clause.name()?;
            let Some(privilege) = privilege_of(&word) else {
                let message = format!("unrecognized privilege type \"{word}\"");
                return Err(clause.refuse(SqlError::new("42601", message)));
            };
            let columns = clause.names_in_parentheses()?;
            named.words.push((privilege, word.to_uppercase()));
            match columns.is_empty() {
                true => named.privileges = named.privileges.map(|all| all | privilege),
                false => named.columns.push((Some(privilege), columns)),
            }
            if !clause.skip(&[","]) {
                return Ok(named);
            }
        }
    }

    /// Refuses privileges that objects of a kind do not have.
    fn check(&self, objects: &Objects, clause: &Clause<'_>) -> Result<(), StatementError> {
        let kind = objects.kind();
        let known = if kind == AclKind::Table { kind.all() | AclKind::Sequence.all() } else { kind.all() };
        let refuse = |message: String| Err(clause.refuse(SqlError::new("0LP01", message)));
        if let Some((_, word)) = self.words.iter().find(|(privilege, _)| privilege & known == 0) {
            return refuse(format!("invalid privilege type {word} for {}", objects.word()));
        }
        if !self.columns.is_empty() && kind != AclKind::Table {
            return refuse("column privileges are only valid for relations".into());
        }
        for privilege in self.columns.iter().filter_map(|(privilege, _)| *privilege) {
            if privilege & AclKind::Column.all() == 0 {
                let word = self.words.iter().find(|(known, _)| *known == privilege);
                let word = word.map_or("", |(_, word)| word.as_str());
                return refuse(format!("invalid privilege type {word} for column"));
            }
        }
        Ok(())
    }
}

/// The kind of routines that a GRANT names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RoutineKind {
    Function,
    Procedure,
    Any,
}

/// The objects of a GRANT.
enum Objects {
    /// Objects of a kind, by name.
    Listed(AclKind, Vec<String>),
    /// Functions or procedures, by name.
    Routines(RoutineKind, Vec<String>),
    /// Domains, by name.
    Domains(Vec<String>),
    /// All objects of a kind in schemas; of routines, only functions or only procedures where that is given.
    AllIn(AclKind, Option<bool>, Vec<String>),
}

impl Objects {
    /// Returns the word for the objects in errors.
    fn word(&self) -> &'static str {
        match self {
            Self::Domains(_) => "domain",
            _ if self.kind() == AclKind::Table => "relation",
            _ => kind_word(self.kind()),
        }
    }

    fn kind(&self) -> AclKind {
        match self {
            Self::Listed(kind, _) | Self::AllIn(kind, ..) => *kind,
            Self::Domains(_) => AclKind::Type,
            Self::Routines(..) => AclKind::Routine,
        }
    }

    fn read(clause: &mut Clause<'_>) -> Result<Self, StatementError> {
        if clause.skip(&["ALL"]) {
            let kinds = ["TABLES", "SEQUENCES", "FUNCTIONS", "PROCEDURES", "ROUTINES"];
            let (kind, functions) = match clause.skip_any(&kinds) {
                Some("TABLES") => (AclKind::Table, None),
                Some("SEQUENCES") => (AclKind::Sequence, None),
                Some("FUNCTIONS") => (AclKind::Routine, Some(true)),
                Some("PROCEDURES") => (AclKind::Routine, Some(false)),
                Some(_) => (AclKind::Routine, None),
                None => return Err(clause.syntax()),
            };
            clause.require("IN")?;
            clause.require("SCHEMA")?;
            return Ok(Self::AllIn(kind, functions, names(clause)?));
        }
        for refused in ["LANGUAGE", "TABLESPACE", "FOREIGN", "LARGE", "PARAMETER"] {
            if clause.is(refused) {
                return Err(clause.unsupported("privileges on this kind of object"));
            }
        }
        if clause.skip(&["DOMAIN"]) {
            return Ok(Self::Domains(names(clause)?));
        }
        let routines = match clause.skip_any(&["FUNCTION", "PROCEDURE", "ROUTINE"]) {
            Some("FUNCTION") => Some(RoutineKind::Function),
            Some("PROCEDURE") => Some(RoutineKind::Procedure),
            Some(_) => Some(RoutineKind::Any),
            None => None,
        };
        if let Some(kind) = routines {
            return Ok(Self::Routines(kind, names(clause)?));
        }
        let kinds = ["TABLE", "SEQUENCE", "SCHEMA", "DATABASE", "TYPE"];
        let kind = match clause.skip_any(&kinds) {
            None | Some("TABLE") => AclKind::Table,
            Some("SEQUENCE") => AclKind::Sequence,
            Some("SCHEMA") => AclKind::Namespace,
            Some("DATABASE") => AclKind::Database,
            Some(_) => AclKind::Type,
        };
        Ok(Self::Listed(kind, names(clause)?))
    }
}

/// Reads a list of names, and skips the argument types of functions.
fn names(clause: &mut Clause<'_>) -> Result<Vec<String>, StatementError> {
    let mut names = Vec::new();
    loop {
        names.push(clause.object()?);
        clause.skip_parentheses();
        if !clause.skip(&[","]) {
            return Ok(names);
        }
    }
}

impl Schema {
    /// Executes GRANT or REVOKE of privileges, from the word after the keyword on.
    pub(crate) fn grant_privileges(
        &mut self,
        clause: &mut Clause<'_>,
        grants: bool,
    ) -> Result<(), StatementError> {
        let option = !grants && clause.skip(&["GRANT", "OPTION", "FOR"]);
        let named = Named::read(clause)?;
        clause.require("ON")?;
        let objects = Objects::read(clause)?;
        let tail = self.read_tail(clause, grants, option)?;
        named.check(&objects, clause)?;
        for subject in self.subjects_meant(&objects, clause)? {
            self.change_privileges(&subject, &named, &tail, clause)?;
        }
        Ok(())
    }

    fn read_tail(
        &self,
        clause: &mut Clause<'_>,
        grants: bool,
        mut option: bool,
    ) -> Result<Tail, StatementError> {
        clause.require(if grants { "TO" } else { "FROM" })?;
        let names = clause.roles()?;
        option |= grants && clause.skip(&["WITH", "GRANT", "OPTION"]);
        if clause.skip(&["GRANTED", "BY"]) {
            let grantor = clause.role()?;
            if self.role_meant(&grantor, clause)? != self.maker {
                return Err(clause.refuse(SqlError::new("0A000", "grantor must be current user")));
            }
        }
        let cascades = !grants && clause.skip_any(&["CASCADE", "RESTRICT"]) == Some("CASCADE");
        if !clause.is_at_end() {
            return Err(clause.syntax());
        }
        let mut grantees = Vec::new();
        for name in &names {
            grantees.push(match name {
                RoleName::Public => PUBLIC,
                name => self.role_meant(name, clause)?,
            });
        }
        Ok(Tail { grantees, option, cascades, grants })
    }

    /// Returns the objects that a statement names.
    fn subjects_meant(&self, objects: &Objects, clause: &Clause<'_>) -> Result<Vec<Subject>, StatementError> {
        match objects {
            Objects::Listed(kind, names) => {
                names.iter().map(|name| self.object_meant(*kind, name, clause)).collect()
            }
            Objects::Routines(kind, names) => {
                let routine = |name: &String| {
                    let found = self.object_meant(AclKind::Routine, name, clause)?;
                    self.check_routine_kind(*kind, name).map_err(|error| clause.refuse(error))?;
                    Ok(found)
                };
                names.iter().map(routine).collect()
            }
            Objects::Domains(names) => {
                let domain = |name: &String| {
                    let found = self.object_meant(AclKind::Type, name, clause)?;
                    if self.catalog.domain(name).is_none() {
                        let message = format!("\"{}\" is not a domain", short(name));
                        return Err(clause.refuse(SqlError::new("42809", message)));
                    }
                    Ok(found)
                };
                names.iter().map(domain).collect()
            }
            Objects::AllIn(kind, functions, schemas) => self.all_in(*kind, *functions, schemas, clause),
        }
    }

    /// Returns an object that a statement names.
    fn object_meant(
        &self,
        kind: AclKind,
        name: &str,
        clause: &Clause<'_>,
    ) -> Result<Subject, StatementError> {
        let refuse = |code: &str, message: String| Err(clause.refuse(SqlError::new(code, message)));
        let is_in_schema = !matches!(kind, AclKind::Namespace | AclKind::Database);
        if let Some((schema, _)) = name.rsplit_once('.').filter(|_| is_in_schema) {
            self.check_usage(self.maker, schema).map_err(|error| clause.refuse(error))?;
        }
        let (subject, code, what) = match kind {
            AclKind::Routine => (Subject::Routine(name.into()), "42883", format!("function {name}")),
            AclKind::Namespace => (Subject::Namespace(name.into()), "3F000", format!("schema \"{name}\"")),
            AclKind::Type => (Subject::Type(name.into()), "42704", format!("type \"{name}\"")),
            AclKind::Database => (Subject::Database, "3D000", format!("database \"{name}\"")),
            _ => (Subject::Relation(name.into()), "42P01", format!("relation \"{}\"", short(name))),
        };
        let exists = match &subject {
            Subject::Database => name == crate::system::DATABASE,
            Subject::Relation(name) => self.relation_exists(name),
            known => self.has_subject(known),
        };
        if !exists {
            return refuse(code, format!("{what} does not exist"));
        }
        match self.acl_kind(&subject) {
            None => refuse("42809", format!("\"{}\" is an index", short(name))),
            Some(found) if kind == AclKind::Sequence && found != kind => {
                refuse("42809", format!("\"{}\" is not a sequence", short(name)))
            }
            Some(_) => Ok(subject),
        }
    }

    /// Refuses a procedure where a statement names functions, and a function where it names procedures.
    fn check_routine_kind(&self, kind: RoutineKind, name: &str) -> Result<(), SqlError> {
        let Some(routine) = self.procedure(name) else { return Ok(()) };
        let is_function = routine.is_function || routine.is_trigger;
        let word = match kind {
            RoutineKind::Function if !is_function => "function",
            RoutineKind::Procedure if is_function => "procedure",
            _ => return Ok(()),
        };
        let types: Vec<_> = routine.inputs().map(|(_, own)| own.ty.to_string()).collect();
        let message = format!("{}({}) is not a {word}", short(name), types.join(", "));
        Err(SqlError::new("42809", message))
    }

    /// Returns all objects of a kind in schemas.
    fn all_in(
        &self,
        kind: AclKind,
        functions: Option<bool>,
        schemas: &[String],
        clause: &Clause<'_>,
    ) -> Result<Vec<Subject>, StatementError> {
        for schema in schemas {
            if schema != "public" {
                self.check_usage(self.maker, schema).map_err(|error| clause.refuse(error))?;
            }
            if !self.has_namespace(schema) {
                let message = format!("schema \"{schema}\" does not exist");
                return Err(clause.refuse(SqlError::new("3F000", message)));
            }
        }
        let is_listed = |name: &str| schemas.iter().any(|schema| super::rights::namespace_in(name) == schema);
        let is_in = |subject: &Subject| match subject {
            Subject::Relation(name) => is_listed(name),
            Subject::Routine(name) => {
                let is_function = self.procedure(name).is_some_and(|known| known.is_function);
                functions.is_none_or(|wanted| wanted == is_function) && is_listed(name)
            }
            _ => false,
        };
        let all = self.owned_subjects().into_iter();
        Ok(all.filter(|subject| is_in(subject) && self.acl_kind(subject) == Some(kind)).collect())
    }

    /// Revokes everything that a role has on an object or its columns, and the grants that depend on it, as
    /// DROP OWNED does.
    pub(crate) fn revoke_all(
        &mut self,
        subject: &Subject,
        role: RoleId,
        clause: &Clause<'_>,
    ) -> Result<(), StatementError> {
        let named = Named { privileges: None, columns: Vec::new(), words: Vec::new() };
        self.change_privileges(subject, &named, &Tail::revoking_all(role), clause)
    }

    /// Revokes what default privileges give to a role.
    pub(crate) fn revoke_defaults(&mut self, role: RoleId) -> Result<(), SqlError> {
        for default in self.rights.defaults.clone() {
            if default.acl.0.iter().any(|item| item.grantee == role) {
                let DefaultAcl { role: owner, namespace, kind, .. } = default;
                self.change_default(owner, namespace, kind, kind.all(), &Tail::revoking_all(role))?;
            }
        }
        Ok(())
    }

    /// Changes the privileges on an object and its columns.
    fn change_privileges(
        &mut self,
        subject: &Subject,
        named: &Named,
        tail: &Tail,
        clause: &Clause<'_>,
    ) -> Result<(), StatementError> {
        let Some(kind) = self.acl_kind(subject) else { return Ok(()) };
        if kind == AclKind::Table
            && let Some((_, word)) = named.words.iter().find(|(privilege, _)| privilege & kind.all() == 0)
        {
            let message = format!("invalid privilege type {word} for table");
            return Err(clause.refuse(SqlError::new("0LP01", message)));
        }
        let on_object = named.privileges.map_or(kind.all(), |privileges| privileges & kind.all());
        let mut columns: Vec<(String, Privileges)> = Vec::new();
        let Subject::Relation(relation) = subject else {
            return self.change_acl(subject, kind, on_object, tail, clause);
        };
        let mut add =
            |name: &str, privileges: Privileges| match columns.iter_mut().find(|(known, _)| known == name) {
                Some((_, granted)) => *granted |= privileges,
                None => columns.push((name.into(), privileges)),
            };
        // As in PostgreSQL, revoking a privilege on a table revokes it on the columns, too.
        if !tail.grants && on_object & AclKind::Column.all() != 0 {
            let names: Vec<String> = match (self.catalog.table(relation), self.view(relation)) {
                (Ok(table), _) => table.columns.iter().map(|column| column.name.clone()).collect(),
                (_, Some(view)) => self.view_columns(view).into_iter().map(|(name, _)| name).collect(),
                _ => Vec::new(),
            };
            names.iter().for_each(|name| add(name, on_object & AclKind::Column.all()));
        }
        for (privilege, names) in &named.columns {
            for name in names {
                if !self.has_subject(&Subject::Column(relation.clone(), name.clone())) {
                    let relation = short(relation);
                    let message = format!("column \"{name}\" of relation \"{relation}\" does not exist");
                    return Err(clause.refuse(SqlError::new("42703", message)));
                }
                add(name, privilege.unwrap_or(AclKind::Column.all()));
            }
        }
        if on_object != 0 || named.privileges.is_none() {
            self.change_acl(subject, kind, on_object, tail, clause)?;
        }
        for (name, privileges) in columns {
            let column = Subject::Column(relation.clone(), name);
            self.change_acl(&column, AclKind::Column, privileges, tail, clause)?;
        }
        Ok(())
    }

    /// Changes the privileges on an object without its columns, or on a column.
    fn change_acl(
        &mut self,
        subject: &Subject,
        kind: AclKind,
        privileges: Privileges,
        tail: &Tail,
        clause: &Clause<'_>,
    ) -> Result<(), StatementError> {
        let (owner, roles) = (self.owner_of(subject), self.roles());
        let mut acl = self.acl_of(subject);
        let mut known = acl.clone();
        if let Subject::Column(table, _) = subject {
            known.0.extend(self.acl_of(&Subject::Relation(table.clone())).0);
        }
        let (grantor, options) = known.grantor_for(self.maker, owner, privileges, roles);
        if options & privileges == 0 {
            let held = known.privileges_of(grantor, roles) | known.options_of(grantor, owner, roles);
            if held & kind.all() == 0 {
                let table = subject.owner().map(|table| Subject::Relation(table.clone()));
                return Err(clause.refuse(self.denied(table.as_ref().unwrap_or(subject))));
            }
        }
        // As in PostgreSQL, privileges that the role may not grant are left out without an error.
        apply(&mut acl, privileges & options, owner, grantor, tail, roles)
            .map_err(|error| clause.refuse(error))?;
        if kind == AclKind::Column && acl.0.is_empty() {
            self.rights_mut().acls.remove(subject);
        } else {
            self.rights_mut().acls.insert(subject.clone(), acl);
        }
        Ok(())
    }

    /// Executes ALTER DEFAULT PRIVILEGES, from the word after these keywords on.
    pub(crate) fn alter_default_privileges(&mut self, clause: &mut Clause<'_>) -> Result<(), StatementError> {
        let (mut roles, mut schemas) = (vec![self.maker], Vec::new());
        loop {
            if clause.skip(&["FOR", "ROLE"]) || clause.skip(&["FOR", "USER"]) {
                let names = clause.roles()?;
                roles = self.roles_meant(&names, clause)?;
            } else if clause.skip(&["IN", "SCHEMA"]) {
                schemas = names(clause)?;
            } else {
                break;
            }
        }
        let grants = match clause.skip_any(&["GRANT", "REVOKE"]) {
            Some(word) => word == "GRANT",
            None => return Err(clause.syntax()),
        };
        let option = !grants && clause.skip(&["GRANT", "OPTION", "FOR"]);
        let named = Named::read(clause)?;
        clause.require("ON")?;
        let kinds = ["TABLES", "SEQUENCES", "FUNCTIONS", "ROUTINES", "TYPES", "SCHEMAS"];
        let kind = match clause.skip_any(&kinds) {
            Some("TABLES") => AclKind::Table,
            Some("SEQUENCES") => AclKind::Sequence,
            Some("TYPES") => AclKind::Type,
            Some("SCHEMAS") => AclKind::Namespace,
            Some(_) => AclKind::Routine,
            None => return Err(clause.syntax()),
        };
        let tail = self.read_tail(clause, grants, option)?;
        if !named.columns.is_empty() {
            let message = "default privileges cannot be set for columns";
            return Err(clause.refuse(SqlError::new("0LP01", message)));
        }
        let known = kind.all();
        if let Some((_, word)) = named.words.iter().find(|(privilege, _)| privilege & known == 0) {
            let kind = if kind == AclKind::Table { "relation" } else { kind_word(kind) };
            let message = format!("invalid privilege type {word} for {kind}");
            return Err(clause.refuse(SqlError::new("0LP01", message)));
        }
        if kind == AclKind::Namespace && !schemas.is_empty() {
            let message = "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS";
            return Err(clause.refuse(SqlError::new("0LP01", message)));
        }
        for role in roles {
            if !self.roles().is_member(self.maker, role) {
                let message = format!("must be member of role \"{}\"", self.role_name(role));
                return Err(clause.refuse(SqlError::new("42501", message)));
            }
            let scopes =
                if schemas.is_empty() { vec![None] } else { schemas.iter().cloned().map(Some).collect() };
            for namespace in scopes {
                if let Some(name) = namespace.as_ref().filter(|name| !self.has_namespace(name)) {
                    let message = format!("schema \"{name}\" does not exist");
                    return Err(clause.refuse(SqlError::new("3F000", message)));
                }
                let privileges = named.privileges.unwrap_or(known);
                self.change_default(role, namespace, kind, privileges, &tail)
                    .map_err(|error| clause.refuse(error))?;
            }
        }
        Ok(())
    }

    fn change_default(
        &mut self,
        role: RoleId,
        namespace: Option<String>,
        kind: AclKind,
        privileges: Privileges,
        tail: &Tail,
    ) -> Result<(), SqlError> {
        let default = if namespace.is_none() { kind.default(role) } else { Acl::default() };
        let is_it =
            |known: &DefaultAcl| known.role == role && known.kind == kind && known.namespace == namespace;
        let index = self.rights.defaults.iter().position(is_it);
        let mut acl = index.map_or_else(|| default.clone(), |index| self.rights.defaults[index].acl.clone());
        apply(&mut acl, privileges, role, role, tail, self.roles())?;
        let defaults = &mut self.rights_mut().defaults;
        if let Some(index) = index {
            defaults.remove(index);
        }
        acl.sort();
        let mut sorted = default;
        sorted.sort();
        if acl != sorted {
            defaults.push(DefaultAcl { role, namespace, kind, acl });
        }
        Ok(())
    }
}

/// Grants privileges to the grantees of a statement, or revokes them.
fn apply(
    acl: &mut Acl,
    privileges: Privileges,
    owner: RoleId,
    grantor: RoleId,
    tail: &Tail,
    known: &dyn super::acl::Inheritance,
) -> Result<(), SqlError> {
    if tail.grants && tail.option && tail.grantees.contains(&PUBLIC) {
        return Err(SqlError::new("0LP01", "grant options can only be granted to roles"));
    }
    for grantee in &tail.grantees {
        let item = AclItem {
            grantee: *grantee,
            grantor,
            privileges: if tail.grants || !tail.option { privileges } else { 0 },
            options: if !tail.grants || tail.option { privileges } else { 0 },
        };
        acl.change(AclChange { item, grants: tail.grants, cascades: tail.cascades }, owner, known)?;
    }
    Ok(())
}
