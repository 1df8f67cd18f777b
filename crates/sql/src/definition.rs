//! CREATE TABLE: builds the definition that `Catalog` takes. ALTER TABLE uses the same builder (`alter.rs`).

use crate::binder::Binder;
use crate::error::StatementError;
use crate::full_names::short;
use crate::generated_names::GeneratedName;
use crate::kept_text;
use crate::quoted::quoted_path;
use crate::schema::Schema;
use crate::sequence::{sequence_name, sequence_of, sequence_options, sequence_table};
use crate::source::Source;
use crate::types::{check_width, made_name, object_name};
use catalog::{
    Column, Deferral, ForeignKey, Identity, NewIndex, NewTable, ReferenceAction, ScalarType, Sequence, Table,
    TableId,
};
use keys::deferrable_parent;
use procedure::{CastContext, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::collections::BTreeSet;
use std::sync::Arc;

mod column_rules;
mod deferral;
mod generated;
mod keys;
mod likeness;
mod names;

pub(crate) use generated::bind_for;
pub(crate) use keys::NewKey;

/// A table definition under construction.
pub(crate) struct TableBuilder<'a> {
    pub(crate) binder: Binder<'a>,
    /// The table. It has the indexes that stay, with an existing primary key first.
    pub(crate) table: NewTable,
    /// Constraints that become indexes.
    primary: Option<NewKey>,
    uniques: Vec<NewKey>,
    /// Foreign keys with their nodes. Their references are looked up after all columns are known.
    references: Vec<(ForeignKey, Option<Vec<String>>, SyntaxNode)>,
    /// CHECK constraints that are bound after all columns are known.
    unbound: Vec<ast::CheckConstraint>,
    /// Generated columns by name, whose expressions are bound after all columns are known.
    generated: Vec<(String, ast::Expr)>,
    /// Whether the primary key was dropped.
    pub(crate) primary_is_gone: bool,
    /// Sequences whose numbers are defaults of columns.
    sequences: Vec<NewTable>,
    /// Indexes that LIKE copies, without those of constraints.
    copied: Vec<NewIndex>,
}

pub(crate) fn constraint_name(clause: Option<ast::ConstraintNameClause>) -> Option<String> {
    let name = clause.and_then(|clause| clause.constraint_name());
    name.map(|name| ast::normalize_name_node(name.syntax()))
}

/// Reads and checks CREATE TABLE. Returns the table, and the sequences of its columns.
pub(crate) fn table_definition(
    create: &ast::CreateTable,
    schema: &Schema,
    source: &Source,
) -> Result<(NewTable, Vec<NewTable>), StatementError> {
    let binder = Binder::new(schema, source);
    let node = create.syntax();
    for (present, what) in
        [(create.inherits().is_some(), "INHERITS"), (create.of_type().is_some(), "a typed table")]
    {
        if present {
            return Err(binder.unsupported(node, what));
        }
    }
    let path = binder.part(create.table_name().and_then(|name| name.path()), node)?;
    let name = made_name(&binder, &path)?;
    let on_commit = binder.on_commit(create.on_commit(), &name)?;
    binder.refuse_outside_of_session(create.persistence(), &name)?;
    let arguments: Vec<_> = create.table_arg_list().into_iter().flat_map(|list| list.args()).collect();
    let is_column = |argument: &&ast::TableArg| matches!(argument, ast::TableArg::Column(_));
    check_width(&binder, arguments.iter().filter(is_column).count(), node)?;
    let mut builder = TableBuilder::new(binder, NewTable { name, on_commit, ..NewTable::default() });
    for argument in &arguments {
        match argument {
            ast::TableArg::Column(column) => builder.column(column)?,
            ast::TableArg::LikeClause(like) => builder.like(like)?,
            ast::TableArg::TableConstraint(_) => {}
        }
    }
    for argument in &arguments {
        if let ast::TableArg::TableConstraint(constraint) = argument {
            builder.table_constraint(constraint)?;
        }
    }
    builder.merge_keys();
    builder.finish()
}

/// Returns how an identity column treats given values.
pub(crate) fn identity_of(when: Option<ast::GeneratedWhen>) -> Identity {
    match when {
        Some(ast::GeneratedWhen::GeneratedAlways(_)) => Identity::Always,
        _ => Identity::ByDefault,
    }
}

