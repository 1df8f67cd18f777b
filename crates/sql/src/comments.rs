//! COMMENT ON, and the comments of all objects.
//!
//! Invariant: a comment goes with its object: it is kept when the object is renamed, and gone when the object
//! is dropped. Held by: `comments::comments_go_with_their_objects`.

use crate::StatementError;
use crate::binder::Binder;
use crate::extensions::is_built_in;
use crate::full_names::short;
use crate::schema::{Schema, unsupported};
use crate::source::Source;
use crate::subject::Subject;
use crate::types::{last_name, object_name};
use catalog::Table;
use procedure::{Effect, SqlError};
use squawk_syntax::ast::{self, AstNode};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the error of a subject that does not exist.
fn missing(subject: &Subject) -> SqlError {
    match subject {
        Subject::Relation(name) => {
            SqlError::new("42P01", format!("relation \"{}\" does not exist", short(name)))
        }
        Subject::Column(relation, name) => {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", short(relation));
            SqlError::new("42703", message)
        }
        Subject::Constraint(table, name) => {
            let message = format!("constraint \"{name}\" for table \"{}\" does not exist", short(table));
            SqlError::new("42704", message)
        }
        Subject::Trigger(table, name) => {
            let message = format!("trigger \"{name}\" for table \"{}\" does not exist", short(table));
            SqlError::new("42704", message)
        }
        Subject::Routine(name) => SqlError::new("42883", format!("function {name} does not exist")),
        Subject::Namespace(name) => SqlError::new("3F000", format!("schema \"{name}\" does not exist")),
        Subject::Type(name) => SqlError::new("42704", format!("type \"{name}\" does not exist")),
        Subject::Database => SqlError::new("3D000", "the database does not exist"),
    }
}

fn constraint_names(table: &Table) -> impl Iterator<Item = &str> {
    let keys = table.indexes.iter().filter(|index| index.is_constraint).map(|index| short(&index.name));
    let checks = table.checks.iter().map(|(name, _)| name.as_str());
    keys.chain(checks).chain(table.foreign_keys.iter().map(|key| key.name.as_str()))
}

/// Returns the object that a statement names, which may not exist; `None` for a kind without comments.
pub(crate) fn subject_of(object: &ast::CommentObject) -> Option<Subject> {
    use ast::CommentObject as Object;
    let relation = |path: Option<ast::PathRef>| path.as_ref().map(object_name);
    let routine = |path: Option<ast::PathRef>| path.as_ref().map(object_name).map(Subject::Routine);
    match object {
        Object::ObjectTable(target) => relation(target.table_name_ref()?.path_ref()).map(Subject::Relation),
        Object::ObjectView(target) => relation(target.view_ref()?.path_ref()).map(Subject::Relation),
        Object::ObjectIndex(target) => relation(target.index_ref()?.path_ref()).map(Subject::Relation),
        Object::ObjectSequence(target) => relation(target.sequence_ref()?.path_ref()).map(Subject::Relation),
        Object::ObjectColumn(target) => {
            let path = target.name()?.path_ref()?;
            Some(Subject::Column(object_name(&path.qualifier()?), last_name(&path)))
        }
        Object::ObjectConstraint(target) => {
            let name = last_name(&target.constraint_name_ref()?.path_ref()?);
            Some(Subject::Constraint(relation(target.table_name_ref()?.path_ref())?, name))
        }
        Object::ObjectTrigger(target) => {
            let name = ast::normalize_name_node(target.trigger_ref()?.syntax());
            Some(Subject::Trigger(relation(target.relation_name_ref()?.path_ref())?, name))
        }
        Object::ObjectFunction(target) => routine(target.function_sig()?.function_name_ref()?.path_ref()),
        Object::ObjectProcedure(target) => routine(target.procedure_sig()?.procedure_name_ref()?.path_ref()),
        Object::ObjectRoutine(target) => routine(target.routine_sig()?.routine_name_ref()?.path_ref()),
        Object::ObjectType(target) => relation(target.type_name_ref()?.path_ref()).map(Subject::Type),
        Object::ObjectSchema(target) => {
            Some(Subject::Namespace(ast::normalize_name_node(target.schema_ref()?.syntax())))
        }
        _ => None,
    }
}

impl Schema {
    /// Returns all comments: the object of each, and its text.
    pub fn comments(&self) -> impl Iterator<Item = (String, &str)> {
        self.comments.iter().map(|(subject, text)| (subject.to_string(), text.as_str()))
    }

    /// Executes COMMENT ON. An empty text removes the comment.
    pub(crate) fn comment_on(
        &mut self,
        comment: &ast::CommentOn,
        source: &Source,
    ) -> Result<Effect, StatementError> {
        let node = comment.syntax();
        let binder = Binder::new(self, source);
        let object = binder.part(comment.comment_object(), node)?;
        let extension = object.syntax().descendants().find_map(ast::ExtensionRef::cast);
        if extension.is_some_and(|name| is_built_in(&ast::normalize_name_node(name.syntax()))) {
            return Ok(Effect::None);
        }
        let Some(subject) = subject_of(&object) else {
            return Err(unsupported(source, object.syntax(), "a comment on this kind of object"));
        };
        if !self.has_subject(&subject) {
            return Err(source.error_at(node.text_range().start().into(), missing(&subject)));
        }
        let text = match comment.literal() {
            Some(literal) => binder.string_of(&literal)?,
            None => None,
        };
        match text.filter(|text| !text.is_empty()) {
            Some(text) => self.comments.insert(subject, text),
            None => self.comments.remove(&subject),
        };
        Ok(Effect::None)
    }

