//! Checks that a role may make a definition: owners may change their objects, and creators need CREATE on the
//! schema.
//! Source: PostgreSQL 15's documentation, "Privileges" and the statements.

use super::acl::{AclKind, REFERENCES, RoleId, SELECT, TRIGGER, TRUNCATE, USAGE};
use super::rights::namespace_in;
use super::role::BOOTSTRAP;
use crate::called_names::called_name;
use crate::error::StatementError;
use crate::full_names::short;
use crate::nesting::with_stack;
use crate::routine_changes::routines_dropped;
use crate::schema::Schema;
use crate::session_schema::is_session_schema;
use crate::source::Source;
use crate::subject::Subject;
use crate::types::{last_name, object_name, written_name};
use procedure::SqlError;
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};

/// A right that a role needs for a definition.
#[derive(Clone, Debug)]
enum Demand {
    /// To own the object.
    Owner(Subject),
    /// CREATE on a schema.
    Create(String),
    /// USAGE on a schema.
    Usage(String),
    /// CREATE on the database.
    CreateOnDatabase,
    /// A privilege on a table.
    Privilege(Subject, super::acl::Privileges),
    /// A privilege on columns of a table.
    Columns(String, super::acl::Privileges, Vec<String>),
    /// To own the object that is dropped, or its schema.
    Dropped(Subject),
    /// To own an extension.
    Extension(String),
}

impl Schema {
    /// Returns an object's kind and name for error messages.
    pub(crate) fn described(&self, subject: &Subject) -> String {
        match subject {
            Subject::Relation(name) => {
                let kind = match self.catalog.table(name) {
                    Ok(table) if table.sequence.is_some() => "sequence",
                    Ok(_) => "table",
                    Err(_) if self.is_partition(name) => "table",
                    Err(_) if self.view(name).is_some() => "view",
                    Err(_) => "index",
                };
                format!("{kind} {}", short(name))
            }
            Subject::Column(table, name) => {
                format!("column {name} of {}", self.described(&Subject::Relation(table.clone())))
            }
            Subject::Constraint(table, _) | Subject::Trigger(table, _) => {
                format!("relation {}", short(table))
            }
            Subject::Routine(name) => {
                let procedure = self.procedure(name);
                let word = if procedure.is_some_and(|routine| !routine.is_function && !routine.is_trigger) {
                    "procedure"
                } else {
                    "function"
                };
                format!("{word} {}", short(name))
            }
            Subject::Namespace(name) => format!("schema {name}"),
            Subject::Type(name) => format!("type {}", short(name)),
            Subject::Database => format!("database {}", crate::system::DATABASE),
        }
    }

    /// Returns the error of a missing privilege on an object.
    pub(crate) fn denied(&self, subject: &Subject) -> SqlError {
        SqlError::new("42501", format!("permission denied for {}", self.described(subject)))
    }

    /// Returns the error of a role that does not own an object.
    pub(crate) fn not_owner(&self, subject: &Subject) -> SqlError {
        if let Subject::Column(relation, _) = subject {
            return SqlError::new("42501", format!("must be owner of relation {}", short(relation)));
        }
        SqlError::new("42501", format!("must be owner of {}", self.described(subject)))
    }

    /// Checks that the role of the SET ROLE before a definition (`made_by`) may make the definition. It
    /// accepts a malformed statement, which `apply` refuses.
    ///
    /// # Errors
    /// `42501`: the role lacks a privilege, or does not own the object.
    pub fn authorize(&self, statement: &str) -> Result<(), StatementError> {
        if !statement.starts_with("SET ROLE ") {
            return Ok(());
        }
        with_stack(statement, || {
            let Ok(source) = Source::parse(statement) else { return Ok(()) };
            let mut statements =
                source.file.stmts().filter(|statement| !matches!(statement, ast::Stmt::EmptyStmt(_)));
            let (Some(set), Some(first)) = (statements.next(), statements.next()) else { return Ok(()) };
            let mut schema = self.clone();
            schema.set_acting(&set, &source)?;
            let role = schema.maker;
            if self.is_superuser(role) {
                return Ok(());
            }
            let first = &first;
            let refuse = |error| source.error_at(first.syntax().text_range().start().into(), error);
            let paths = first.syntax().descendants().filter_map(ast::PathRef::cast);
            let schemas = paths.filter_map(|path| path.qualifier()).map(|schema| last_name(&schema));
            let schemas = schemas.filter(|schema| schema != "public" && self.has_namespace(schema));
            for demand in schemas.map(Demand::Usage).chain(self.demands_of(first, &source)) {
                self.meet(role, &demand).map_err(refuse)?;
            }
            self.check_types(role, first, statement).map_err(refuse)
        })
    }

