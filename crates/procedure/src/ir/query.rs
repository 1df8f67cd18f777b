//! Queries: the statements of a procedure that have a plan, and may access several tables.
//!
//! Invariant: an operation is never a query, so it accesses one table and the analysis handles all
//! operations. A procedure with queries has no program. Held by: `analysis/program.rs`, which makes steps of
//! statements.
//!
//! Not here: plans and their execution (`query`).

use crate::query::{Plan, Query};
use crate::{Expression, Procedure, Register};
use catalog::Table;
use std::sync::Arc;

/// A query's number inside its procedure, in program order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueryId(pub u32);

/// The destination of a query's rows.
#[derive(Clone, Debug)]
pub enum QueryTarget {
    /// The client.
    Client,
    /// The statement that names the query: it assigns the rows, loops over them, or keeps them.
    Statement {
        /// The outputs of each row: target register and value.
        outputs: Vec<(Register, Expression)>,
        /// INTO STRICT: exactly one row.
        strict: bool,
    },
}

/// A query of a procedure, and the destination of its rows.
#[derive(Clone, Debug)]
pub struct ProcedureQuery {
    /// The query.
    pub query: Query,
    /// The destination of its rows.
    pub target: QueryTarget,
    /// The register of FOUND.
    pub found: Register,
    /// Line and column in the source, for messages.
    pub position: (u32, u32),
}

impl ProcedureQuery {
    /// Returns the outputs of each row; none for a query whose rows go to the client.
    pub fn outputs(&self) -> &[(Register, Expression)] {
        match &self.target {
            QueryTarget::Client => &[],
            QueryTarget::Statement { outputs, .. } => outputs,
        }
    }

    /// Returns the tables that its plan accesses.
    pub fn tables(&self) -> Vec<&Arc<Table>> {
        let mut tables = Vec::new();
        self.query.plan.walk(&mut |node| tables.extend(node.own_table().map(|(table, _)| table)));
        tables
    }

    /// Returns whether it writes a table.
    pub fn writes(&self) -> bool {
        self.query.plan.writes()
    }

    /// Visits the tables of the foreign keys that it checks, and those of the routines that it calls.
    pub(crate) fn for_each_further_table(&self, visit: &mut impl FnMut(&Arc<Table>)) {
        self.query.plan.walk(&mut |node| {
            if let Plan::Call { procedure, .. } | Plan::Rows { procedure, .. } = node {
                procedure.for_each_table(visit);
            }
            if let Some((table, keys)) = node.foreign_keys() {
                keys.for_each_table(table.id, visit);
            }
        });
    }

    /// Returns whether it calls a routine of a kind.
    pub(crate) fn calls(&self, is_meant: impl Fn(&Procedure) -> bool) -> bool {
        let mut found = false;
        self.query.plan.walk(&mut |node| {
            if let Plan::Call { procedure, .. } | Plan::Rows { procedure, .. } = node {
                found |= is_meant(procedure);
            }
        });
        found
    }

    /// Returns whether it finds all rows by their keys.
    pub(crate) fn looks_short(&self) -> bool {
        let mut is_short = true;
        self.query.plan.walk(&mut |node| {
            is_short &= match node {
                Plan::Scan { access, .. } => access.is_point(),
                Plan::Values { rows, .. } => rows.len() <= 100,
                Plan::Call { procedure, .. } => procedure.looks_short(),
                Plan::Function { .. } | Plan::Named { .. } | Plan::Rows { .. } | Plan::Together { .. } => {
                    false
                }
                _ => true,
            };
        });
        is_short
    }
}
