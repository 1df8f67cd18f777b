//! Functions over roles and privileges: `has_table_privilege` and similar ones, `pg_has_role`,
//! `pg_get_userbyid`, `acldefault`.
//!
//! Roles and privileges are known when a statement is bound, so a call becomes a choice among the objects.

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::oids::{routine_oid, table_oid};
use crate::roles::acl::{AclKind, Inheritance, Privileges, RoleId, privilege_of};
use crate::schema::Schema;
use crate::subject::Subject;
use catalog::{Datum, ScalarType, Type};
use procedure::{CastContext, CompareClass, CompareOperator, Expression, SqlError};
use squawk_syntax::SyntaxNode;

/// The functions over privileges, and the kind of their objects.
const FUNCTIONS: [(&str, AclKind); 8] = [
    ("has_table_privilege", AclKind::Table),
    ("has_any_column_privilege", AclKind::Column),
    ("has_column_privilege", AclKind::Column),
    ("has_sequence_privilege", AclKind::Sequence),
    ("has_function_privilege", AclKind::Routine),
    ("has_schema_privilege", AclKind::Namespace),
    ("has_database_privilege", AclKind::Database),
    ("has_type_privilege", AclKind::Type),
];

/// A privilege that a function asks for, and whether it asks for the right to grant it.
type AskedPrivilege = (Privileges, bool);

/// Returns the kind of objects of a function over privileges.
pub(crate) fn kind_of(function: &str) -> Option<AclKind> {
    FUNCTIONS.iter().find(|(name, _)| *name == function).map(|(_, kind)| *kind)
}

fn boolean(value: bool) -> Typed {
    Typed::Known(Expression::boolean(value), ScalarType::Boolean.into())
}

/// Returns a choice among values by a number or a text.
fn choice(of: &Expression, branches: Vec<(Datum, Expression)>, otherwise: Expression) -> Expression {
    if branches.is_empty() {
        return otherwise;
    }
    let branch = |(number, value): (Datum, Expression)| {
        let operands = Box::new([of.clone(), Expression::Constant(number)]);
        let (operator, class) = (CompareOperator::Equal, CompareClass::Int);
        (Expression::Compare { operator, class, operands }, value)
    };
    let branches = branches.into_iter().map(branch).collect();
    Expression::Case { branches, otherwise: Box::new(otherwise) }
}

impl Schema {
    /// Returns the objects of a kind, with their numbers.
    fn numbered_subjects(&self, kind: AclKind) -> Vec<(i64, Subject)> {
        let number = |subject: &Subject| {
            Some(match subject {
                Subject::Relation(name) => match (self.catalog().table(name), self.view(name)) {
                    (Ok(table), _) => table_oid(table),
                    (_, view) => self.view_oid(view?),
                },
                Subject::Routine(name) => routine_oid(self.procedure(name)?),
                Subject::Namespace(name) => {
                    self.namespace_names().into_iter().find(|(_, namespace)| namespace == name)?.0
                }
                Subject::Type(name) => self.catalog().type_number(name)?.into(),
                _ => return None,
            })
        };
        let wanted = |subject: &Subject| match kind {
            AclKind::Table | AclKind::Sequence | AclKind::Column => matches!(subject, Subject::Relation(_)),
            _ => self.acl_kind(subject) == Some(kind),
        };
        let all = self.owned_subjects().into_iter().filter(wanted);
        let mut found: Vec<_> = all.filter_map(|object| Some((number(&object)?, object))).collect();
        if kind == AclKind::Database {
            found.push((5, Subject::Database));
        }
        found
    }

    /// Returns an object by its name in a literal.
    fn subject_named(&self, kind: AclKind, name: &str) -> Option<Subject> {
        let plain = name.split('(').next().unwrap_or_default().trim().replace('"', "");
        let plain = plain.strip_prefix("public.").unwrap_or(&plain).to_owned();
        let subject = match kind {
            AclKind::Routine => Subject::Routine(plain),
            AclKind::Namespace => Subject::Namespace(plain),
            AclKind::Type => Subject::Type(plain),
            AclKind::Database => return (plain == crate::system::DATABASE).then_some(Subject::Database),
            _ => Subject::Relation(plain),
        };
        let exists = match &subject {
            Subject::Relation(name) => self.relation_exists(name),
            found => self.has_subject(found),
        };
        exists.then_some(subject)
    }

    /// Returns whether a role has one of some privileges on an object, or on one of its columns.
    fn has_asked(&self, role: RoleId, subject: &Subject, asked: &[AskedPrivilege], any_column: bool) -> bool {
        if self.is_superuser(role) {
            return true;
        }
        let on = |subject: &Subject| {
            let (all, acl) = (self.privileges_on(role, subject), self.acl_of(subject));
            let options = acl.options_of(role, self.owner_of(subject), self.roles());
            asked.iter().any(|(privilege, grants)| if *grants { options } else { all } & privilege != 0)
        };
        let Subject::Relation(relation) = subject else { return on(subject) };
        let mut columns = self.rights.acls.keys().filter(|candidate| candidate.owner() == Some(relation));
        on(subject) || any_column && columns.any(on)
    }
}