    fn meet(&self, role: RoleId, demand: &Demand) -> Result<(), SqlError> {
        match demand {
            Demand::Owner(subject) if self.owns(role, subject) => Ok(()),
            Demand::Owner(subject) => Err(self.not_owner(subject)),
            Demand::Create(namespace) if is_session_schema(namespace) => {
                match self.may_create_in(role, namespace) {
                    true => Ok(()),
                    false => {
                        let message = "permission denied to create temporary tables in database";
                        Err(SqlError::new("42501", format!("{message} \"postgres\"")))
                    }
                }
            }
            // The execution reports the error of a schema that does not exist.
            Demand::Create(namespace) if !self.has_namespace(namespace) => Ok(()),
            Demand::Create(namespace) if self.may_create_in(role, namespace) => Ok(()),
            Demand::Create(namespace) => Err(self.denied(&Subject::Namespace(namespace.clone()))),
            Demand::Usage(namespace) => self.check_usage(role, namespace),
            Demand::CreateOnDatabase => {
                if self.creates_on_database(role) {
                    return Ok(());
                }
                Err(self.denied(&Subject::Database))
            }
            Demand::Privilege(subject, privilege) => {
                if self.privileges_on(role, subject) & privilege != 0 {
                    return Ok(());
                }
                Err(self.denied(subject))
            }
            Demand::Columns(relation, privilege, columns) => {
                if self.may_use_columns(role, relation, *privilege, columns) {
                    return Ok(());
                }
                Err(self.denied(&Subject::Relation(relation.clone())))
            }
            Demand::Extension(name) => Err(crate::extensions::must_own(name)),
            Demand::Dropped(subject) => {
                let namespace = match subject {
                    Subject::Relation(name) | Subject::Type(name) | Subject::Routine(name) => {
                        Some(namespace_in(name))
                    }
                    _ => None,
                };
                let owns_schema =
                    namespace.is_some_and(|name| self.owns(role, &Subject::Namespace(name.into())));
                if owns_schema || self.owns(role, subject) {
                    return Ok(());
                }
                Err(self.not_owner(subject))
            }
        }
    }

    /// Checks that a role may use the objects of a schema.
    ///
    /// # Errors
    /// `42501`: it has no USAGE privilege.
    pub(crate) fn check_usage(&self, role: RoleId, namespace: &str) -> Result<(), SqlError> {
        let subject = Subject::Namespace(namespace.into());
        match self.privileges_on(role, &subject) & USAGE {
            0 if self.has_namespace(namespace) => Err(self.denied(&subject)),
            _ => Ok(()),
        }
    }

    /// Returns an object if it exists.
    fn known(&self, subject: Subject) -> Option<Subject> {
        self.has_subject(&subject).then_some(subject)
    }