    pub(crate) fn has_subject(&self, subject: &Subject) -> bool {
        let table = |name: &str| self.catalog.table(name).ok();
        match subject {
            Subject::Relation(name) => self.relation_exists(name),
            Subject::Column(relation, name) => {
                table(relation).is_some_and(|table| table.column(name).is_some())
                    || self
                        .view(relation)
                        .is_some_and(|view| self.view_columns(view).iter().any(|(column, _)| column == name))
            }
            Subject::Constraint(owner, name) => {
                table(owner).is_some_and(|table| constraint_names(table).any(|constraint| constraint == name))
            }
            Subject::Trigger(owner, name) => {
                table(owner).is_some_and(|table| table.triggers.iter().any(|trigger| trigger.name == *name))
            }
            Subject::Routine(name) => self.procedure(name).is_some(),
            Subject::Namespace(name) => self.has_namespace(name),
            Subject::Type(name) => self.catalog.type_number(name).is_some(),
            Subject::Database => true,
        }
    }

    /// Removes the comments, owners and privileges of objects that no longer exist.
    pub(crate) fn forget_comments(&mut self) {
        let gone: Vec<_> =
            self.rights.subjects().filter(|subject| !self.has_subject(subject)).cloned().collect();
        gone.iter().for_each(|subject| self.rights_mut().forget(subject));
        let gone: Vec<_> =
            self.comments.keys().filter(|subject| !self.has_subject(subject)).cloned().collect();
        gone.iter().for_each(|subject| {
            self.comments.remove(subject);
        });
    }

    /// Moves a comment, the owner and the privileges to the new name of their object.
    pub(crate) fn rename_subject(&mut self, old: &Subject, new: Subject) {
        if self.rights.mentions(old) {
            self.rights_mut().rename(old, &new);
        }
        if let Some(text) = self.comments.remove(old) {
            self.comments.insert(new, text);
        }
    }

    /// Moves the comments, owners and privileges of a view and its columns to its new name.
    pub(crate) fn rename_subjects_of_view(&mut self, old: &str, new: &str) {
        let known = self.comments.keys().chain(self.rights.subjects());
        let renamed = known.filter_map(|subject| match subject {
            Subject::Relation(view) if view == old => Some((subject.clone(), Subject::Relation(new.into()))),
            Subject::Column(view, column) if view == old => {
                Some((subject.clone(), Subject::Column(new.into(), column.clone())))
            }
            _ => None,
        });
        for (subject, moved) in BTreeMap::from_iter(renamed) {
            self.rename_subject(&subject, moved);
        }
    }

    /// Moves the comments of a table and its parts to their new names. `column` returns the new name of a
    /// column; a constraint is only renamed by a statement that does nothing else.
    pub(crate) fn rename_comments(
        &mut self,
        old: &Table,
        new: &Table,
        column: impl Fn(&str) -> Option<String>,
        renames_constraint: bool,
    ) {
        let lost = |first: &Table, second: &Table| {
            let mut lost = constraint_names(first)
                .filter(|constraint| constraint_names(second).all(|name| name != *constraint));
            lost.next().map(str::to_owned)
        };
        let renamed = lost(old, new).zip(lost(new, old)).filter(|_| renames_constraint);
        let known = self.comments.keys().chain(self.rights.subjects());
        let subjects: BTreeSet<_> =
            known.filter(|subject| subject.owner() == Some(&old.name)).cloned().collect();
        for subject in subjects {
            let owner = new.name.clone();
            let moved = match &subject {
                Subject::Column(_, name) => column(name).map(|name| Subject::Column(owner, name)),
                Subject::Constraint(_, name) => {
                    let new = renamed.as_ref().filter(|(old, _)| old == name).map(|(_, new)| new);
                    Some(Subject::Constraint(owner, new.unwrap_or(name).clone()))
                }
                Subject::Trigger(_, name) => Some(Subject::Trigger(owner, name.clone())),
                Subject::Relation(_)
                | Subject::Routine(_)
                | Subject::Namespace(_)
                | Subject::Type(_)
                | Subject::Database => None,
            };
            // Without a new name the column is dropped, and its comment with it.
            match moved {
                Some(moved) => self.rename_subject(&subject, moved),
                None => {
                    self.comments.remove(&subject);
                    if self.rights.mentions(&subject) {
                        self.rights_mut().forget(&subject);
                    }
                }
            }
        }
        self.rename_subject(&Subject::Relation(old.name.clone()), Subject::Relation(new.name.clone()));
        for index in &old.indexes {
            if let Some(now) = new.indexes.iter().find(|candidate| candidate.id == index.id) {
                let names = [&index.name, &now.name].map(|name| Subject::Relation(name.clone()));
                let [before, after] = names;
                self.rename_subject(&before, after);
            }
        }
    }
}
