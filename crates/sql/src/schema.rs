//! All definitions of a database, including procedures, and their changes by statements.
//!
//! A schema is a value: applying a statement returns a new schema, or fails and leaves the old one unchanged.
//! Definitions are logged as their statements. Recovery applies these again and gets the same schema.
//! Invariant: procedures hold the current tables; a change of a table compiles them again.
//! Not here: the definitions of a checkpoint (`image`).

use crate::StatementError;
use crate::binder::{Binder, Typed};
use crate::cascade::{cascades, unsupported_cascade};
use crate::definition::table_definition;
use crate::full_names::short;
use crate::nesting::with_stack;
use crate::notices::Notices;
use crate::partition::Partitions;
use crate::replacement;
use crate::roles::acl::RoleId;
use crate::roles::rights::Rights;
use crate::roles::role::BOOTSTRAP;
use crate::roles::variant::logged_for;
use crate::routine::Routine;
use crate::session_schema::is_temporary_name;
use crate::simple_view::CheckOption;
use crate::source::Source;
use crate::subject::Subject;
use crate::text_zone::TextZone;
use crate::trees::Trees;
use crate::types::made_name;
use catalog::{Catalog, CatalogError, NewTable, ProcedureId, ReferenceAction, Table, Trigger, TriggerEvent};
use procedure::{
    CastContext, Effect, Expression, ForeignKeys, KeyChange, Notice, Procedure, Reference, SqlError,
};
use serde::{Deserialize, Serialize};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

/// The names of a table and of a trigger.
pub(crate) type TriggerName = (String, String);

/// A trigger's function, compiled for each event.
pub(crate) type CompiledTrigger = Vec<(TriggerEvent, Arc<Procedure>)>;

/// A routine, or a trigger with its table.
pub(crate) enum Member {
    Routine(Arc<Procedure>),
    /// A routine that calls routines which are compiled later, because they call it.
    Circular(Arc<Procedure>),
    Trigger(Arc<Table>, Trigger),
}

/// All definitions of a database.
#[derive(Clone, Debug)]
pub struct Schema {
    pub(crate) catalog: Catalog,
    pub(crate) procedures: BTreeMap<String, Arc<Procedure>>,
    /// The functions of triggers, compiled for their tables.
    pub(crate) triggers: BTreeMap<TriggerName, CompiledTrigger>,
    /// Views, by name.
    pub(crate) views: BTreeMap<String, Arc<View>>,
    /// Partitioned tables, and their partitions, which are views too.
    pub(crate) partitions: Partitions,
    /// The SQL schemas besides `public`.
    pub(crate) namespaces: BTreeSet<String>,
    /// All foreign keys; empty until a statement needs them.
    pub(crate) foreign_keys: OnceLock<Option<Arc<ForeignKeys>>>,
    /// The comments of objects.
    pub(crate) comments: BTreeMap<Subject, String>,
    /// Roles, owners and privileges.
    pub(crate) rights: Arc<Rights>,
    /// The role that executes the next definition.
    pub(crate) maker: RoleId,
    /// The role for which statements are bound.
    pub(crate) acting: RoleId,
    /// The zone of the texts of timestamps in statements.
    pub(crate) text_zone: TextZone,
    /// The notices of the statement that has made this version.
    pub(crate) notices: Notices,
    /// The temporary schema of the session for which statements are bound.
    pub(crate) temporary: Option<Arc<str>>,
    /// The routines whose bodies name missing objects, and their errors.
    pub(crate) unbound: BTreeMap<String, StatementError>,
    /// Numbers and last versions of all procedures, including dropped ones, so that neither is used twice.
    pub(crate) history: BTreeMap<String, (ProcedureId, u32)>,
    pub(crate) trees: Trees,
}

/// A view: a query with a name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct View {
    /// Its name.
    pub name: String,
    /// The query, as SQL text.
    pub query: String,
    /// The given names of its first columns.
    pub names: Vec<String>,
    /// The value of the option `security_invoker`; `None` where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invoker: Option<String>,
    /// CHECK OPTION; `None` without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckOption>,
}