    /// Returns the rights that a role needs for a statement. An object that does not exist demands nothing,
    /// because the execution refuses it.
    fn demands_of(&self, statement: &ast::Stmt, source: &Source) -> Vec<Demand> {
        let node = statement.syntax();
        let paths = || node.descendants().filter_map(ast::PathRef::cast);
        let first = || paths().next().map(|path| object_name(&path));
        let owner = |subject: Option<Subject>| {
            subject.and_then(|subject| self.known(subject)).map(Demand::Owner).into_iter().collect::<Vec<_>>()
        };
        let relation = |name: Option<String>| owner(name.map(Subject::Relation));
        match statement {
            ast::Stmt::CreateTable(create) => self.demands_of_table(create),
            ast::Stmt::CreateTableAs(_) | ast::Stmt::CreateView(_) | ast::Stmt::CreateSequence(_) => {
                let path = node.descendants().find_map(ast::Path::cast);
                let name = path.map(|path| written_name(&path)).unwrap_or_default();
                let replaced = self.view(&name).map(|_| Demand::Owner(Subject::Relation(name.clone())));
                let create = Demand::Create(namespace_in(&name).to_owned());
                std::iter::once(create).chain(replaced).collect()
            }
            ast::Stmt::CreateType(_) | ast::Stmt::CreateDomain(_) => {
                let path = node.descendants().find_map(ast::Path::cast);
                let name = path.map(|path| written_name(&path)).unwrap_or_default();
                vec![Demand::Create(namespace_in(&name).to_owned())]
            }
            ast::Stmt::CreateFunction(_) | ast::Stmt::CreateProcedure(_) => {
                let path = node.descendants().find_map(ast::Path::cast);
                let name = path.map(|path| written_name(&path)).unwrap_or_default();
                let mut all = vec![Demand::Create(namespace_in(&name).to_owned())];
                all.extend(owner(Some(Subject::Routine(name))));
                all
            }
            ast::Stmt::CreateSchema(_) => vec![Demand::CreateOnDatabase],
            ast::Stmt::CreateIndex(create) => {
                let path = create.table_relation_name().and_then(|name| name.table_name_ref());
                let name = path.as_ref().and_then(|name| name.path_ref()).map(|path| object_name(&path));
                let namespace = namespace_in(name.as_deref().unwrap_or_default()).to_owned();
                let create = [Demand::Create(namespace)];
                let mut all = relation(path.and_then(|name| name.path_ref()).map(|path| object_name(&path)));
                all.extend(create);
                all
            }
            ast::Stmt::DropTrigger(_) => self.demands_of_dropped_trigger(node, source),
            ast::Stmt::CreateTrigger(_) => self.demands_of_trigger(node),
            ast::Stmt::AlterTable(_) => self.demands_of_alter(node, source),
            ast::Stmt::AlterIndex(_)
            | ast::Stmt::AlterSequence(_)
            | ast::Stmt::AlterTrigger(_)
            | ast::Stmt::AlterView(_) => {
                let mut names = paths().map(|path| object_name(&path));
                let name = names.find(|name| self.relation_exists(name));
                let mut all = relation(name.clone());
                all.extend(name.and_then(|name| self.demand_of_new_name(&name, node, source)));
                all
            }
            ast::Stmt::AlterType(_) | ast::Stmt::AlterDomain(_) => {
                let mut all = owner(first().map(Subject::Type));
                all.extend(self.demand_of_new_schema(node));
                all
            }
            ast::Stmt::AlterSchema(own) => {
                let name = own.schema_ref().map(|own| ast::normalize_name_node(own.syntax()));
                owner(name.map(Subject::Namespace))
            }
            ast::Stmt::AlterFunction(_) | ast::Stmt::AlterProcedure(_) | ast::Stmt::AlterRoutine(_) => {
                self.demands_of_altered_routine(node, owner(first().map(Subject::Routine)))
            }
            ast::Stmt::Truncate(truncate) => self.demands_of_truncate(truncate),
            ast::Stmt::CommentOn(comment) => self.demands_of_comment(comment),
            drop => self.demands_of_drop(drop),
        }
    }

    /// TRUNCATE: the privilege on each table, and to own the sequences that begin anew.
    fn demands_of_truncate(&self, truncate: &ast::Truncate) -> Vec<Demand> {
        let paths = truncate.syntax().descendants().filter_map(ast::PathRef::cast);
        let mut tables = paths.map(|path| object_name(&path)).collect();
        if matches!(truncate.drop_behavior(), Some(ast::DropBehavior::Cascade(_))) {
            tables = self.with_referencing(tables);
        }
        let known = tables.into_iter().filter_map(|table| self.known(Subject::Relation(table)));
        let known: Vec<Subject> = known.collect();
        let mut all: Vec<_> = known.iter().map(|own| Demand::Privilege(own.clone(), TRUNCATE)).collect();
        if matches!(truncate.identity_action(), Some(ast::IdentityAction::RestartIdentity(_))) {
            all.extend(known.iter().flat_map(|table| self.sequences_of(table)).map(Demand::Owner));
        }
        all
    }

