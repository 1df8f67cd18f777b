//! Effects: the changes of data that a definition statement requires. Tables are created and dropped, and
//! rows are rebuilt.
//!
//! Not here: the translation of statements into effects (`sql`), their application (`transaction`).

use crate::{Check, Expression, Function, Procedure, Reference};
use catalog::{Column, Table, TableId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The changes of data that a statement requires.
#[derive(Clone, Debug)]
pub enum Effect {
    /// No change.
    None,
    /// Create an empty table.
    CreateTable(Arc<Table>),
    /// Give a table a changed definition. The rows stay; indexes are created or dropped as it requires.
    Redefine(Arc<Table>),
    /// Create a table from the rows of another table, and drop that table.
    Rebuild(Arc<Rebuild>),
    /// Drop a table.
    DropTable(Arc<Table>),
    /// Several effects, in order.
    All(Vec<Effect>),
    /// Run a statement as a transaction.
    Run(Arc<Procedure>),
}

/// The conversion of the rows of a table into those of a new table.
#[derive(Debug)]
pub struct Rebuild {
    /// The table that is dropped.
    pub old: Arc<Table>,
    /// The table that is created.
    pub new: Arc<Table>,
    /// Number of registers: for the columns of the old row, then for those of the new row, then temporaries.
    pub registers: usize,
    /// The values of the new row's columns.
    pub values: Vec<Expression>,
    /// The generated columns of the new row, and their values of its other columns.
    pub generated: Vec<(usize, Expression)>,
    /// The CHECK constraints of the new row.
    pub checks: Vec<Check>,
    /// The foreign keys of the new row.
    pub references: Vec<Reference>,
}

impl Rebuild {
    /// Returns whether rows of the old table may violate the definition of the new one.
    pub fn depends_on_rows(&self) -> bool {
        let Self { old, new, values, generated, checks, references, .. } = self;
        let fits = |(column, value): (&Column, &Expression)| match value {
            Expression::Register(register) => {
                column.nullable || old.columns.get(register.0 as usize).is_some_and(|column| !column.nullable)
            }
            Expression::Constant(value) => column.nullable || !value.is_null(),
            Expression::Bytes(_) | Expression::Numeric(_) => true,
            _ => false,
        };
        let has_rules = !generated.is_empty() || !checks.is_empty() || !references.is_empty();
        let has_keys = new.indexes.len() > old.indexes.len() || new.hidden_key != old.hidden_key;
        has_rules || has_keys || !new.columns.iter().zip(values).all(fits)
    }

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
    /// Returns the sequences whose numbers the effect takes, or whose definitions it changes.
    pub fn sequences(&self) -> BTreeSet<TableId> {
        match self {
            Self::Rebuild(rebuild) => rebuild.sequences(),
            Self::Redefine(table) if table.sequence.is_some() => BTreeSet::from([table.id]),
            Self::All(effects) => effects.iter().flat_map(Self::sequences).collect(),
            Self::None | Self::CreateTable(_) | Self::Redefine(_) | Self::DropTable(_) | Self::Run(_) => {
                BTreeSet::new()
            }
        }
    }

    /// Returns whether the effect changes no data.
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
