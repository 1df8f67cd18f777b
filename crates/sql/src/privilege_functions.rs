//! `has_table_privilege` and the other functions over privileges.
//!
//! Roles, objects and privileges are known when a statement is bound. So a call becomes a constant, or a
//! choice among the roles, the objects and the columns where a value of the statement says which is meant.

use crate::binder::{Binder, Typed};
use crate::error::StatementError;
use crate::oids::{routine_oid, table_oid};
use crate::roles::acl::{AclKind, EXECUTE, PUBLIC, Privileges, RoleId, SELECT, USAGE, privilege_of};
use crate::schema::Schema;
use crate::subject::Subject;
use crate::system::type_named;
use catalog::{Datum, ScalarType};
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

/// A call of a function over privileges, for one role.
#[derive(Clone, Copy)]
struct Question<'a> {
    kind: AclKind,
    role: RoleId,
    asked: &'a [AskedPrivilege],
    /// Whether a privilege on one column is enough.
    any_column: bool,
}

/// An argument that names a role or an object.
enum Name {
    Known(String),
    /// Its number, or an expression with it.
    Number(Expression),
    /// An expression with its name.
    Text(Expression),
}

fn is_null(argument: &Typed) -> bool {
    matches!(argument, Typed::Null | Typed::Known(Expression::Constant(Datum::Null), _))
}

/// Returns a choice among values by a number.
pub(crate) fn choice(
    of: &Expression,
    branches: Vec<(Datum, Expression)>,
    otherwise: Expression,
) -> Expression {
    let branches = branches.into_iter().map(|(number, value)| (Expression::Constant(number), value));
    choose(of, CompareClass::Int, branches.collect(), otherwise)
}

/// Returns a choice among values by a text.
fn choice_by_name(of: &Expression, branches: Vec<(String, Expression)>) -> Expression {
    let branches = branches.into_iter().map(|(name, value)| (Expression::text(&name), value));
    choose(of, CompareClass::Bytes, branches.collect(), Expression::NULL)
}