    /// Returns the demand of SET SCHEMA: CREATE on the new schema.
    fn demand_of_new_schema(&self, node: &SyntaxNode) -> Option<Demand> {
        let set = node.descendants().find_map(ast::SetSchema::cast)?;
        let schema = ast::normalize_name_node(set.schema_ref()?.syntax());
        Some(Demand::Create(schema))
    }

    /// Returns the demand of a new name or schema of a relation: CREATE on the schema.
    fn demand_of_new_name(&self, name: &str, node: &SyntaxNode, source: &Source) -> Option<Demand> {
        let words = crate::words::words_of(source.text_of(node));
        if words.windows(2).any(|two| two[0].is("RENAME") && two[1].is("TO")) {
            return Some(Demand::Create(namespace_in(name).to_owned()));
        }
        self.demand_of_new_schema(node)
    }

    /// Returns what a role needs for a DROP; nothing for any other statement.
    fn demands_of_drop(&self, statement: &ast::Stmt) -> Vec<Demand> {
        let paths = || statement.syntax().descendants().filter_map(ast::PathRef::cast);
        match statement {
            ast::Stmt::DropTable(_)
            | ast::Stmt::DropIndex(_)
            | ast::Stmt::DropView(_)
            | ast::Stmt::DropSequence(_) => {
                let names = paths().map(|path| Subject::Relation(object_name(&path)));
                let known = names.filter(|subject| self.has_subject(subject) || self.is_relation(subject));
                known.map(Demand::Dropped).collect()
            }
            ast::Stmt::DropType(_) | ast::Stmt::DropDomain(_) => {
                let names = paths().map(|path| Subject::Type(object_name(&path)));
                names.filter_map(|subject| self.known(subject)).map(Demand::Dropped).collect()
            }
            ast::Stmt::DropSchema(drop) => {
                let names = drop.schema_refs().map(|name| ast::normalize_name_node(name.syntax()));
                names.filter_map(|name| self.known(Subject::Namespace(name))).map(Demand::Dropped).collect()
            }
            ast::Stmt::DropFunction(_) | ast::Stmt::DropProcedure(_) | ast::Stmt::DropRoutine(_) => {
                let names =
                    routines_dropped(statement.syntax()).map(|path| Subject::Routine(object_name(&path)));
                names.filter_map(|subject| self.known(subject)).map(Demand::Dropped).collect()
            }
            _ => Vec::new(),
        }
    }

    fn is_relation(&self, subject: &Subject) -> bool {
        matches!(subject, Subject::Relation(name) if self.relation_exists(name))
    }

    /// Returns the demands of CREATE TABLE: CREATE on the schema, and REFERENCES on the columns that foreign
    /// keys refer to.
    fn demands_of_table(&self, create: &ast::CreateTable) -> Vec<Demand> {
        let path = create.table_name().and_then(|name| name.path());
        let name = path.map(|path| written_name(&path)).unwrap_or_default();
        let parent = create.partition_of().and_then(|of| of.table_name_ref()?.path_ref());
        let parent = parent.and_then(|path| self.known(Subject::Relation(object_name(&path))));
        let mut all: Vec<Demand> = parent.map(Demand::Owner).into_iter().collect();
        all.push(Demand::Create(namespace_in(&name).to_owned()));
        all.extend(self.references_in(create.syntax(), &name));
        all.extend(self.demand_of_indexes(create, &name));
        let likes = create.syntax().descendants().filter_map(ast::LikeClause::cast);
        let copied = likes.filter_map(|like| like.relation_name_ref()?.path_ref());
        let copied = copied.filter_map(|path| self.known(Subject::Relation(object_name(&path))));
        all.extend(copied.map(|table| Demand::Privilege(table, SELECT)));
        all
    }

