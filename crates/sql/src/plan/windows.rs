//! The windows of a SELECT while its outputs are bound.
//!
//! Not here: how they are bound (`windows.rs`).

use catalog::Type;
use procedure::query::{Frame, WindowCall};
use procedure::{Expression, Register, SortKey};

/// Whether window functions may be called.
#[derive(Debug)]
pub(crate) enum WindowScope {
    /// They may: in the outputs of a SELECT, whose windows these are.
    Open(Windows),
    /// They may not. The SQLSTATE and the message of the error.
    Closed(&'static str, &'static str),
}

impl Default for WindowScope {
    fn default() -> Self {
        Self::closed("window functions are not allowed here")
    }
}

impl WindowScope {
    /// Returns a scope without window functions, with the message of the error.
    pub(crate) const fn closed(message: &'static str) -> Self {
        Self::Closed("42P20", message)
    }
}

/// The windows of a SELECT.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    pub(crate) named: Vec<(String, Spec)>,
    /// The calls, by the order of rows that they have in common.
    pub(crate) orders: Vec<WindowOrder>,
}

/// Calls whose windows have the same partitions and order.
#[derive(Debug)]
pub(crate) struct WindowOrder {
    pub(crate) keys: Vec<SortKey>,
    pub(crate) partitions: usize,
    pub(crate) calls: Vec<WindowCall>,
}

impl Windows {
    /// Returns the expressions of all calls and orders, to be changed.
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

    /// Adds a call. Returns the register of an equal call, which has the same result.
    pub(crate) fn add(&mut self, spec: Spec, call: WindowCall) -> Register {
        let Spec { keys, partitions, .. } = spec;
        let is_same = |own: &WindowOrder| own.partitions == partitions && own.keys == keys;
        let order = match self.orders.iter().position(is_same) {
            Some(place) => &mut self.orders[place],
            None => {
                self.orders.push(WindowOrder { keys, partitions, calls: Vec::new() });
                self.orders.last_mut().expect("an order was added")
            }
        };
        let is_equal = |own: &&WindowCall| {
            let mut other = call.clone();
            other.retarget(own.target);
            **own == other
        };
        if let Some(equal) = order.calls.iter().find(is_equal) {
            return equal.target;
        }
        let target = call.target;
        order.calls.push(call);
        target
    }
}

/// A window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spec {
    /// The keys of the partitions, then those of the order.
    pub(crate) keys: Vec<SortKey>,
    pub(crate) partitions: usize,
    /// The types of the keys of the order.
    pub(crate) types: Vec<Type>,
    pub(crate) frame: Option<Frame>,
}
