//! What clients did and were told: the only input of the checker.
//!
//! Every statement that writes appends its token, which no other statement has, to the list of each row that
//! it writes. So a row that is read shows all its writers in order. A row's first token names its life: a key
//! that is inserted again after a delete begins another one.

/// Names one statement of one history.
pub type Token = u32;

/// A row as a statement returned it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    pub at: Place,
    pub list: Vec<Token>,
}

/// The columns by which rows are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub id: i64,
    pub grp: i64,
    pub code: Option<i64>,
}

/// Which rows a statement looks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Predicate {
    Ids(Vec<i64>),
    IdsBetween(i64, i64),
    GroupsBetween(i64, i64),
    Code(i64),
}

impl Predicate {
    pub fn matches(&self, at: Place) -> bool {
        match self {
            Self::Ids(ids) => ids.contains(&at.id),
            Self::IdsBetween(first, last) => (*first..=*last).contains(&at.id),
            Self::GroupsBetween(first, last) => (*first..=*last).contains(&at.grp),
            Self::Code(code) => at.code == Some(*code),
        }
    }
}

/// What a statement does to the rows that it finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    Read,
    Append,
    SetGroup(i64),
    SetCode(i64),
    SetId(i64),
    Delete,
    Insert(Place),
}

/// A statement that succeeded.
#[derive(Clone, Debug)]
pub struct Statement {
    pub token: Token,
    /// `None` when the answer says nothing of rows that were not found.
    pub predicate: Option<Predicate>,
    pub effect: Effect,
    /// The rows that it returned, as they were after it; of a delete, before it. `None` when it returned
    /// none.
    pub seen: Option<Vec<Seen>>,
    /// How many rows it wrote.
    pub affected: u64,
    /// A rollback to a savepoint has undone it.
    pub is_undone: bool,
    /// Tokens of the same transaction that were not undone when it ran, its own among them.
    pub live: Vec<Token>,
}

/// How a transaction ended, as far as its client knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Committed,
    Aborted,
    /// Its tokens tell, as they are there or not.
    Unknown,
}

/// A transaction.
#[derive(Clone, Debug)]
pub struct Transaction {
    pub name: String,
    /// When it began and ended, on the clock of the history.
    pub begun: u64,
    pub ended: u64,
    pub outcome: Outcome,
    /// A recovery must have it.
    pub is_acknowledged: bool,
    pub statements: Vec<Statement>,
}

impl Transaction {
    pub fn new(name: String, begun: u64) -> Self {
        let (ended, statements) = (u64::MAX, Vec::new());
        Self { name, begun, ended, outcome: Outcome::Unknown, is_acknowledged: false, statements }
    }

    /// The tokens that were not undone.
    pub fn live(&self) -> Vec<Token> {
        let kept = self.statements.iter().filter(|own| !own.is_undone && own.effect != Effect::Read);
        kept.map(|own| own.token).collect()
    }

    /// Whether it has written a row.
    pub fn writes(&self) -> bool {
        self.statements.iter().any(|own| !own.is_undone && own.affected > 0 && own.effect != Effect::Read)
    }
}