    /// Returns the demand of a table with indexes or sequences in a schema that the statement names: as in
    /// PostgreSQL, they are added by the table's name, which needs USAGE.
    fn demand_of_indexes(&self, create: &ast::CreateTable, name: &str) -> Option<Demand> {
        let (schema, _) = name.rsplit_once('.')?;
        let adds = create.syntax().descendants().any(|node| {
            let ty = ast::Type::cast(node.clone()).map(|ty| ty.syntax().text().to_string().to_lowercase());
            ast::PrimaryKeyConstraint::can_cast(node.kind())
                || ast::UniqueConstraint::can_cast(node.kind())
                || ast::GeneratedIdentity::can_cast(node.kind())
                || ty.is_some_and(|ty| ty.contains("serial"))
        });
        adds.then(|| Demand::Usage(schema.to_owned()))
    }

    /// Returns the demands of the foreign keys in a statement, except for those that refer to `created`.
    fn references_in(&self, node: &SyntaxNode, created: &str) -> Vec<Demand> {
        let mut all = Vec::new();
        let mut add = |path: Option<ast::PathRef>, columns: Vec<String>| {
            let Some(name) = path.map(|path| object_name(&path)).filter(|name| name != created) else {
                return;
            };
            let Ok(table) = self.catalog.table(&name) else { return };
            let key = || {
                let columns = table.primary_key().into_iter().flat_map(|key| &key.columns);
                columns.map(|column| table.columns[*column].name.clone()).collect()
            };
            let columns = if columns.is_empty() { key() } else { columns };
            all.push(Demand::Columns(name, REFERENCES, columns));
        };
        for reference in node.descendants().filter_map(ast::ReferencesConstraint::cast) {
            let column = reference.column().map(|name| ast::normalize_name_node(name.syntax()));
            add(reference.table().and_then(|name| name.path_ref()), column.into_iter().collect());
        }
        for key in node.descendants().filter_map(ast::ForeignKeyConstraint::cast) {
            let columns = key.to_columns().into_iter().flat_map(|list| {
                let names = list.syntax().descendants().filter_map(ast::ColumnNameRef::cast);
                names.map(|name| ast::normalize_name_node(name.syntax())).collect::<Vec<_>>()
            });
            add(key.table_name_ref().and_then(|name| name.path_ref()), columns.collect());
        }
        all
    }

    /// Returns the demands of ALTER FUNCTION: the owner in `all`, and CREATE on the schema of a new name.
    fn demands_of_altered_routine(&self, node: &SyntaxNode, mut all: Vec<Demand>) -> Vec<Demand> {
        let name = node.descendants().find_map(ast::PathRef::cast).map(|path| object_name(&path));
        // The new name of a routine is the only path that is no reference.
        let renames = node.descendants().any(|own| ast::Path::can_cast(own.kind()));
        let renamed = name.filter(|_| renames).map(|name| Demand::Create(namespace_in(&name).to_owned()));
        all.extend(self.demand_of_new_schema(node).or(renamed));
        all
    }

    fn demands_of_alter(&self, node: &SyntaxNode, source: &Source) -> Vec<Demand> {
        let Some(name) = node.descendants().find_map(ast::PathRef::cast).map(|path| object_name(&path))
        else {
            return Vec::new();
        };
        let subject = Subject::Relation(name.clone());
        if !self.is_relation(&subject) {
            return Vec::new();
        }
        let mut all = vec![Demand::Owner(subject)];
        let attached = node.descendants().find_map(ast::AttachPartition::cast);
        let attached = attached.and_then(|attach| attach.table_name_ref()?.path_ref());
        let attached = attached.and_then(|path| self.known(Subject::Relation(object_name(&path))));
        all.extend(attached.map(Demand::Owner));
        all.extend(self.references_in(node, &name));
        all.extend(self.demand_of_new_name(&name, node, source));
        all
    }

