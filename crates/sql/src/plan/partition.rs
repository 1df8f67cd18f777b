//! A partition in FROM: its root, with the conditions of the rows of the partition.

use super::Binder;
use super::conjunct::Conjunct;
use super::target::Below;
use crate::error::StatementError;
use crate::roles::need::names_of;
use procedure::SqlError;
use squawk_syntax::SyntaxNode;

impl Binder<'_> {
    /// Adds a partition to the level, and its conditions to `conjuncts`. As in PostgreSQL, privileges on the
    /// partition alone count.
    pub(super) fn add_partition(
        &mut self,
        name: &str,
        (alias, names): (String, Vec<String>),
        conjuncts: &mut Vec<Conjunct>,
        node: &SyntaxNode,
    ) -> Result<usize, StatementError> {
        let view = self.schema.view(name).map(|view| self.schema.simple_view(view));
        let Some(Ok(view)) = view else {
            let message = format!("relation \"{name}\" does not exist");
            return Err(self.error(node, SqlError::new("42P01", message)));
        };
        let table = self.table(&view.base, node)?;
        let relation = self.add_table(&table, alias, names, node)?;
        self.need_read(relation, name, names_of(&table), true);
        let Some(condition) = view.condition.clone() else { return Ok(relation) };
        let level = self.queries.levels.len() - 1;
        let mut own = Vec::new();
        let below = Below { level, relation };
        self.in_view(below, &view, node, |inner| inner.bind_conjuncts(condition, &mut own))?;
        // Errors name a place in the statement.
        let comparisons = own.iter_mut().flat_map(|conjunct| &mut conjunct.comparison);
        comparisons.for_each(|comparison| comparison.node = node.clone());
        conjuncts.append(&mut own);
        Ok(relation)
    }
}
