//! Binds MERGE as a plan: the source joined with the table, and the action for each joined row.

use super::conjunct::Conjunct;
use super::from::{OuterJoin, Source};
use super::target::Target;
use super::{Binder, Bound};
use crate::error::StatementError;
use crate::roles::acl;
use crate::simple_view::WriteKind;
use crate::types::{last_name, object_name};
use procedure::query::{JoinKind, Merge, MergeAction, MergeChange, Plan};
use procedure::{Expression, SqlError};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// A WHEN clause.
struct When {
    matched: bool,
    condition: Option<ast::MergeCondition>,
    action: Option<ast::MergeAction>,
    node: SyntaxNode,
}

impl Binder<'_> {
    pub(crate) fn bind_merge_plan(&mut self, merge: &ast::Merge) -> Result<Bound, StatementError> {
        self.writing(merge.with_clause(), merge.syntax(), |binder| binder.bind_merge_level(merge))
    }

    fn bind_merge_level(&mut self, merge: &ast::Merge) -> Result<Bound, StatementError> {
        let node = merge.syntax();
        if let Some(returning) = merge.returning_clause() {
            return Err(self.unsupported(returning.syntax(), "RETURNING of a MERGE"));
        }
        let path = merge.table_relation_name().and_then(|name| name.table_name_ref());
        let path = path.and_then(|name| name.path_ref());
        let is_view = |name: &str| self.schema.view(name).is_some() && !self.schema.is_partition(name);
        if let Some(path) = path.as_ref().filter(|path| is_view(&object_name(path))) {
            let message = format!("cannot execute MERGE on relation \"{}\"", last_name(path));
            let error = SqlError::new("0A000", message);
            return Err(self.error(node, error.with_detail("This operation is not supported for views.")));
        }
        let target = self.relation_to_write(path, WriteKind::Delete, node)?;
        let table = Arc::clone(&target.table);
        if !table.triggers.is_empty() {
            return Err(self.unsupported(node, "MERGE into a table with triggers"));
        }
        let using = self.part(merge.using_on_clause(), node)?;
        let source = using.from_list_item().into_iter();
        let (mut sources, handle) = self.bind_target((&target, merge.alias()), source, None, node)?;
        let condition = self.part(using.on_clause().and_then(|on| on.expr()), node)?;
        let mut conjuncts = Vec::new();
        self.bind_conjuncts(condition, &mut conjuncts)?;
        let clauses = self.when_clauses(merge)?;
        let keeps_source = clauses.iter().any(|clause| !clause.matched);
        let actions = clauses.into_iter().map(|clause| self.bind_merge_when(clause, &target));
        let actions = actions.collect::<Result<Vec<_>, _>>()?;
        let registers = self.row_registers(&table);
        let rules = self.bind_target_rules(&target, registers, None, node)?;
        let target = sources.sources.remove(0);
        // The condition of a partition.
        let is_of_target = |own: &mut Conjunct| own.refers.relations & target.relations() != 0;
        let mut of_target: Vec<Conjunct> = sources.conjuncts.extract_if(.., is_of_target).collect();
        let (input, _) = if keeps_source {
            let join = OuterJoin {
                kind: JoinKind::Left,
                left: sources.sources,
                left_conjuncts: sources.conjuncts,
                right: vec![target],
                right_conjuncts: of_target,
                condition: conjuncts,
            };
            self.join_all(vec![Source::Join(Box::new(join))], Vec::new(), None)?
        } else {
            sources.sources.insert(0, target);
            sources.conjuncts.append(&mut of_target);
            sources.conjuncts.append(&mut conjuncts);
            self.join_all(sources.sources, sources.conjuncts, None)?
        };
        let (input, keep) = (Box::new(input), self.kept_registers(handle));
        let keys = self.schema.foreign_keys_of(&table);
        let plan = Plan::Merge(Merge { input, table, handle, keep, actions, registers, rules, keys });
        Ok(Bound { plan, ..Bound::default() })
    }

    /// Returns the WHEN clauses.
    ///
    /// # Errors
    /// `42601`: a clause follows one of its kind without a condition.
    fn when_clauses(&self, merge: &ast::Merge) -> Result<Vec<When>, StatementError> {
        let mut clauses: Vec<When> = Vec::new();
        for clause in merge.merge_when_clauses() {
            let node = clause.syntax().clone();
            let (matched, condition, action) = match clause {
                ast::MergeWhenClause::MergeWhenMatched(when) => {
                    (true, when.merge_condition(), when.merge_action())
                }
                ast::MergeWhenClause::MergeWhenNotMatchedTarget(when) if when.by_target().is_none() => {
                    (false, when.merge_condition(), when.merge_action())
                }
                _ => return Err(self.unsupported(&node, "BY SOURCE and BY TARGET of a MERGE")),
            };
            if clauses.iter().any(|earlier| earlier.matched == matched && earlier.condition.is_none()) {
                let message = "unreachable WHEN clause specified after unconditional WHEN clause";
                return Err(self.syntax(&node, message));
            }
            clauses.push(When { matched, condition, action, node });
        }
        Ok(clauses)
    }

    /// Binds a WHEN clause. NOT MATCHED may refer only to columns of the source.
    fn bind_merge_when(&mut self, clause: When, into: &Target) -> Result<MergeAction, StatementError> {
        let When { matched, condition, action, node } = clause;
        let relation = into.position();
        let target = &mut self.level().relations[relation];
        let visible = (target.alias.clone(), target.columns.clone(), target.hidden);
        if !matched {
            (target.alias, target.columns, target.hidden) = (String::new(), Vec::new(), 0);
        }
        let bind = |binder: &mut Self| {
            let condition = condition.and_then(|condition| condition.expr());
            let condition = condition.map(|condition| binder.bind_condition(&condition)).transpose()?;
            Ok((condition, binder.bind_merge_action(matched, action, into, &node)?))
        };
        let bound = self.applying(bind);
        let target = &mut self.level().relations[relation];
        (target.alias, target.columns, target.hidden) = visible;
        let ((condition, change), applied) = bound?;
        if !applied.is_empty() {
            let what = "a subquery or a function of the schema in an action of MERGE";
            return Err(self.unsupported(&node, what));
        }
        Ok(MergeAction { matched, condition, change })
    }

    fn bind_merge_action(
        &mut self,
        matched: bool,
        action: Option<ast::MergeAction>,
        target: &Target,
        node: &SyntaxNode,
    ) -> Result<MergeChange, StatementError> {
        match self.part(action, node)? {
            ast::MergeAction::MergeDoNothing(_) => Ok(MergeChange::Nothing),
            ast::MergeAction::MergeUpdate(update) if matched => {
                let assignments = self.bind_assignments(update.set_clause(), target, node)?;
                let set: Vec<usize> = assignments.iter().map(|(column, _)| *column).collect();
                self.need_target(target, acl::UPDATE, &set);
                Ok(MergeChange::Update(assignments))
            }
            ast::MergeAction::MergeDelete(_) if matched => {
                self.need_target(target, acl::DELETE, &[]);
                Ok(MergeChange::Delete)
            }
            ast::MergeAction::MergeInsert(insert) if !matched => {
                self.bind_merge_insert(&insert, target, node).map(MergeChange::Insert)
            }
            other => {
                let word = other.syntax().text().to_string();
                let word = word.split_whitespace().next().unwrap_or_default().to_owned();
                let message = format!("syntax error at or near \"{word}\"");
                Err(self.error(other.syntax(), SqlError::new("42601", message)))
            }
        }
    }

    fn bind_merge_insert(
        &mut self,
        insert: &ast::MergeInsert,
        target: &Target,
        node: &SyntaxNode,
    ) -> Result<Vec<Expression>, StatementError> {
        let columns = self.insert_columns(insert.column_target_list(), target, node)?;
        let rows = insert.values().and_then(|values| values.row_list());
        let rows: Vec<_> = rows.into_iter().flat_map(|list| list.rows()).collect();
        let given = match rows.is_empty() {
            true => Vec::new(),
            false => self.bind_value_rows(&rows, (&target.table, &columns), node)?.1,
        };
        self.new_row(target, columns, given, insert.overriding_clause(), node)
    }
}
