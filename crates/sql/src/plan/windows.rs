//! Collects the windows of a SELECT while its outputs are bound.
//!
//! Not here: the binding of windows and of calls of window functions (`crate::windows`).

use catalog::Type;
use procedure::query::{Frame, WindowCall};
use procedure::{Expression, Register, SortKey};

/// The windows that an expression may use.
#[derive(Debug)]
pub(crate) enum WindowScope {
    /// The expression may call window functions. These are the windows of its SELECT.
    Open(Windows),
    /// The expression must not call window functions. The SQLSTATE and the message of the error.
    Closed(&'static str, &'static str),
}

impl Default for WindowScope {
    fn default() -> Self {
        Self::closed("window functions are not allowed here")
    }
}

impl WindowScope {
    /// Returns a scope that refuses window functions with a message.
    pub(crate) const fn closed(message: &'static str) -> Self {
        Self::Closed("42P20", message)
    }
}

/// The windows of a SELECT.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    pub(crate) named: Vec<(String, Spec)>,
    /// The calls, grouped by the order of rows that they need.
    pub(crate) orders: Vec<WindowOrder>,
}

/// Calls whose windows have the same partitions and order.
#[derive(Debug)]
pub(crate) struct WindowOrder {
    /// The keys of PARTITION BY, then those of ORDER BY.
    pub(crate) keys: Vec<SortKey>,
    /// Number of keys of PARTITION BY.
    pub(crate) partitions: usize,
    pub(crate) calls: Vec<WindowCall>,
}

impl Windows {
    /// Returns all expressions of its calls and orders.
    pub(crate) fn expressions_mut(&mut self) -> Vec<&mut Expression> {
        let mut all = Vec::new();
        for order in &mut self.orders {
            all.extend(order.keys.iter_mut().map(|key| &mut key.value));
            all.extend(order.calls.iter_mut().flat_map(WindowCall::expressions_mut));
        }
        all
    }

    /// Returns the registers of the results.
    pub(crate) fn targets(&self) -> impl Iterator<Item = Register> {
        self.orders.iter().flat_map(|order| &order.calls).map(|call| call.target)
    }

    /// Adds a call unless there is an equal one. Returns the register of the result.
    pub(crate) fn add(&mut self, spec: Spec, call: WindowCall) -> Register {
        let Spec { keys, partitions, .. } = spec;
        let is_same = |order: &WindowOrder| order.partitions == partitions && order.keys == keys;
        let order = match self.orders.iter().position(is_same) {
            Some(index) => &mut self.orders[index],
            None => {
                self.orders.push(WindowOrder { keys, partitions, calls: Vec::new() });
                self.orders.last_mut().expect("an order was added")
            }
        };
        let is_equal = |known: &&WindowCall| {
            let mut other = call.clone();
            other.retarget(known.target);
            **known == other
        };
        if let Some(equal) = order.calls.iter().find(is_equal) {
            return equal.target;
        }
        let target = call.target;
        order.calls.push(call);
        target
    }
}

/// The definition of a window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spec {
    /// The keys of PARTITION BY, then those of ORDER BY.
    pub(crate) keys: Vec<SortKey>,
    /// Number of keys of PARTITION BY.
    pub(crate) partitions: usize,
    /// The types of the keys of ORDER BY.
    pub(crate) types: Vec<Type>,
    pub(crate) frame: Option<Frame>,
}