    /// Returns the demand of DROP TRIGGER: to own the table, if it has the trigger.
    fn demands_of_dropped_trigger(&self, node: &SyntaxNode, source: &Source) -> Vec<Demand> {
        let words = crate::words::words_of(source.text_of(node));
        let on = words.iter().position(|word| word.is("ON"));
        let trigger = on.and_then(|on| words.get(on.checked_sub(1)?)?.name());
        let tables = node.descendants().filter_map(ast::PathRef::cast).map(|path| object_name(&path));
        let known = tables.filter_map(|name| self.catalog.table(&name).ok());
        let dropped =
            known.flat_map(|table| table.triggers.iter().map(move |trigger| (table, &trigger.name)));
        let dropped = dropped.filter(|(_, name)| Some(*name) == trigger.as_ref());
        dropped
            .map(|(table, name)| Demand::Owner(Subject::Trigger(table.name.clone(), name.clone())))
            .collect()
    }

    fn demands_of_trigger(&self, node: &SyntaxNode) -> Vec<Demand> {
        let on = node.descendants().find_map(ast::RelationNameRef::cast).and_then(|name| name.path_ref());
        let on = on.or_else(|| node.descendants().find_map(ast::TableNameRef::cast)?.path_ref());
        let table = on.map(|path| Subject::Relation(object_name(&path)));
        let mut all: Vec<Demand> = table
            .into_iter()
            .filter_map(|table| self.known(table))
            .map(|table| Demand::Privilege(table, TRIGGER))
            .collect();
        let call = node.descendants().find_map(ast::CallExpr::cast);
        let function = call.and_then(|call| called_name(&call)).map(Subject::Routine);
        all.extend(
            function
                .and_then(|function| self.known(function))
                .map(|function| Demand::Privilege(function, AclKind::Routine.all())),
        );
        all
    }

    fn demands_of_comment(&self, comment: &ast::CommentOn) -> Vec<Demand> {
        let object = comment.comment_object();
        let nodes = || comment.syntax().descendants();
        if let Some(name) = nodes().find_map(ast::ExtensionRef::cast) {
            return vec![Demand::Extension(ast::normalize_name_node(name.syntax()))];
        }
        let subject = object.as_ref().and_then(crate::comments::subject_of);
        subject.and_then(|subject| self.known(subject)).map(Demand::Owner).into_iter().collect()
    }

    /// Makes the acting role the owner of new objects, and the owner of a table that of its new sequences.
    pub(crate) fn adopt_new(&mut self, before: &Self, statement: &ast::Stmt) {
        let role = self.maker;
        let is_plain = role == BOOTSTRAP && self.rights.defaults.is_empty() && self.rights.owners.is_empty();
        let creates = matches!(
            statement,
            ast::Stmt::CreateTable(_)
                | ast::Stmt::CreateTableAs(_)
                | ast::Stmt::CreateView(_)
                | ast::Stmt::CreateSequence(_)
                | ast::Stmt::CreateType(_)
                | ast::Stmt::CreateDomain(_)
                | ast::Stmt::CreateFunction(_)
                | ast::Stmt::CreateProcedure(_)
                | ast::Stmt::AlterTable(_)
        );
        if is_plain || !creates {
            return;
        }
        let alters = matches!(statement, ast::Stmt::AlterTable(_));
        let new = self.owned_subjects().into_iter().filter(|subject| !before.has_owned(subject));
        for subject in new.collect::<Vec<_>>() {
            let owner = match self.table_of_sequence(&subject) {
                Some(table) if alters => self.owner_of(&Subject::Relation(table)),
                // ALTER TABLE makes no other new object: a table with a new name is the same table.
                None if alters => continue,
                _ => role,
            };
            self.adopt(&subject, owner);
        }
    }

    fn table_of_sequence(&self, subject: &Subject) -> Option<String> {
        let Subject::Relation(name) = subject else { return None };
        let sequence = self.catalog.table(name).ok()?.sequence.as_ref()?;
        sequence.owner.as_ref().map(|(table, _)| table.clone())
    }

    fn has_owned(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Relation(name) => self.catalog.table(name).is_ok() || self.view(name).is_some(),
            subject => self.has_subject(subject),
        }
    }
}