impl<'a> TableBuilder<'a> {
    pub(crate) fn new(binder: Binder<'a>, table: NewTable) -> Self {
        Self {
            binder,
            table,
            primary: None,
            uniques: Vec::new(),
            references: Vec::new(),
            unbound: Vec::new(),
            generated: Vec::new(),
            primary_is_gone: false,
            sequences: Vec::new(),
            copied: Vec::new(),
        }
    }

    fn column(&mut self, column: &ast::Column) -> Result<(), StatementError> {
        let node = column.syntax();
        let name = self.binder.part(column.name(), node)?.text();
        let position = self.add_column(name, column.ty(), node)?;
        let constraint = |clause| match clause {
            ast::ColumnClause::ColumnConstraint(constraint) => Some(constraint),
            _ => None,
        };
        self.check_column_rules(position, &column.clauses().filter_map(constraint).collect::<Vec<_>>())?;
        for clause in column.clauses() {
            match clause {
                ast::ColumnClause::ColumnConstraint(constraint) => {
                    self.column_constraint(position, &constraint)?;
                }
                ast::ColumnClause::Collate(collate) => {
                    let text = collate.syntax().text().to_string();
                    if !["\"C\"", "\"POSIX\"", "\"default\""].iter().any(|name| text.contains(name)) {
                        return Err(self
                            .binder
                            .unsupported(collate.syntax(), "a collation other than \"C\""));
                    }
                }
                other => return Err(self.binder.unsupported(other.syntax(), "this option of a column")),
            }
        }
        Ok(())
    }

    /// Adds a column after the visible columns.
    pub(crate) fn add_column(
        &mut self,
        name: String,
        ty: Option<ast::Type>,
        node: &SyntaxNode,
    ) -> Result<usize, StatementError> {
        if self.position(&name).is_some() {
            let message = format!("column \"{name}\" specified more than once");
            return Err(self.binder.error(node, SqlError::new("42701", message)));
        }
        let position = self.table.visible_count();
        check_width(&self.binder, position + 1, node)?;
        let ty = self.binder.part(ty, node)?;
        let serial = match ty.syntax().text().to_string().to_lowercase().as_str() {
            "smallserial" | "serial2" => Some(ScalarType::SmallInt),
            "serial" | "serial4" => Some(ScalarType::Integer),
            "bigserial" | "serial8" => Some(ScalarType::BigInt),
            _ => None,
        };
        let (ty, domain) = match serial {
            Some(ty) => (ty.into(), None),
            None => self.binder.bind_declared(&ty)?,
        };
        let column = Column { name, ty, domain, nullable: true, ..Column::default() };
        self.table.insert_column(position, column);
        if let Some(ty) = serial {
            self.count_by(position, sequence_of(ty), None);
        }
        Ok(position)
    }

    /// Makes the numbers of a sequence the default of a column. Without `name`, the sequence gets a generated
    /// name.
    fn count_by(&mut self, position: usize, sequence: Sequence, name: Option<String>) {
        let column = &self.table.columns[position];
        let is_taken = |name: &str| {
            self.binder.schema.relation_exists(name) || self.sequences.iter().any(|own| own.name == name)
        };
        let made = GeneratedName::new(&self.table.name, &[&column.name], "seq");
        let name = name.unwrap_or_else(|| made.first_free_in_schema(is_taken));
        let owner = Some((String::new(), column.name.clone()));
        let column = &mut self.table.columns[position];
        column.default = Some(format!("nextval('{}')", quoted_path(&name).replace('\'', "''")));
        column.nullable = false;
        self.sequences.push(sequence_table(name, Sequence { owner, ..sequence }));
    }