impl Binder<'_> {
    /// Returns a role that a literal or the acting role names.
    fn role_argument(&self, argument: &Typed, node: &SyntaxNode) -> Result<RoleId, StatementError> {
        let schema = self.schema;
        let missing =
            |name: &str| self.error(node, SqlError::new("42704", format!("role \"{name}\" does not exist")));
        match argument {
            Typed::Literal(name) if name == "public" => Ok(crate::roles::acl::PUBLIC),
            Typed::Literal(name) => schema.roles().named(name).ok_or_else(|| missing(name)),
            Typed::Known(Expression::Constant(Datum::Int(id)), _) => Ok(u32::try_from(*id).unwrap_or(0)),
            Typed::Known(Expression::Bytes(name), _) => {
                let name = String::from_utf8_lossy(name);
                schema.roles().named(&name).ok_or_else(|| missing(&name))
            }
            _ => Err(self.unsupported(node, "a role that is not a literal in this function")),
        }
    }

    /// Returns the privileges that a literal names.
    fn asked_privileges(
        &self,
        argument: &Typed,
        kind: AclKind,
        node: &SyntaxNode,
    ) -> Result<Vec<AskedPrivilege>, StatementError> {
        let Typed::Literal(text) = argument else {
            return Err(self.unsupported(node, "a privilege that is not a literal in this function"));
        };
        let mut asked = Vec::new();
        for word in text.split(',') {
            let upper = word.trim().to_uppercase();
            let (plain, grants) = match upper.strip_suffix(" WITH GRANT OPTION") {
                Some(plain) => (plain, true),
                None => (upper.as_str(), false),
            };
            let known = privilege_of(plain).filter(|privileges| privileges & kind.all() != 0);
            let Some(privilege) = known else {
                let message = format!("unrecognized privilege type: \"{}\"", word.trim());
                return Err(self.error(node, SqlError::new("22023", message)));
            };
            asked.push((privilege, grants));
        }
        Ok(asked)
    }

    /// Binds `has_table_privilege` and similar functions.
    pub(crate) fn has_privilege(
        &mut self,
        name: &str,
        arguments: &[Typed],
        node: &SyntaxNode,
    ) -> Result<Option<Typed>, StatementError> {
        let Some(kind) = kind_of(name) else { return Ok(None) };
        let width = if name == "has_column_privilege" { 3 } else { 2 };
        if arguments.len() > width
            && let Typed::Known(Expression::Register(_), ty) = &arguments[0]
            && ty.scalar().is_some_and(ScalarType::is_integer)
        {
            return self.has_privilege_by_role(name, arguments, node).map(Some);
        }
        let role = match arguments.len() > width {
            true => self.role_argument(&arguments[0], node)?,
            false => self.schema.acting,
        };
        if matches!(arguments.last(), Some(Typed::Null)) {
            return Ok(Some(Typed::Known(Expression::NULL, ScalarType::Boolean.into())));
        }
        let object_arguments = &arguments[arguments.len() - width..];
        let asked = self.asked_privileges(&object_arguments[width - 1], kind, node)?;
        let is_any = name == "has_any_column_privilege";
        if width == 3 {
            return self.has_column_privilege(role, object_arguments, &asked, node).map(Some);
        }
        let schema = self.schema;
        if let Typed::Literal(object) = &object_arguments[0]
            && object.parse::<i64>().is_err()
        {
            let Some(subject) = schema.subject_named(kind, object) else {
                // A relation of the system can be read by all.
                if schema.system_relation(object).is_some() {
                    return Ok(Some(boolean(true)));
                }
                let (code, what) = match kind {
                    AclKind::Routine => ("42883", format!("function \"{object}\"")),
                    AclKind::Namespace => ("3F000", format!("schema \"{object}\"")),
                    AclKind::Type => ("42704", format!("type \"{object}\"")),
                    AclKind::Database => ("3D000", format!("database \"{object}\"")),
                    _ => ("42P01", format!("relation \"{object}\"")),
                };
                return Err(self.error(node, SqlError::new(code, format!("{what} does not exist"))));
            };
            return Ok(Some(boolean(schema.has_asked(role, &subject, &asked, is_any))));
        }
        let number =
            self.coerce(object_arguments[0].clone(), ScalarType::BigInt.into(), CastContext::Explicit, node)?;
        let refused = schema.numbered_subjects(kind).into_iter().filter_map(|(oid, subject)| {
            let has = schema.has_asked(role, &subject, &asked, is_any);
            (!has).then(|| (Datum::Int(oid), Expression::boolean(false)))
        });
        let value = choice(&number, refused.collect(), Expression::boolean(true));
        Ok(Some(Typed::Known(value, ScalarType::Boolean.into())))
    }

    /// Binds a function over privileges for a role that is known by its number when the statement runs.
    fn has_privilege_by_role(
        &mut self,
        name: &str,
        arguments: &[Typed],
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let role =
            self.coerce(arguments[0].clone(), ScalarType::BigInt.into(), CastContext::Explicit, node)?;
        let mut branches = Vec::new();
        for (id, _) in self.schema.role_names() {
            let known = Typed::Known(Expression::Constant(Datum::Int(id)), ScalarType::BigInt.into());
            let arguments = [&[known], &arguments[1..]].concat();
            if let Some(Typed::Known(value, _)) = self.has_privilege(name, &arguments, node)? {
                branches.push((Datum::Int(id), value));
            }
        }
        let value = choice(&role, branches, Expression::NULL);
        Ok(Typed::Known(value, ScalarType::Boolean.into()))
    }

    fn has_column_privilege(
        &mut self,
        role: RoleId,
        arguments: &[Typed],
        asked: &[AskedPrivilege],
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let [Typed::Literal(table), Typed::Literal(column), _] = arguments else {
            return Err(self.unsupported(node, "a table or column that is not a literal in this function"));
        };
        let schema = self.schema;
        let Some(Subject::Relation(name)) = schema.subject_named(AclKind::Table, table) else {
            let message = format!("relation \"{table}\" does not exist");
            return Err(self.error(node, SqlError::new("42P01", message)));
        };
        let subject = Subject::Column(name.clone(), column.clone());
        if !schema.has_subject(&subject) {
            let message = format!("column \"{column}\" of relation \"{table}\" does not exist");
            return Err(self.error(node, SqlError::new("42703", message)));
        }
        let has = schema.has_asked(role, &Subject::Relation(name), asked, false)
            || schema.has_asked(role, &subject, asked, false);
        Ok(boolean(has))
    }

    /// Binds `pg_has_role`.
    pub(crate) fn has_role(
        &mut self,
        arguments: &[Typed],
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let member = match arguments.len() {
            3 => self.role_argument(&arguments[0], node)?,
            _ => self.schema.acting,
        };
        let [role, privilege] = &arguments[arguments.len() - 2..] else { return Ok(boolean(false)) };
        let Typed::Literal(privilege) = privilege else {
            return Err(self.unsupported(node, "a privilege that is not a literal in this function"));
        };
        let roles = self.schema.roles();
        let mut words = Vec::new();
        for word in privilege.split(',') {
            match word.trim().to_uppercase().as_str() {
                own @ ("USAGE" | "MEMBER") => words.push(own.to_owned()),
                own if own.ends_with(" WITH GRANT OPTION") || own.ends_with(" WITH ADMIN OPTION") => {
                    words.push("ADMIN".into());
                }
                _ => {
                    let message = format!("unrecognized privilege type: \"{}\"", word.trim());
                    return Err(self.error(node, SqlError::new("22023", message)));
                }
            }
        }
        let has = |role: RoleId| {
            words.iter().any(|word| match word.as_str() {
                "USAGE" => roles.has_privileges_of(member, role),
                "MEMBER" => roles.is_member(member, role),
                _ => roles.is_admin(member, role),
            })
        };
        if matches!(role, Typed::Literal(_) | Typed::Known(Expression::Bytes(_), _)) {
            return Ok(boolean(has(self.role_argument(role, node)?)));
        }
        let number = self.coerce(role.clone(), ScalarType::BigInt.into(), CastContext::Explicit, node)?;
        let all = self.schema.role_names().into_iter();
        let branches = all.map(|(id, _)| (Datum::Int(id), Expression::boolean(has(id as u32)))).collect();
        let value = choice(&number, branches, Expression::boolean(false));
        Ok(Typed::Known(value, ScalarType::Boolean.into()))
    }

    /// Binds `pg_get_userbyid`.
    pub(crate) fn user_by_number(&mut self, number: Expression) -> Typed {
        let all = self.schema.role_names().into_iter();
        let branches = all.map(|(id, name)| (Datum::Int(id), Expression::text(&name))).collect();
        let value = choice(&number, branches, Expression::text("unknown"));
        Typed::Known(value, ScalarType::Text.into())
    }

    /// Binds `acldefault`: the privileges on an object of a kind that has none given.
    pub(crate) fn acl_default(
        &mut self,
        arguments: &[Typed],
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let argument = |position: usize| arguments.get(position).cloned().unwrap_or(Typed::Null);
        let kind = self.coerce(argument(0), ScalarType::Text.into(), CastContext::Explicit, node)?;
        let owner = self.coerce(argument(1), ScalarType::BigInt.into(), CastContext::Explicit, node)?;
        let of_owner = |id: RoleId| {
            let branch = |(letter, items): (&str, Vec<String>)| {
                let operands = Box::new([kind.clone(), Expression::text(letter)]);
                let (operator, class) = (CompareOperator::Equal, CompareClass::Bytes);
                let items = items.iter().map(|item| Expression::text(item)).collect();
                (Expression::Compare { operator, class, operands }, Expression::Array(items))
            };
            let branches = self.schema.acl_defaults(id).into_iter().map(branch).collect();
            Expression::Case { branches, otherwise: Box::new(Expression::NULL) }
        };
        let all = self.schema.role_names().into_iter();
        let branches = all.map(|(id, _)| (Datum::Int(id), of_owner(id as u32))).collect();
        let value = choice(&owner, branches, Expression::NULL);
        Ok(Typed::Known(value, Type::Array(ScalarType::Text)))
    }
}