impl Default for Schema {
    fn default() -> Self {
        Self {
            catalog: Catalog::default(),
            procedures: BTreeMap::new(),
            triggers: BTreeMap::new(),
            views: BTreeMap::new(),
            partitions: Partitions::default(),
            namespaces: BTreeSet::new(),
            foreign_keys: OnceLock::new(),
            comments: BTreeMap::new(),
            rights: Arc::default(),
            maker: BOOTSTRAP,
            acting: BOOTSTRAP,
            text_zone: TextZone::default(),
            notices: Notices::default(),
            temporary: None,
            unbound: BTreeMap::new(),
            history: BTreeMap::new(),
            trees: Trees::default(),
        }
    }
}

impl Schema {
    /// Takes the notices of the statement that has made this version.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices).into_told()
    }

    /// Returns the catalog of tables.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns the current version of a procedure by its name, before which a schema other than `public`
    /// stands.
    pub fn procedure(&self, name: &str) -> Option<&Arc<Procedure>> {
        self.procedures.get(name.strip_prefix("public.").unwrap_or(name))
    }

    /// Returns all procedures, in the order of their names.
    pub fn procedures(&self) -> impl Iterator<Item = &Arc<Procedure>> {
        self.procedures.values()
    }

    /// Returns whether two schemas define the same objects, so that a statement between them has changed
    /// nothing. Versions of procedures may differ.
    pub fn defines_the_same_as(&self, other: &Self) -> bool {
        let routines = |schema: &Self| {
            schema.procedures.values().map(|routine| Arc::clone(&routine.source)).collect::<Vec<_>>()
        };
        self.catalog == other.catalog
            && self.views == other.views
            && self.partitions == other.partitions
            && self.namespaces == other.namespaces
            && self.comments == other.comments
            && self.rights == other.rights
            && self.unbound.keys().eq(other.unbound.keys())
            && self.procedures.keys().eq(other.procedures.keys())
            && routines(self) == routines(other)
    }

    /// Returns whether two schemas differ in roles and privileges alone: their tables and compiled routines
    /// are the same ones.
    pub fn differs_in_rights_from(&self, other: &Self) -> bool {
        self.rights != other.rights
            && self.catalog == other.catalog
            && self.views == other.views
            && self.partitions == other.partitions
            && self.namespaces == other.namespaces
            && self.comments == other.comments
            && self.compiled().map(Arc::as_ptr).eq(other.compiled().map(Arc::as_ptr))
    }

    /// Returns all compiled routines, those of triggers included.
    fn compiled(&self) -> impl Iterator<Item = &Arc<Procedure>> {
        let of_triggers = self.triggers.values().flatten().map(|(_, compiled)| compiled);
        self.procedures.values().chain(of_triggers)
    }

    /// Splits a script into its statements: the text of each, and the line and column at which it begins.
    ///
    /// # Errors
    /// A syntax error.
    pub fn split(script: &str) -> Result<Vec<(String, u32, u32)>, StatementError> {
        with_stack(script, || {
            let source = Source::parse(script)?;
            let statements = source.file.stmts();
            let statements = statements.filter(|statement| !matches!(statement, ast::Stmt::EmptyStmt(_)));
            Ok(statements
                .map(|statement| {
                    let node = statement.syntax();
                    let (line, column) = source.position(node.text_range().start().into());
                    (source.text_of(node).to_owned(), line, column)
                })
                .collect())
        })
    }

    /// Applies a statement. Returns the new schema, and the effect on the data.
    ///
    /// # Errors
    /// The statement is malformed, or not supported; with line and column in its text.
    pub fn apply(&self, statement: &str) -> Result<(Self, Effect), StatementError> {
        let (changed, effect) = self.apply_unchecked(statement)?;
        match changed.unbound_since(self) {
            Some(error) => Err(error.clone()),
            None => Ok((changed, effect)),
        }
    }

    /// Applies a statement, as `apply` does, but accepts a routine whose body names a missing object. The
    /// body is bound when the object exists; until then a call raises the error.
    ///
    /// # Errors
    /// As `apply`.
    pub fn apply_unchecked(&self, statement: &str) -> Result<(Self, Effect), StatementError> {
        with_stack(statement, || self.apply_parsed(statement))
    }

    fn apply_parsed(&self, statement: &str) -> Result<(Self, Effect), StatementError> {
        let source = Source::parse(statement)?;
        let mut statements =
            source.file.stmts().filter(|statement| !matches!(statement, ast::Stmt::EmptyStmt(_)));
        let Some(mut first) = statements.next() else { return Ok((self.clone(), Effect::None)) };
        let mut changed = Self { notices: Notices::default(), ..self.clone() };
        if changed.set_acting(&first, &source)? {
            match statements.next() {
                Some(next) => first = next,
                None => return Ok((changed, Effect::None)),
            }
        }
        if let Some(second) = statements.next() {
            let offset = second.syntax().text_range().start().into();
            return Err(source.error_at(offset, SqlError::new("42601", "one statement at a time")));
        }
        let effect = changed.change(&first, &source).map_err(|error| match &*error.error.sqlstate {
            "2BP01" if cascades(first.syntax()) => unsupported_cascade(error),
            _ => self.or_missing_schema(error, &first, &source),
        })?;
        changed.forget_foreign_keys();
        // A statement that only runs changes no definition.
        if !matches!(effect, Effect::Run(_)) {
            changed.adopt_new(self, &first);
            changed.forget_comments();
            changed.bind_all_unbound(&source, first.syntax())?;
            changed.renew_catalog_readers(&source, first.syntax())?;
        }
        changed.maker = BOOTSTRAP;
        Ok((changed, effect))
    }

    fn change(&mut self, statement: &ast::Stmt, source: &Source) -> Result<Effect, StatementError> {
        if let Some(effect) = self.change_rights(statement, source)? {
            return Ok(effect);
        }
        let effect = self.change_objects(statement, source)?;
        self.alter_owner(statement, source)?;
        Ok(effect)
    }

    pub(crate) fn change_objects(
        &mut self,
        statement: &ast::Stmt,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = statement.syntax();
        if let Some(routine) = Routine::of(statement) {
            self.create_routine(&routine, source)?;
            return Ok(Effect::None);
        }
        match statement {
            ast::Stmt::CreateTable(create) => self.create_table(create, source),
            ast::Stmt::CreateIndex(create) => self.make_index(create, source),
            ast::Stmt::AlterTable(alter) => self.alter_table(alter, source),
            ast::Stmt::AlterIndex(alter) => self.alter_index(alter, source),
            ast::Stmt::AlterSequence(alter) => self.alter_sequence(alter, source),
            ast::Stmt::AlterFunction(_) | ast::Stmt::AlterProcedure(_) | ast::Stmt::AlterRoutine(_) => {
                self.alter_routine(statement, source)
            }
            ast::Stmt::AlterSchema(_) | ast::Stmt::AlterView(_) => {
                self.alter_view_or_schema(statement, source)
            }
            ast::Stmt::CreateType(create) => self.create_type(create, source),
            ast::Stmt::CreateDomain(create) => self.create_domain(create, source),
            ast::Stmt::AlterDomain(alter) => self.alter_domain(alter, source),
            ast::Stmt::DropDomain(drop) => self.drop_domain(drop, source),
            ast::Stmt::AlterType(alter) => self.alter_type(alter, source),
            ast::Stmt::DropType(drop) => self.drop_type(drop, source),
            ast::Stmt::CreateTrigger(create) => self.create_trigger(create, source),
            ast::Stmt::AlterTrigger(alter) => self.alter_trigger(alter, source),
            ast::Stmt::DropTrigger(drop) => self.drop_trigger(drop, source),
            ast::Stmt::CommentOn(comment) => self.comment_on(comment, source),
            ast::Stmt::CreateExtension(_) | ast::Stmt::DropExtension(_) => {
                self.extension(statement, source).map(|_| Effect::None)
            }
            ast::Stmt::Truncate(truncate) => self.truncate(truncate, source),
            ast::Stmt::CreateSequence(create) => self.create_sequence(create, source),
            ast::Stmt::CreateView(create) => self.create_view(create, source),
            ast::Stmt::CreateSchema(create) => self.create_namespace(create, source),
            ast::Stmt::DropTable(_)
            | ast::Stmt::DropIndex(_)
            | ast::Stmt::DropView(_)
            | ast::Stmt::DropSequence(_)
            | ast::Stmt::DropSchema(_) => self.drop_relations(statement, source),
            ast::Stmt::DropProcedure(_) | ast::Stmt::DropFunction(_) | ast::Stmt::DropRoutine(_) => {
                self.drop_routine(statement, source)
            }
            ast::Stmt::Insert(_)
            | ast::Stmt::Update(_)
            | ast::Stmt::Delete(_)
            | ast::Stmt::Merge(_)
            | ast::Stmt::Call(_) => Ok(Effect::Run(self.script_statement(statement, source)?)),
            ast::Stmt::Do(block) => {
                let Some(body) = block.body() else { return Err(unsupported(source, node, "this block")) };
                let text = source.text_of(body.syntax());
                Ok(Effect::Run(Arc::new(self.block(text, source, node)?)))
            }
            _ if ast::SelectVariant::can_cast(node.kind()) => {
                Ok(Effect::Run(self.script_statement(statement, source)?))
            }
            _ => Err(unsupported(source, node, "this statement")),
        }
    }

    fn create_table(&mut self, create: &ast::CreateTable, source: &Source) -> Result<Effect, StatementError> {
        let node = create.syntax();
        let path = create.table_name().and_then(|name| name.path());
        if create.if_not_exists().is_some()
            && let Some(path) = path
            && let name = made_name(&Binder::new(self, source), &path)?
            && self.relation_exists(&name)
        {
            self.notices.skip_existing("42P07", &format!("relation \"{}\"", short(&name)));
            return Ok(Effect::None);
        }
        if let Some(of) = create.partition_of() {
            return self.create_partition(create, &of, source);
        }
        let (table, sequences) = table_definition(create, self, source)?;
        self.refuse_taken(&table.name, source, node)?;
        // Procedures that write the referenced tables must check the new foreign keys.
        let concerns_procedures = !table.foreign_keys.is_empty()
            || !is_temporary_name(&table.name) && self.is_mentioned(&table.name);
        let mut effects = Vec::new();
        for sequence in sequences {
            effects.push(self.add_table(sequence, source, node)?);
        }
        let name = table.name.clone();
        effects.push(self.add_table(table, source, node)?);
        if let Some(by) = create.partition_by() {
            self.divide(&name, &by, source)?;
        }
        if concerns_procedures {
            self.recompile(source, node)?;
        }
        Ok(Effect::All(effects))
    }

    /// Adds a table, or the table of a sequence.
    pub(crate) fn add_table(
        &mut self,
        new: NewTable,
        source: &Source,
        node: &SyntaxNode,
    ) -> Result<Effect, StatementError> {
        self.open_temporary_schema(&new.name);
        let table = self.catalog.create_table(new).map_err(|error| refused(source, node, &error))?;
        Ok(Effect::CreateTable(table))
    }

    /// Returns whether a table, sequence, view or index has a name.
    pub(crate) fn relation_exists(&self, name: &str) -> bool {
        self.catalog.table(name).is_ok()
            || self.views.contains_key(name)
            || self.catalog.index(name).is_ok()
            || self.partitions.has_index(name)
    }

    /// Returns all foreign keys; `None` if there are none.
    pub fn foreign_keys(&self) -> Option<&Arc<ForeignKeys>> {
        let find = || {
            let nothing = Source::parse("").ok()?;
            let change = |reference: &Reference| {
                let bound = self.bind_key_change(reference, &nothing);
                bound.unwrap_or_else(|error| KeyChange {
                    refused: Some(Box::new(error.error)),
                    ..KeyChange::default()
                })
            };
            ForeignKeys::of(&self.catalog, change).map(Arc::new)
        };
        self.foreign_keys.get_or_init(find).as_ref()
    }

    fn bind_key_change(&self, reference: &Reference, source: &Source) -> Result<KeyChange, StatementError> {
        let Reference { table, columns, parent, parent_columns, .. } = reference;
        let actions = [reference.on_delete, reference.on_update];
        if actions.iter().all(|action| action.refuses()) {
            return Ok(KeyChange::default());
        }
        let (mut binder, node) = (Binder::new(self, source), source.file.syntax());
        let row = binder.row_registers(table);
        let mut change = KeyChange::default();
        for (column, referenced) in columns.iter().zip(parent_columns) {
            let from = parent.columns[*referenced].ty;
            let value = Typed::Known(Expression::Register(binder.new_register(from)), from);
            change.values.push(binder.coerce(
                value,
                table.columns[*column].ty,
                CastContext::Assignment,
                node,
            )?);
            if actions.contains(&ReferenceAction::SetDefault) {
                change.defaults.push(binder.bind_default(table, *column, node)?);
            }
        }
        change.depends_on_call = binder.uses_timestamp || binder.uses_seed;
        let rules = binder.bind_plain_rules(table, row, node)?;
        (change.generated, change.checks) = (rules.generated, rules.conditions);
        change.registers = binder.registers.len();
        Ok(change)
    }

    /// Returns all foreign keys if the table has a foreign key or is referenced by one; else `None`.
    pub(crate) fn foreign_keys_of(&self, table: &Table) -> Option<Arc<ForeignKeys>> {
        self.foreign_keys().filter(|keys| keys.concern(table.id)).cloned()
    }

    /// Discards the foreign keys after a change of tables.
    pub(crate) fn forget_foreign_keys(&mut self) {
        self.foreign_keys = OnceLock::new();
    }

    /// Returns a view by name.
    pub fn view(&self, name: &str) -> Option<&Arc<View>> {
        self.views.get(name)
    }

    /// Returns all views that are no partitions, in the order of their names.
    pub fn views(&self) -> impl Iterator<Item = &Arc<View>> {
        self.views.values().filter(|view| !self.is_partition(&view.name))
    }

    /// Returns the SQL schemas besides `public`.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.iter().map(String::as_str)
    }

    /// Returns whether there is an SQL schema with a name.
    pub fn has_namespace(&self, name: &str) -> bool {
        name == "public" || self.namespaces.contains(name)
    }

    fn create_routine(&mut self, routine: &Routine, source: &Source) -> Result<(), StatementError> {
        let path = routine.node.descendants().find_map(ast::Path::cast);
        path.map(|path| made_name(&Binder::new(self, source), &path)).transpose()?;
        routine.check_outputs(source)?;
        if self.procedures.contains_key(&routine.name) && !routine.replace {
            let message = format!("function \"{}\" already exists", routine.name);
            let hint = "Use CREATE OR REPLACE; several routines of one name are not supported.";
            let error = SqlError::new("42723", message).with_hint(hint);
            return Err(source.error_at(routine.node.text_range().start().into(), error));
        }
        self.replace_routine(routine, source)
    }

    /// Creates a routine, or a new version of one.
    pub(crate) fn replace_routine(
        &mut self,
        routine: &Routine,
        source: &Source,
    ) -> Result<(), StatementError> {
        if !self.procedures.contains_key(&routine.name) {
            // The rights of the owner may decide how the body is compiled.
            self.adopt(&Subject::Routine(routine.name.clone()), self.maker);
        }
        let next = ProcedureId(self.history.len() as u32);
        let (id, last) = self.history.get(&routine.name).copied().unwrap_or((next, 0));
        let compiled = self.compile_or_keep(routine, id, last + 1, source)?;
        if let Some(old) = self.procedures.get(&routine.name) {
            let refused = replacement::refusal(old, &compiled);
            let at = routine.node.text_range().start().into();
            refused.map_or(Ok(()), |error| Err(source.error_at(at, error)))?;
        }
        self.history.insert(routine.name.clone(), (id, last + 1));
        let is_trigger = compiled.is_trigger;
        self.procedures.insert(routine.name.clone(), Arc::new(compiled));
        if is_trigger {
            self.compile_triggers_of(&routine.name, source, &routine.node)?;
        }
        // Callers hold the version that they were compiled with.
        if last > 0 || self.is_mentioned(&routine.name) {
            self.recompile(source, &routine.node)?;
        }
        Ok(())
    }

    /// Compiles all procedures again, callees first, after a change that they may depend on.
    pub(crate) fn recompile(&mut self, source: &Source, node: &SyntaxNode) -> Result<(), StatementError> {
        self.forget_foreign_keys();
        self.renew_partitions();
        let at = |error| source.error_at(node.text_range().start().into(), error);
        let ordered = self.callees_first().map_err(|circle| {
            let message = format!("functions that call each other in a circle: {}", circle.join(", "));
            at(SqlError::new("0A000", message + " are not supported"))
        })?;
        let mut schema = Self { procedures: BTreeMap::new(), triggers: BTreeMap::new(), ..self.clone() };
        let mut later = Self::routines_of(&ordered);
        for member in ordered {
            match member {
                Member::Routine(ref procedure) | Member::Circular(ref procedure) => {
                    let kept = later.remove(0);
                    let pending = matches!(member, Member::Circular(_)).then_some(&*later);
                    schema.compile_in_order(&kept, &procedure.name, pending).map_err(|error| {
                        let message = format!("function {} depends on it: {}", procedure.name, error.error);
                        at(SqlError::new("2BP01", message))
                    })?;
                }
                Member::Trigger(table, trigger) => {
                    let compiled = schema.compile_trigger_again(&table, &trigger, source, node);
                    let compiled = compiled.map_err(|error| {
                        let (name, table) = (&trigger.name, &table.name);
                        let message =
                            format!("trigger {name} of table {table} depends on it: {}", error.error);
                        at(SqlError::new("2BP01", message))
                    })?;
                    schema.triggers.insert((table.name.clone(), trigger.name), compiled);
                }
            }
        }
        (self.procedures, self.triggers) = (schema.procedures, schema.triggers);
        self.unbound = schema.unbound;
        self.check_views(source, node)
    }

    /// Compiles the CREATE statement of a routine, and adds the routine; one that is unbound stays so.
    pub(crate) fn compile_again(
        &mut self,
        (id, version): (ProcedureId, u32),
        text: &str,
        unbound: Option<&StatementError>,
    ) -> Result<(), StatementError> {
        with_stack(text, || {
            let source = self.trees.parse(text)?;
            let routine =
                source.routine().ok_or_else(|| unsupported(&source, source.file.syntax(), "this routine"))?;
            let compiled = match unbound {
                Some(error) => routine.compile_unbound(id, version, self, &source, &error.error)?,
                None => routine.compile(id, version, self, &source)?,
            };
            self.procedures.insert(routine.name, Arc::new(logged_for(self.compiles_variants(), compiled)));
            Ok(())
        })
    }

    /// Returns whether a new object of this name may change the meaning of a procedure or view. It searches
    /// their texts, because a name without an object may be the name of a system function.
    pub(crate) fn is_mentioned(&self, name: &str) -> bool {
        let short = name.rsplit('.').next().unwrap_or_default().to_lowercase();
        let texts = self
            .procedures
            .values()
            .filter(|procedure| procedure.name != name)
            .map(|procedure| &*procedure.source);
        let mut texts = texts.chain(self.views.values().map(|view| view.query.as_str()));
        texts.any(|text| text.to_lowercase().contains(&short))
    }
}

pub(crate) fn refused(source: &Source, node: &SyntaxNode, error: &CatalogError) -> StatementError {
    let code = match error {
        CatalogError::Duplicate { .. } => "42P07",
        CatalogError::Missing { .. } => "42P01",
        _ => "0A000",
    };
    source.error_at(node.text_range().start().into(), SqlError::new(code, error.to_string()))
}

pub(crate) fn unsupported(source: &Source, node: &SyntaxNode, what: &str) -> StatementError {
    let error = SqlError::new("0A000", format!("{what} is not supported"));
    source.error_at(node.text_range().start().into(), error)
}
