//! The numbers of Poplar and of the schemes that it is compared with, each a type of its own, so that none is
//! taken for another. All of them are places on one axis, the commit order.
//! Paper: Poplar §3.3, Table 1; §4.2 (SSN); §4.3 (DSN, CSN).

use catalog::CommitOrder;

macro_rules! numbers {
    ($($(#[$doc:meta])+ $name:ident),+ $(,)?) => {$(
        $(#[$doc])+
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
        pub struct $name(pub(crate) CommitOrder);

        impl $name {
            /// Returns the place in the commit order.
            #[inline]
            pub const fn order(self) -> CommitOrder {
                self.0
            }
        }
    )+};
}

numbers! {
    /// The log sequence number of `serial`: the place in the one order that the clock draws.
    Lsn,
    /// The global sequence number of `gsn`: above all that the transaction has read or overwrites, and above
    /// all transactions that have read what it overwrites.
    Gsn,
    /// The scalable sequence number of `ssn`: above all that the transaction has read or overwrites.
    Ssn,
    /// The durable sequence number of one logger: all its records up to it are durable.
    Dsn,
    /// The commit sequence number: all loggers are durable up to it.
    Csn,
}

impl Csn {
    /// Returns whether every record up to an order is durable.
    #[inline]
    pub fn covers(self, order: CommitOrder) -> bool {
        self.0 >= order
    }
}

impl Dsn {
    /// Returns whether every record of the logger up to an order is durable.
    #[inline]
    pub fn covers(self, order: CommitOrder) -> bool {
        self.0 >= order
    }
}
