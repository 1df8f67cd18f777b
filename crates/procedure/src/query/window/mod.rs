//! Window functions: values of a row that depend on the rows of its partition.
//!
//! A node keeps its rows, sorts them by the keys of the partitions and then by the order within them, and
//! hands them on in that order with the values of its calls.
//! Source: PostgreSQL 15's documentation, "Window Functions" and "Window Function Calls"; the rules for NULLs
//! in RANGE frames are those of its `nodeWindowAgg.c`.
//!
//! Invariant: rows with equal keys keep the order in which they come, so a replay computes the same values.
//! Held by: `queries_in_procedures_and_transactions_are_recovered`.

mod frame;
mod run;

pub(super) use run::run_window;

use super::Plan;
use crate::{Aggregate, CompareClass, Expression, Register, SortKey};

/// The rows of a query, with values of window functions that have the same partitions and order.
#[derive(Clone, Debug)]
pub struct Window {
    /// The rows.
    pub input: Plan,
    /// The keys of the partitions, then those of the order within a partition.
    pub keys: Vec<SortKey>,
    /// The number of keys of the partitions.
    pub partitions: usize,
    /// The calls.
    pub calls: Vec<WindowCall>,
    /// The registers that the input sets and this or a later node reads.
    pub registers: Vec<Register>,
}

/// A call of a window function.
#[derive(Clone, PartialEq, Debug)]
pub struct WindowCall {
    /// The value that it computes.
    pub value: WindowValue,
    /// The rows that it computes the value from.
    pub frame: Frame,
    /// The register of the result.
    pub target: Register,
}

/// The value of a window function.
#[derive(Clone, PartialEq, Debug)]
pub enum WindowValue {
    /// That of a function of positions or of single rows.
    Function {
        /// The function.
        function: WindowFunction,
        /// Its arguments.
        arguments: Vec<Expression>,
    },
    /// An aggregate of the rows of the frame.
    Aggregate(Box<Aggregate>),
}

/// A function that is only allowed with OVER.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are PostgreSQL's")]
pub enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile,
    Lag,
    Lead,
    FirstValue,
    LastValue,
    NthValue,
}

/// What the offsets of a frame count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameMode {
    /// Rows.
    Rows,
    /// Differences to the value of the row's key.
    Range,
    /// Groups of rows with equal keys.
    Groups,
}

/// An end of a frame, in the order in which the ends may follow each other.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "the names are those of the clause")]
pub enum FrameBound {
    UnboundedPreceding,
    Preceding(FrameOffset),
    CurrentRow,
    Following(FrameOffset),
    UnboundedFollowing,
}

/// The offset of an end of a frame.
#[derive(Clone, PartialEq, Debug)]
pub enum FrameOffset {
    /// A number of rows or groups. It does not depend on the row.
    Count(Expression),
    /// A difference to the value of the row's key.
    Value {
        /// The key, of another row of the partition.
        key: Expression,
        /// The key of the current row, plus or minus the offset.
        limit: Expression,
        /// How they compare.
        class: CompareClass,
        /// Whether the offset is negative; NULL if it is NULL. It does not depend on the row.
        is_negative: Expression,
    },
}

/// The rows of a frame that do not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exclusion {
    /// All rows count.
    NoOthers,
    /// The current row.
    CurrentRow,
    /// The current row, and all rows with equal keys.
    Group,
    /// The other rows with equal keys.
    Ties,
}

/// The rows around a row that a window function sees.
#[derive(Clone, PartialEq, Debug)]
pub struct Frame {
    /// What offsets count.
    pub mode: FrameMode,
    /// The first row.
    pub start: FrameBound,
    /// The last row.
    pub end: FrameBound,
    /// The rows between them that do not count.
    pub exclusion: Exclusion,
}

impl Default for Frame {
    fn default() -> Self {
        Self {
            mode: FrameMode::Range,
            start: FrameBound::UnboundedPreceding,
            end: FrameBound::CurrentRow,
            exclusion: Exclusion::NoOthers,
        }
    }
}

impl FrameBound {
    /// Returns its offset.
    pub fn offset(&self) -> Option<&FrameOffset> {
        match self {
            Self::Preceding(offset) | Self::Following(offset) => Some(offset),
            _ => None,
        }
    }

    fn offset_mut(&mut self) -> Option<&mut FrameOffset> {
        match self {
            Self::Preceding(offset) | Self::Following(offset) => Some(offset),
            _ => None,
        }
    }
}

impl WindowCall {
    /// Sets the register of the result.
    pub fn retarget(&mut self, target: Register) {
        self.target = target;
        if let WindowValue::Aggregate(aggregate) = &mut self.value {
            aggregate.target = target;
        }
    }

    /// Returns its expressions.
    pub fn expressions(&self) -> Vec<&Expression> {
        let mut all: Vec<&Expression> = match &self.value {
            WindowValue::Function { arguments, .. } => arguments.iter().collect(),
            WindowValue::Aggregate(aggregate) => aggregate.expressions().collect(),
        };
        for offset in [&self.frame.start, &self.frame.end].into_iter().filter_map(|end| end.offset()) {
            match offset {
                FrameOffset::Count(count) => all.push(count),
                FrameOffset::Value { key, limit, is_negative, .. } => all.extend([key, limit, is_negative]),
            }
        }
        all
    }

    /// Returns its expressions, to be changed.
    pub fn expressions_mut(&mut self) -> Vec<&mut Expression> {
        let mut all: Vec<&mut Expression> = match &mut self.value {
            WindowValue::Function { arguments, .. } => arguments.iter_mut().collect(),
            WindowValue::Aggregate(aggregate) => aggregate.expressions_mut(),
        };
        let ends = [&mut self.frame.start, &mut self.frame.end];
        for offset in ends.into_iter().filter_map(FrameBound::offset_mut) {
            match offset {
                FrameOffset::Count(count) => all.push(count),
                FrameOffset::Value { key, limit, is_negative, .. } => all.extend([key, limit, is_negative]),
            }
        }
        all
    }
}

impl Window {
    /// Returns the expressions of its keys and calls.
    pub(super) fn expressions(&self) -> Vec<&Expression> {
        let keys = self.keys.iter().map(|key| &key.value);
        keys.chain(self.calls.iter().flat_map(WindowCall::expressions)).collect()
    }
}