fn choose(
    of: &Expression,
    class: CompareClass,
    branches: Vec<(Expression, Expression)>,
    otherwise: Expression,
) -> Expression {
    if branches.is_empty() {
        return otherwise;
    }
    let branch = |(key, value): (Expression, Expression)| {
        let operands = Box::new([of.clone(), key]);
        (Expression::Compare { operator: CompareOperator::Equal, class, operands }, value)
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

    /// Returns whether an object of the system has a name.
    fn has_system_object(&self, kind: AclKind, name: &str) -> bool {
        match kind {
            AclKind::Table | AclKind::Column => self.system_relation(name).is_some(),
            AclKind::Namespace => ["pg_catalog", "information_schema"].contains(&name),
            AclKind::Type => {
                let plain = name.trim().to_lowercase();
                let plain = plain.strip_prefix("pg_catalog.").unwrap_or(&plain);
                type_named(plain).is_some() || self.object_named("regtype", plain).is_some()
            }
            AclKind::Sequence | AclKind::Routine | AclKind::Database => false,
        }
    }

    /// Returns whether a role has one of some privileges on an object, or on one of its columns.
    fn has_asked(&self, question: Question<'_>, subject: &Subject) -> bool {
        let Question { role, asked, any_column, .. } = question;
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

    /// Returns whether a role has one of some privileges on an object of the system: those of all roles.
    fn has_asked_of_system(&self, question: Question<'_>) -> bool {
        let of_all = match question.kind {
            AclKind::Table | AclKind::Column => SELECT,
            AclKind::Routine => EXECUTE,
            AclKind::Namespace | AclKind::Type => USAGE,
            AclKind::Sequence | AclKind::Database => 0,
        };
        let is_given = |(privilege, grants): &AskedPrivilege| !grants && privilege & of_all != 0;
        self.is_superuser(question.role) || question.asked.iter().any(is_given)
    }

    /// Returns whether a role has one of some privileges on a column.
    fn has_asked_of_column(&self, question: Question<'_>, relation: &str, column: &str) -> bool {
        self.has_asked(question, &Subject::Relation(relation.into()))
            || self.has_asked(question, &Subject::Column(relation.into(), column.into()))
    }

    /// Returns the names of a relation's columns, in their order.
    fn column_names_of(&self, relation: &str) -> Vec<String> {
        match (self.catalog().table(relation), self.view(relation)) {
            (Ok(table), _) => table.visible().iter().map(|column| column.name.clone()).collect(),
            (_, Some(view)) => self.view_columns(view).into_iter().map(|(name, _)| name).collect(),
            _ => Vec::new(),
        }
    }
}

/// Returns the error of an object that does not exist.
fn missing(kind: AclKind, name: &str) -> SqlError {
    let (code, what) = match kind {
        AclKind::Routine => ("42883", format!("function \"{name}\"")),
        AclKind::Namespace => ("3F000", format!("schema \"{name}\"")),
        AclKind::Type => ("42704", format!("type \"{name}\"")),
        AclKind::Database => ("3D000", format!("database \"{name}\"")),
        _ => ("42P01", format!("relation \"{name}\"")),
    };
    SqlError::new(code, format!("{what} does not exist"))
}

impl Binder<'_> {
    /// Returns the form of an argument that names a role or an object.
    fn name_in(&self, argument: &Typed, node: &SyntaxNode) -> Result<Name, StatementError> {
        let number = |binder: &Self| {
            binder.coerce(argument.clone(), ScalarType::BigInt.into(), CastContext::Explicit, node)
        };
        Ok(match argument {
            Typed::Literal(name) if name.parse::<i64>().is_ok() => Name::Number(number(self)?),
            Typed::Literal(name) => Name::Known(name.clone()),
            Typed::Known(Expression::Bytes(name), _) => {
                Name::Known(String::from_utf8_lossy(name).into_owned())
            }
            Typed::Known(_, ty) if ty.scalar().is_some_and(|ty| ty.is_integer() || ty == ScalarType::Oid) => {
                Name::Number(number(self)?)
            }
            _ => Name::Text(self.coerce(
                argument.clone(),
                ScalarType::Text.into(),
                CastContext::Explicit,
                node,
            )?),
        })
    }

    /// Returns the privileges that a literal names.
    fn asked_privileges(
        &self,
        argument: &Typed,
        kind: AclKind,
        node: &SyntaxNode,
    ) -> Result<Vec<AskedPrivilege>, StatementError> {
        let text = match argument {
            Typed::Literal(text) => text.clone(),
            Typed::Known(Expression::Bytes(text), _) => String::from_utf8_lossy(text).into_owned(),
            _ => return Err(self.unsupported(node, "a privilege that is not a literal in this function")),
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

    /// Returns the value of an expression for the role that an argument names.
    fn for_role(
        &mut self,
        argument: &Typed,
        node: &SyntaxNode,
        of: &mut dyn FnMut(&mut Self, RoleId) -> Result<Expression, StatementError>,
    ) -> Result<Expression, StatementError> {
        let named = match self.name_in(argument, node)? {
            Name::Known(name) if name == "public" => return of(self, PUBLIC),
            Name::Known(name) => {
                let role = self.schema.roles().named(&name);
                let missing = || SqlError::new("42704", format!("role \"{name}\" does not exist"));
                let role = role.ok_or_else(|| self.error(node, missing()))?;
                return of(self, role);
            }
            other => other,
        };
        let mut values = Vec::new();
        for (id, name) in self.schema.role_names() {
            values.push((id, name, of(self, id as u32)?));
        }
        Ok(match named {
            Name::Number(number) => {
                let branches = values.into_iter().map(|(id, _, value)| (Datum::Int(id), value));
                choice(&number, branches.collect(), Expression::NULL)
            }
            Name::Known(name) => {
                let names = values.into_iter().map(|(_, name, value)| (name, value));
                choice_by_name(&Expression::text(&name), names.collect())
            }
            Name::Text(text) => {
                choice_by_name(&text, values.into_iter().map(|(_, name, value)| (name, value)).collect())
            }
        })
    }

    /// Binds `has_table_privilege` and similar functions; `None` for any other function.
    pub(crate) fn has_privilege(
        &mut self,
        name: &str,
        arguments: &[Typed],
        node: &SyntaxNode,
    ) -> Result<Option<Typed>, StatementError> {
        let Some((_, kind)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else { return Ok(None) };
        let boolean = |value| Ok(Some(Typed::Known(value, ScalarType::Boolean.into())));
        let width = if name == "has_column_privilege" { 3 } else { 2 };
        if arguments.iter().any(is_null) {
            return boolean(Expression::NULL);
        }
        let (role, object) = arguments.split_at(arguments.len() - width);
        let asked = self.asked_privileges(&object[width - 1], *kind, node)?;
        let any_column = name == "has_any_column_privilege";
        let mut of_role = |binder: &mut Self, role: RoleId| {
            let question = Question { kind: *kind, role, asked: &asked, any_column };
            match object {
                [table, column, _] => binder.has_on_column(question, table, column, node),
                _ => binder.has_on_object(question, &object[0], node),
            }
        };
        boolean(match role {
            [] => of_role(self, self.schema.acting)?,
            role => self.for_role(&role[0], node, &mut of_role)?,
        })
    }

    fn has_on_object(
        &mut self,
        question: Question<'_>,
        object: &Typed,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let (schema, kind) = (self.schema, question.kind);
        let numbered = || schema.numbered_subjects(kind).into_iter();
        match self.name_in(object, node)? {
            Name::Known(name) => {
                let Some(subject) = schema.subject_named(kind, &name) else {
                    return match schema.has_system_object(kind, &name) {
                        true => Ok(Expression::boolean(schema.has_asked_of_system(question))),
                        false => Err(self.error(node, missing(kind, &name))),
                    };
                };
                if kind == AclKind::Sequence && schema.acl_kind(&subject) != Some(kind) {
                    let error = SqlError::new("42809", format!("\"{name}\" is not a sequence"));
                    return Err(self.error(node, error));
                }
                Ok(Expression::boolean(schema.has_asked(question, &subject)))
            }
            Name::Number(number) => {
                let of_system = schema.has_asked_of_system(question);
                let differing = numbered().filter_map(|(oid, subject)| {
                    let has = schema.has_asked(question, &subject);
                    (has != of_system).then(|| (Datum::Int(oid), Expression::boolean(has)))
                });
                let mut branches = vec![(Datum::Int(0), Expression::NULL)];
                branches.extend(differing);
                Ok(choice(&number, branches, Expression::boolean(of_system)))
            }
            Name::Text(text) => {
                let branch = |subject: Subject| {
                    let has = Expression::boolean(schema.has_asked(question, &subject));
                    let name = match subject {
                        Subject::Relation(name) | Subject::Namespace(name) | Subject::Type(name) => name,
                        Subject::Database => crate::system::DATABASE.to_owned(),
                        _ => return None,
                    };
                    Some((name, has))
                };
                let branches = numbered().filter_map(|(_, subject)| branch(subject)).collect();
                Ok(choice_by_name(&text, branches))
            }
        }
    }

    fn has_on_column(
        &mut self,
        question: Question<'_>,
        table: &Typed,
        column: &Typed,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let schema = self.schema;
        let column = self.name_in(column, node)?;
        match self.name_in(table, node)? {
            Name::Known(name) => {
                if let Some(Subject::Relation(relation)) = schema.subject_named(AclKind::Table, &name) {
                    return self.has_on_column_of(question, &relation, &column, node);
                }
                match schema.has_system_object(AclKind::Table, &name) {
                    true => Ok(Expression::boolean(schema.has_asked_of_system(question))),
                    false => Err(self.error(node, missing(AclKind::Table, &name))),
                }
            }
            Name::Number(number) => {
                let mut branches = vec![(Datum::Int(0), Expression::NULL)];
                for (oid, subject) in schema.numbered_subjects(AclKind::Table) {
                    let Subject::Relation(relation) = subject else { continue };
                    let value = self.has_on_column_of(question, &relation, &column, node);
                    // A relation without the column is none that the call means.
                    branches.push((Datum::Int(oid), value.unwrap_or(Expression::NULL)));
                }
                Ok(choice(&number, branches, Expression::boolean(schema.has_asked_of_system(question))))
            }
            Name::Text(text) => {
                let mut branches = Vec::new();
                for (_, subject) in schema.numbered_subjects(AclKind::Table) {
                    let Subject::Relation(relation) = subject else { continue };
                    let value = self.has_on_column_of(question, &relation, &column, node);
                    branches.push((relation, value.unwrap_or(Expression::NULL)));
                }
                Ok(choice_by_name(&text, branches))
            }
        }
    }

    fn has_on_column_of(
        &self,
        question: Question<'_>,
        relation: &str,
        column: &Name,
        node: &SyntaxNode,
    ) -> Result<Expression, StatementError> {
        let schema = self.schema;
        let names = schema.column_names_of(relation);
        let has = |name: &String| Expression::boolean(schema.has_asked_of_column(question, relation, name));
        match column {
            Name::Known(name) if names.contains(name) => Ok(has(name)),
            Name::Known(name) => {
                let message = format!("column \"{name}\" of relation \"{relation}\" does not exist");
                Err(self.error(node, SqlError::new("42703", message)))
            }
            Name::Number(number) => {
                let numbered = names.iter().enumerate();
                let branches = numbered.map(|(place, name)| (Datum::Int(place as i64 + 1), has(name)));
                Ok(choice(number, branches.collect(), Expression::NULL))
            }
            Name::Text(text) => {
                Ok(choice_by_name(text, names.iter().map(|name| (name.clone(), has(name))).collect()))
            }
        }
    }

    /// Binds `has_language_privilege` and `has_tablespace_privilege`: all roles may use the languages, and
    /// superusers alone may use the tablespaces.
    pub(crate) fn has_fixed_privilege(
        &mut self,
        name: &str,
        arguments: &[Typed],
        node: &SyntaxNode,
    ) -> Result<Typed, StatementError> {
        let is_language = name == "has_language_privilege";
        let boolean = |value| Ok(Typed::Known(value, ScalarType::Boolean.into()));
        if arguments.iter().any(is_null) {
            return boolean(Expression::NULL);
        }
        let (role, object) = arguments.split_at(arguments.len() - 2);
        let (kind, known): (_, &[&str]) = match is_language {
            true => (AclKind::Type, &["plpgsql", "sql", "c", "internal"]),
            false => (AclKind::Namespace, &["pg_default", "pg_global"]),
        };
        let asked = self.asked_privileges(&object[1], kind, node)?;
        if let Name::Known(object) = self.name_in(&object[0], node)?
            && !known.contains(&object.as_str())
        {
            let what = if is_language { "language" } else { "tablespace" };
            let error = SqlError::new("42704", format!("{what} \"{object}\" does not exist"));
            return Err(self.error(node, error));
        }
        let is_given = is_language && asked.iter().any(|(_, grants)| !grants);
        let mut of_role = |binder: &mut Self, role: RoleId| {
            Ok(Expression::boolean(is_given || binder.schema.is_superuser(role)))
        };
        boolean(match role {
            [] => of_role(self, self.schema.acting)?,
            role => self.for_role(&role[0], node, &mut of_role)?,
        })
    }
}