    pub(crate) fn column_constraint(
        &mut self,
        position: usize,
        constraint: &ast::ColumnConstraint,
    ) -> Result<(), StatementError> {
        let node = constraint.syntax();
        match constraint {
            ast::ColumnConstraint::NotNullConstraint(_) => self.table.columns[position].nullable = false,
            ast::ColumnConstraint::NullConstraint(_) => {}
            ast::ColumnConstraint::DefaultConstraint(default) => {
                self.refuse_second_default(position, "default", node)?;
                let expression = self.binder.part(default.expr(), node)?;
                self.set_default(position, &expression)?;
            }
            ast::ColumnConstraint::CheckConstraint(check) => self.check(check)?,
            ast::ColumnConstraint::PrimaryKeyConstraint(key) => {
                let name = constraint_name(key.constraint_name_clause());
                let rules = self.key_rules(key.constraint_options(), key.index_parameters())?;
                self.add_key(NewKey { name, columns: vec![position], rules, included: vec![] }, true, node)?;
            }
            ast::ColumnConstraint::UniqueConstraint(unique) => {
                let rules = self.key_rules(unique.constraint_options(), unique.index_parameters())?;
                let name = constraint_name(unique.constraint_name_clause());
                self.add_key(NewKey { name, columns: vec![position], rules, included: vec![] }, false, node)?;
            }
            ast::ColumnConstraint::ReferencesConstraint(references) => {
                let deferral = self.deferral(references.constraint_options(), references.match_type())?;
                let mut key = self.foreign_key(
                    constraint_name(references.constraint_name_clause()),
                    vec![position],
                    references.table(),
                    references.referential_actions(),
                    node,
                )?;
                key.deferral = deferral;
                let column = references.column().map(|name| vec![ast::normalize_name_node(name.syntax())]);
                self.references.push((key, column, node.clone()));
            }
            ast::ColumnConstraint::GeneratedConstraint(generated) => {
                match self.binder.part(generated.generated_as(), node)? {
                    ast::GeneratedAs::GeneratedIdentity(identity) => {
                        self.refuse_second_default(position, "identity", node)?;
                        self.identity(
                            position,
                            identity.generated_when(),
                            identity.sequence_option_list(),
                            node,
                        )?;
                    }
                    ast::GeneratedAs::GeneratedStored(generation) => {
                        self.generate(position, &generation, node)?
                    }
                }
            }
            _ => return Err(self.binder.unsupported(node, "this constraint")),
        }
        Ok(())
    }

    /// Makes a column an IDENTITY.
    pub(crate) fn identity(
        &mut self,
        position: usize,
        when: Option<ast::GeneratedWhen>,
        options: Option<ast::SequenceOptionList>,
        node: &SyntaxNode,
    ) -> Result<(), StatementError> {
        let options: Vec<_> = options.into_iter().flat_map(|list| list.sequence_options()).collect();
        let column = &self.table.columns[position];
        let ty = column.ty.scalar().filter(|scalar| scalar.is_integer() && column.domain.is_none());
        let Some(ty) = ty else {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(self.binder.error(node, SqlError::new("22023", message)));
        };
        let name = sequence_name(&self.binder, &options)?;
        let sequence = sequence_options(&self.binder, options.into_iter(), ty, node)?;
        self.count_by(position, sequence, name);
        self.table.columns[position].identity = Some(identity_of(when));
        Ok(())
    }

    /// Sets the DEFAULT of a column.
    pub(crate) fn set_default(
        &mut self,
        position: usize,
        expression: &ast::Expr,
    ) -> Result<(), StatementError> {
        let column = self.table.columns[position].clone();
        let bind = |binder: &mut Binder<'_>| generated::bind_for(binder, expression, &column);
        let (_, applied) = self.binder.applying(bind)?;
        self.binder.refuse_subqueries(&applied, "DEFAULT expression", expression.syntax())?;
        let text = self.binder.source.text_of(expression.syntax()).to_owned();
        self.table.columns[position].default = Some(text);
        Ok(())
    }

    pub(crate) fn table_constraint(
        &mut self,
        constraint: &ast::TableConstraint,
    ) -> Result<(), StatementError> {
        let node = constraint.syntax();
        match constraint {
            ast::TableConstraint::PrimaryKeyConstraint(key) => {
                let name = constraint_name(key.constraint_name_clause());
                let key = self.new_key(name, key.constraint_options(), key.index_parameters(), node)?;
                self.add_key(key, true, node)
            }
            ast::TableConstraint::UniqueConstraint(unique) => {
                let name = constraint_name(unique.constraint_name_clause());
                let key = self.new_key(name, unique.constraint_options(), unique.index_parameters(), node)?;
                self.add_key(key, false, node)
            }
            ast::TableConstraint::CheckConstraint(check) => {
                self.refuse_deferrable_check(check)?;
                self.check(check)
            }
            ast::TableConstraint::ForeignKeyConstraint(foreign) => {
                let deferral = self.deferral(foreign.constraint_options(), foreign.match_type())?;
                let columns_node = self.binder.part(foreign.from_columns(), node)?;
                let columns = columns_node
                    .syntax()
                    .descendants()
                    .filter(|name| ast::ColumnNameRef::can_cast(name.kind()));
                let columns = self.positions(columns)?;
                let parent = foreign.to_columns().map(|list| {
                    let names = list.syntax().descendants().filter_map(ast::ColumnNameRef::cast);
                    names.map(|name| ast::normalize_name_node(name.syntax())).collect()
                });
                let mut key = self.foreign_key(
                    constraint_name(foreign.constraint_name_clause()),
                    columns,
                    foreign.table_name_ref(),
                    foreign.referential_actions(),
                    node,
                )?;
                key.deferral = deferral;
                self.references.push((key, parent, node.clone()));
                Ok(())
            }
            _ => Err(self.binder.unsupported(node, "this constraint")),
        }
    }

