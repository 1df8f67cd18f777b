//! Expressions that are evaluated for each row of a query: they are watched, and compiled once they are hot.
//!
//! Invariant: a watched expression has the values and errors of its expression. Held by:
//! `compiled_queries_agree_with_the_interpreter`, and the comparisons with PostgreSQL
//! (`crates/workload/tests/suite/postgresql.rs`), which run with all expressions compiled.
//!
//! Not here: the compiler (`native`).

use crate::{Evaluated, Expression, Machine};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// The evaluations of an expression that was given to the compiler.
const HANDED_OVER: u32 = u32::MAX;

/// Compiled code of an expression.
pub trait CompiledExpression: fmt::Debug + Send + Sync {
    /// Returns the value of the expression.
    ///
    /// # Errors
    /// As `Expression::evaluate`.
    fn evaluate(&self, machine: &mut Machine) -> Evaluated;
}

/// Compiles expressions.
pub trait ExpressionCompiler: Send + Sync {
    /// Returns the number of evaluations after which an expression is hot; `None` if none is compiled.
    fn hot_after(&self) -> Option<u32>;

    /// Compiles an expression, now or later, or leaves it interpreted.
    fn compile(&self, watched: &Arc<Watched>);
}

/// An expression that is watched.
pub struct Watched {
    pub(crate) expression: Expression,
    /// Number of evaluations, as far as threads have not counted at the same time.
    evaluations: AtomicU32,
    code: OnceLock<Arc<dyn CompiledExpression>>,
}

impl Watched {
    /// Returns the expression.
    pub fn expression(&self) -> &Expression {
        &self.expression
    }

    /// Sets the code; code that is there already stays.
    pub fn set(&self, code: Arc<dyn CompiledExpression>) {
        let _ = self.code.set(code);
    }

    #[inline]
    pub(crate) fn evaluate(self: &Arc<Self>, machine: &mut Machine) -> Evaluated {
        match self.code.get().or_else(|| self.count(machine)) {
            Some(code) => code.evaluate(machine),
            None => self.expression.evaluate(machine),
        }
    }

    /// Counts an evaluation, and gives the expression to the compiler if it is hot. Returns the code if there
    /// is some at once.
    fn count(self: &Arc<Self>, machine: &Machine) -> Option<&Arc<dyn CompiledExpression>> {
        let count = self.evaluations.load(Ordering::Relaxed);
        if count == HANDED_OVER {
            return None;
        }
        let compiler = machine.services.expressions.as_ref()?;
        if count < compiler.0.hot_after()? {
            self.evaluations.store(count + 1, Ordering::Relaxed);
            return None;
        }
        if self.evaluations.swap(HANDED_OVER, Ordering::Relaxed) != HANDED_OVER {
            compiler.0.compile(self);
        }
        self.code.get()
    }
}

/// A clone is watched by itself.
impl Clone for Watched {
    fn clone(&self) -> Self {
        Self { expression: self.expression.clone(), evaluations: AtomicU32::new(0), code: OnceLock::new() }
    }
}

impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        self.expression == other.expression
    }
}

impl fmt::Debug for Watched {
    /// Writes the expression: a definition does not depend on whether it is compiled.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expression.fmt(f)
    }
}

impl Expression {
    /// Watches the expression, if it is worth compiling: it has an operand that has operands.
    pub(crate) fn watch(&mut self) {
        let is_inner = |expression: &Self| !expression.operands().is_empty();
        if !matches!(self, Self::Watched(_)) && self.operands().into_iter().any(is_inner) {
            let expression = std::mem::replace(self, Self::NULL);
            let (evaluations, code) = (AtomicU32::new(0), OnceLock::new());
            *self = Self::Watched(Arc::new(Watched { expression, evaluations, code }));
        }
    }
}
