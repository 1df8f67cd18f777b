//! What a definition asks to be done to the data: tables that come and go, rows that change their form.
//!
//! Not here: how statements become effects (`sql`), how effects are applied (`transaction`).

use crate::{Check, Expression, Function, Procedure, Reference};
use catalog::{Table, TableId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a statement asks to be done to the data.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Nothing: only procedures changed, or nothing at all.
    None,
    /// Make an empty table.
    CreateTable(Arc<Table>),
    /// The same rows go by a changed definition; make or drop indexes, so that the table has those of it.
    Redefine(Arc<Table>),
    /// Make a table of the rows of another one, which goes.
    Rebuild(Arc<Rebuild>),
    /// Drop a table.
    DropTable(Arc<Table>),
    /// Several of these, in order.
    All(Vec<Effect>),
    /// Run a statement as a transaction.
    Run(Arc<Procedure>),
}

/// How the rows of a table become those of another one.
#[derive(Debug)]
pub struct Rebuild {
    /// The table that goes.
    pub old: Arc<Table>,
    /// The table that comes.
    pub new: Arc<Table>,
    /// Registers that it takes: first the columns of the old row, then those of the new one, then
    /// temporaries.
    pub registers: usize,
    /// The columns of the new row.
    pub values: Vec<Expression>,
    /// What the new row must fulfil, beside what its columns ask.
    pub checks: Vec<Check>,
    /// What it must reference.
    pub references: Vec<Reference>,
}

impl Rebuild {
    /// Returns the sequences whose numbers are taken for the new rows.
    pub fn sequences(&self) -> BTreeSet<TableId> {
        self.values.iter().flat_map(sequences_in).collect()
    }
}

/// Returns the sequences whose numbers an expression takes or sets.
pub fn sequences_in(expression: &Expression) -> BTreeSet<TableId> {
    let mut found = BTreeSet::new();
    expression.walk(&mut |part| {
        if let Expression::Function { function, .. } = part
            && let Function::NextNumber(sequence) | Function::SetNumber(sequence) = function
        {
            found.insert(*sequence);
        }
    });
    found
}

impl Effect {
    /// Returns the sequences whose numbers it takes.
    pub fn sequences(&self) -> BTreeSet<TableId> {
        match self {
            Self::Rebuild(rebuild) => rebuild.sequences(),
            Self::All(effects) => effects.iter().flat_map(Self::sequences).collect(),
            Self::None | Self::CreateTable(_) | Self::Redefine(_) | Self::DropTable(_) | Self::Run(_) => {
                BTreeSet::new()
            }
        }
    }

    /// Returns whether it leaves the data as they are.
    pub fn is_nothing(&self) -> bool {
        match self {
            Self::None => true,
            Self::All(effects) => effects.iter().all(Self::is_nothing),
            Self::CreateTable(_)
            | Self::Redefine(_)
            | Self::Rebuild(_)
            | Self::DropTable(_)
            | Self::Run(_) => false,
        }
    }
}