    /// Returns the names of the new foreign keys.
    pub(crate) fn new_foreign_keys(&self) -> BTreeSet<String> {
        self.references.iter().map(|(key, ..)| key.name.clone()).collect()
    }

    fn foreign_key(
        &self,
        name: Option<String>,
        columns: Vec<usize>,
        parent: Option<ast::TableNameRef>,
        actions: ast::AstChildren<ast::ReferentialAction>,
        node: &SyntaxNode,
    ) -> Result<ForeignKey, StatementError> {
        let path = self.binder.part(parent.and_then(|name| name.path_ref()), node)?;
        let (mut on_delete, mut on_update) = (ReferenceAction::Refuse, ReferenceAction::Refuse);
        for action in actions {
            let (target, ref_action) = match action {
                ast::ReferentialAction::OnDeleteAction(clause) => (&mut on_delete, clause.ref_action()),
                ast::ReferentialAction::OnUpdateAction(clause) => (&mut on_update, clause.ref_action()),
            };
            *target = match self.binder.part(ref_action, node)? {
                ast::RefAction::Cascade(_) => ReferenceAction::Cascade,
                ast::RefAction::NoAction(_) => ReferenceAction::Refuse,
                ast::RefAction::Restrict(_) => ReferenceAction::Restrict,
                ast::RefAction::SetNullColumns(target_columns)
                    if target_columns.column_ref_list().is_none() =>
                {
                    ReferenceAction::SetNull
                }
                ast::RefAction::SetDefaultColumns(target_columns)
                    if target_columns.column_ref_list().is_none() =>
                {
                    ReferenceAction::SetDefault
                }
                other => {
                    return Err(self.binder.unsupported(other.syntax(), "a list of columns in this context"));
                }
            };
        }
        let names: Vec<_> = columns.iter().map(|c| self.table.columns[*c].name.as_str()).collect();
        let made = GeneratedName::new(&self.table.name, &names, "fkey");
        let name = self.constraint_name(name, &made, node)?;
        let (parent, parent_columns) = (object_name(&path), Vec::new());
        self.binder.check_key_between(&self.table.name, &parent, node)?;
        let deferral = Deferral::Never;
        Ok(ForeignKey { name, columns, parent, parent_columns, on_delete, on_update, deferral })
    }

    /// Returns the table's name without its schema. Generated names begin with it.
    pub(crate) fn short_name(&self) -> &str {
        short(&self.table.name)
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.table.columns.iter().position(|column| column.name == name)
    }

    fn positions(&self, names: impl Iterator<Item = SyntaxNode>) -> Result<Vec<usize>, StatementError> {
        names
            .map(|node| {
                let name = ast::normalize_name_node(&node);
                self.position(&name).ok_or_else(|| {
                    let message = format!("column \"{name}\" named in key does not exist");
                    self.binder.error(&node, SqlError::new("42703", message))
                })
            })
            .collect()
    }

    fn check(&mut self, check: &ast::CheckConstraint) -> Result<(), StatementError> {
        let (name, node) = (constraint_name(check.constraint_name_clause()), check.syntax());
        let expression = self.binder.part(check.expr(), node)?;
        let text = kept_text::unqualified(&expression, self.short_name(), self.binder.source);
        let columns = kept_text::columns_in(&text);
        let columns: Vec<&str> = columns.iter().map(|column| column.as_ref()).collect();
        let named_by = if columns.len() == 1 { columns.as_slice() } else { &[] };
        let made = GeneratedName::new(&self.table.name, named_by, "check");
        let name = self.constraint_name(name, &made, node)?;
        self.table.checks.push((name, text));
        self.unbound.push(check.clone());
        Ok(())
    }

    /// Returns the table, and the sequences of its columns.
    pub(crate) fn finish(mut self) -> Result<(NewTable, Vec<NewTable>), StatementError> {
        self.add_keys();
        self.table.indexes.append(&mut self.copied);
        let table = self.as_table();
        self.check_expressions(&table)?;
        self.binder.refuse_temporary_sequences(&table)?;
        self.check_generated(&table)?;
        self.look_up_references(&table)?;
        for sequence in &mut self.sequences {
            let owner = sequence.sequence.as_mut().and_then(|sequence| sequence.owner.as_mut());
            owner.into_iter().for_each(|(table, _)| table.clone_from(&self.table.name));
        }
        Ok((self.table, self.sequences))
    }

    /// Returns the table as known so far, to bind expressions over its rows.
    fn as_table(&self) -> Arc<Table> {
        let NewTable { name, columns, indexes, .. } = &self.table;
        let index = |new: &NewIndex| catalog::Index {
            id: catalog::IndexId(u32::MAX),
            name: new.name.clone(),
            columns: new.columns.clone(),
            unique: new.unique,
            is_constraint: new.is_constraint,
            rules: new.rules,
            details: new.details.clone(),
        };
        Arc::new(Table {
            id: TableId(u32::MAX),
            name: name.clone(),
            layout: Table::layout_of(columns),
            columns: columns.clone(),
            indexes: indexes.iter().map(index).collect(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            hidden_key: self.table.hidden_key,
            sequence: None,
            triggers: Vec::new(),
            on_commit: self.table.on_commit,
        })
    }

    /// Binds every new CHECK once, against the final columns.
    fn check_expressions(&mut self, table: &Arc<Table>) -> Result<(), StatementError> {
        for check in std::mem::take(&mut self.unbound) {
            let expression = self.binder.part(check.expr(), check.syntax())?;
            let bind = |binder: &mut Binder<'_>| binder.bind_condition(&expression).map(|_| ());
            if self.binder.depends_on_call(table, expression.syntax(), "check constraint", bind)? {
                return Err(self.binder.unsupported(check.syntax(), "a CHECK that depends on the call"));
            }
        }
        Ok(())
    }

    /// Looks up the tables and columns that new foreign keys reference.
    fn look_up_references(&mut self, table: &Arc<Table>) -> Result<(), StatementError> {
        for (mut key, names, at) in std::mem::take(&mut self.references) {
            let parent = match key.parent == table.name {
                true => Arc::clone(table),
                false => self.binder.table(&key.parent, &at)?,
            };
            let is_named = names.is_some();
            key.parent_columns = match names {
                Some(names) => {
                    let position = |name: &String| self.binder.column_of(&parent, name, &at);
                    names.iter().map(position).collect::<Result<_, _>>()?
                }
                None => parent.primary_key().map(|key| key.columns.clone()).unwrap_or_default(),
            };
            let refused =
                |code: &str, message: String| Err(self.binder.error(&at, SqlError::new(code, message)));
            if let Some(message) = deferrable_parent(&parent, &key.parent_columns, is_named) {
                return refused("55000", message);
            }
            if key.parent_columns.is_empty() {
                let message = format!("there is no primary key for referenced table \"{}\"", parent.name);
                return refused("42704", message);
            }
            if key.parent_columns.len() != key.columns.len() {
                let message = "number of referencing and referenced columns for foreign key disagree";
                return refused("42830", message.into());
            }
            if parent.unique_index_of(&key.parent_columns).is_none() {
                let message = format!(
                    "there is no unique constraint matching given keys for referenced table \"{}\"",
                    parent.name
                );
                return refused("42830", message);
            }
            for (column, referenced) in key.columns.iter().zip(&key.parent_columns) {
                let (from, to) = (table.columns[*column].ty, parent.columns[*referenced].ty);
                let both =
                    |is: fn(ScalarType) -> bool| [from, to].iter().all(|ty| ty.scalar().is_some_and(is));
                let fits = from == to
                    || both(ScalarType::is_integer)
                    || both(|ty| ty.is_text() && !matches!(ty, ScalarType::Char(_)));
                if !fits && CastContext::Implicit.allows_type(from, to) {
                    let what = format!("a foreign key from a column of type {from} to one of type {to}");
                    return Err(self.binder.unsupported(&at, &what));
                }
                if !fits {
                    let message = format!("foreign key constraint \"{}\" cannot be implemented", key.name);
                    let detail = format!(
                        "Key columns \"{}\" and \"{}\" are of incompatible types: {from} and {to}.",
                        table.columns[*column].name, parent.columns[*referenced].name
                    );
                    let error = SqlError::new("42804", message).with_detail(detail);
                    return Err(self.binder.error(&at, error));
                }
            }
            self.table.foreign_keys.push(key);
            self.refuse_generated_keys(&at)?;
        }
        Ok(())
    }
}
