//! Whether a history is strictly serializable, found out from what clients were told alone.
//! Paper: Elle (Kingsbury, Alvaro, VLDB 2020), list-append. Differs: lists tell the order of versions, so an
//! answer that does not have a row narrows down when its transaction ran: predicates and absence count, too.
//!
//! Edges: version to version, version to its reader, reader to the next version, and real time. What a
//! statement did not find had then a version that does not match: between the versions that are known to be
//! before and after, those that do not match tell further edges, until there are no more. What remains open
//! is left open, so no sound history is refused.

use super::graph::Order;
use super::history::{Effect, Outcome, Place, Seen, Statement, Token, Transaction};
use std::collections::{BTreeMap, HashMap, HashSet};

/// One life of a row: from its insert to its delete.
#[derive(Default)]
struct Life {
    /// Tokens of its versions.
    chain: Vec<Token>,
    /// The columns of each version.
    places: Vec<Place>,
    deleted_by: Option<usize>,
}

/// What a statement has looked for and not found: its transaction, its number, the life and the versions of
/// it that fit.
type Absence = (usize, usize, Token, Vec<Version>);

/// A version of a life: 0 before the insert, 1 after it, and so on; after the last token the deleted one.
type Version = usize;

struct Checker<'h> {
    transactions: &'h [Transaction],
    /// The transaction and the statement of each token.
    writers: HashMap<Token, (usize, usize)>,
    lives: BTreeMap<Token, Life>,
    order: Order,
    committed: Vec<bool>,
}

/// Checks a history, whose last transaction reads all rows.
///
/// # Errors
/// What is wrong.
pub fn check(transactions: &[Transaction]) -> Result<(), String> {
    let mut checker = Checker {
        transactions,
        writers: HashMap::new(),
        lives: BTreeMap::new(),
        order: Order::default(),
        committed: Vec::new(),
    };
    checker.index();
    checker.find_outcomes();
    checker.find_lives()?;
    checker.check_writes()?;
    checker.find_places()?;
    checker.relate_in_time();
    checker.relate_versions();
    let absences = checker.relate_reads()?;
    checker.order.close()?;
    while checker.narrow(&absences)? {
        checker.order.close()?;
    }
    Ok(())
}

fn starts_with(list: &[Token], prefix: &[Token]) -> bool {
    list.len() >= prefix.len() && list[..prefix.len()] == *prefix
}

impl Checker<'_> {
    fn index(&mut self) {
        for (place, transaction) in self.transactions.iter().enumerate() {
            for (number, statement) in transaction.statements.iter().enumerate() {
                self.writers.insert(statement.token, (place, number));
            }
        }
    }

    fn statements(&self) -> impl Iterator<Item = (usize, usize, &Statement)> {
        self.transactions.iter().enumerate().flat_map(|(place, own)| {
            own.statements.iter().enumerate().map(move |(number, statement)| (place, number, statement))
        })
    }

    fn name(&self, token: Token) -> String {
        match self.writers.get(&token) {
            Some((place, _)) => format!("{token} of {}", self.transactions[*place].name),
            None => format!("{token} of no transaction"),
        }
    }

    /// The list without what the transaction itself has added at its end.
    fn foreign<'s>(&self, place: usize, seen: &'s Seen) -> &'s [Token] {
        let is_own = |token: &Token| self.writers.get(token).is_some_and(|(own, _)| *own == place);
        let count = seen.list.iter().rev().take_while(|token| is_own(token)).count();
        &seen.list[..seen.list.len() - count]
    }

    /// Which transactions have committed: those that say so, those whose tokens they have seen, and those
    /// without whom rows that the last transaction has not found would be there.
    fn find_outcomes(&mut self) {
        self.committed = self.transactions.iter().map(|own| own.outcome == Outcome::Committed).collect();
        loop {
            let of_committed = self.statements().filter(|own| self.committed[own.0]);
            let tokens = of_committed.flat_map(|own| own.2.seen.iter().flatten().flat_map(|seen| &seen.list));
            let mut there: HashSet<usize> =
                tokens.filter_map(|token| self.writers.get(token)).map(|(place, _)| *place).collect();
            let gone: HashSet<Token> = self.rows_deleted(true).into_iter().map(|(_, list)| list[0]).collect();
            let last = self.transactions.last().expect("it reads all rows");
            let left: HashSet<Token> =
                last.statements[0].seen.iter().flatten().map(|seen| seen.list[0]).collect();
            let deletes: Vec<usize> = self
                .rows_deleted(false)
                .into_iter()
                .filter(|(_, list)| {
                    let is_committed =
                        |token| self.writers.get(token).is_some_and(|(writer, _)| self.committed[*writer]);
                    list.iter().any(is_committed) && !gone.contains(&list[0]) && !left.contains(&list[0])
                })
                .map(|(place, _)| place)
                .collect();
            there.extend(deletes);
            there.retain(|place| {
                !self.committed[*place] && self.transactions[*place].outcome == Outcome::Unknown
            });
            if there.is_empty() {
                return;
            }
            there.into_iter().for_each(|place| self.committed[place] = true);
        }
    }

    /// The rows that transactions have deleted that have committed, as far as is known, or have not.
    fn rows_deleted(&self, committed: bool) -> Vec<(usize, &[Token])> {
        let deletes = self.statements().filter(|(place, _, own)| {
            self.committed[*place] == committed && own.effect == Effect::Delete && !own.is_undone
        });
        deletes
            .flat_map(|(place, _, own)| own.seen.iter().flatten().map(move |seen| (place, &*seen.list)))
            .collect()
    }

    /// The versions of every row, from the longest list of it that a committed transaction has seen.
    fn find_lives(&mut self) -> Result<(), String> {
        let mut lives: BTreeMap<Token, Life> = BTreeMap::new();
        for (place, _, statement) in self.statements().filter(|own| self.committed[own.0]) {
            for seen in statement.seen.iter().flatten() {
                let list = if statement.is_undone { self.foreign(place, seen) } else { &seen.list };
                let Some(first) = list.first() else { continue };
                let life = lives.entry(*first).or_default();
                let (long, short) =
                    if life.chain.len() < list.len() { (list, &*life.chain) } else { (&*life.chain, list) };
                if !starts_with(long, short) {
                    return Err(format!("two lists of one row: {:?} and {list:?}", life.chain));
                }
                life.chain = long.to_vec();
            }
        }
        for token in lives.values().flat_map(|life| &life.chain) {
            let Some((place, number)) = self.writers.get(token) else {
                return Err(format!("a row has {token}, which no client wrote"));
            };
            if self.transactions[*place].outcome == Outcome::Aborted {
                return Err(format!("a row has {}, which was aborted", self.name(*token)));
            }
            if self.transactions[*place].statements[*number].is_undone {
                return Err(format!("a row has {}, which was undone", self.name(*token)));
            }
        }
        self.lives = lives;
        Ok(())
    }

    /// Every row that a committed statement wrote has its token, and what was deleted was not written any
    /// more.
    fn check_writes(&mut self) -> Result<(), String> {
        let mut written: HashMap<Token, u64> = HashMap::new();
        self.lives
            .values()
            .flat_map(|life| &life.chain)
            .for_each(|token| *written.entry(*token).or_default() += 1);
        let mut deleted = Vec::new();
        for (place, _, statement) in self.statements().filter(|own| self.committed[own.0] && !own.2.is_undone)
        {
            match statement.effect {
                Effect::Read => {}
                Effect::Delete => {
                    let seen = statement.seen.as_ref().expect("a delete returns its rows");
                    deleted.extend(seen.iter().map(|seen| (place, seen.list.clone())));
                }
                _ => {
                    let count = written.get(&statement.token).copied().unwrap_or_default();
                    if count != statement.affected && statement.affected != u64::MAX {
                        let (affected, name) = (statement.affected, self.name(statement.token));
                        return Err(format!(
                            "{name} was to be in {affected} rows and is in {count}: {statement:?}"
                        ));
                    }
                }
            }
        }
        for (place, list) in deleted {
            let life = self.lives.get_mut(&list[0]).expect("its list is known");
            let name = &self.transactions[place].name;
            if life.chain != list {
                return Err(format!("{name} has deleted {list:?}, and there is {:?}", life.chain));
            }
            if let Some(other) = life.deleted_by.replace(place) {
                return Err(format!("{name} and {} have deleted {list:?}", self.transactions[other].name));
            }
        }
        Ok(())
    }

    /// The columns of each version follow from what its writer did.
    fn find_places(&mut self) -> Result<(), String> {
        for life in self.lives.values_mut() {
            for token in &life.chain {
                let (place, number) = self.writers[token];
                let last = life.places.last().copied();
                let at = match (self.transactions[place].statements[number].effect, last) {
                    (Effect::Insert(at), None) => at,
                    (Effect::Append | Effect::Insert(_), Some(last)) => last,
                    (Effect::SetGroup(grp), Some(last)) => Place { grp, ..last },
                    (Effect::SetCode(code), Some(last)) => Place { code: Some(code), ..last },
                    (Effect::SetId(id), Some(last)) => Place { id, ..last },
                    (effect, _) => return Err(format!("{token} did {effect:?} to {:?}", life.chain)),
                };
                life.places.push(at);
            }
        }
        for (place, _, statement) in self.statements().filter(|own| self.committed[own.0] && !own.2.is_undone)
        {
            for seen in statement.seen.iter().flatten() {
                if self.lives[&seen.list[0]].places[seen.list.len() - 1] != seen.at {
                    return Err(format!(
                        "{} has read columns of another version: {seen:?}",
                        self.transactions[place].name
                    ));
                }
            }
        }
        Ok(())
    }

    /// Nodes, and moments between them: what had ended comes before what began later.
    fn relate_in_time(&mut self) {
        for transaction in self.transactions {
            self.order.add_node(transaction.name.clone());
        }
        let all = self.transactions.iter().enumerate().filter(|(place, _)| self.committed[*place]);
        let mut events: Vec<_> =
            all.flat_map(|(place, own)| [(own.begun, place, true), (own.ended, place, false)]).collect();
        events.sort_unstable();
        let mut last = None;
        for (time, place, begins) in events {
            let moment = self.order.add_node(format!("moment {time}"));
            let (from, to) = if begins { (moment, place) } else { (place, moment) };
            self.order.add_edge(from, to, || "time".into());
            if let Some(last) = last {
                self.order.add_edge(last, moment, || "time".into());
            }
            last = Some(moment);
        }
    }

    fn writer(&self, life: &Life, version: Version) -> Option<usize> {
        match version {
            0 => None,
            _ if version <= life.chain.len() => Some(self.writers[&life.chain[version - 1]].0),
            _ => life.deleted_by,
        }
    }

    fn relate_versions(&mut self) {
        let mut edges = Vec::new();
        for life in self.lives.values() {
            for version in 2..=life.chain.len() + 1 {
                let (from, to) = (self.writer(life, version - 1), self.writer(life, version));
                if let (Some(from), Some(to)) = (from, to) {
                    edges.push((from, to, format!("version {version} of {:?}", life.chain)));
                }
            }
        }
        for (from, to, why) in edges {
            self.order.add_edge(from, to, || why);
        }
    }

    /// Relates what was read; returns what was looked for and not found: transaction, life, versions that
    /// fit.
    fn relate_reads(&mut self) -> Result<Vec<Absence>, String> {
        let (mut edges, mut absences) = (Vec::new(), Vec::new());
        for (place, number, statement) in self.statements().filter(|own| self.committed[own.0]) {
            let name = &self.transactions[place].name;
            let mut found = Vec::new();
            for seen in statement.seen.iter().flatten() {
                found.push(seen.list[0]);
                let list = self.foreign(place, seen);
                if list.is_empty() {
                    continue;
                }
                if list.iter().any(|token| self.writers[token].0 == place) {
                    return Err(format!(
                        "{name}: another client has written over {seen:?}, which was not committed"
                    ));
                }
                let (life, version) = (&self.lives[&list[0]], list.len());
                let next = self.writer(life, version + 1);
                let writer = self.writer(life, version);
                if writer == next {
                    return Err(format!("{name} has read what its writer was to change again: {seen:?}"));
                }
                let unseen = life.chain.get(version).filter(|token| statement.live.contains(token));
                if unseen.is_some() && list.len() == seen.list.len() {
                    return Err(format!("{name} has not seen what it wrote itself: {seen:?}"));
                }
                edges.extend(writer.map(|from| (from, place, format!("it read {:?}", seen.list))));
                edges.extend(
                    next.map(|to| (place, to, format!("it read {:?} of {:?}", seen.list, life.chain))),
                );
            }
            // If the transaction's writes hid rows that came back when the writes were undone, the answer
            // says nothing about other transactions.
            let is_undone = |token: &Token| {
                self.writers
                    .get(token)
                    .is_some_and(|(own, number)| self.transactions[*own].statements[*number].is_undone)
            };
            let says_nothing = statement.seen.is_none() && statement.is_undone
                || statement.live.iter().any(|token| *token != statement.token && is_undone(token));
            let (Some(predicate), false) = (&statement.predicate, says_nothing) else {
                continue;
            };
            for (first, life) in self.lives.iter().filter(|(first, _)| !found.contains(first)) {
                let wrote = |version: &Version| self.writer(life, *version) == Some(place);
                let fits = |version: &Version| match version {
                    0 => true,
                    _ if *version <= life.chain.len() => !predicate.matches(life.places[version - 1]),
                    _ => life.deleted_by.is_some(),
                };
                let last = life.chain.len() + usize::from(life.deleted_by.is_some());
                match (1..=last).find(wrote) {
                    None => absences.push((place, number, *first, (0..=last).filter(fits).collect())),
                    // It has written the row: before that it saw the version that it wrote over.
                    Some(version) => {
                        let statements = &self.transactions[place].statements;
                        let writes = |own: &Statement| match life.chain.get(version - 1) {
                            Some(token) => own.token == *token,
                            None => {
                                own.effect == Effect::Delete
                                    && own.seen.iter().flatten().any(|seen| seen.list[0] == *first)
                            }
                        };
                        let at = statements.iter().position(writes).unwrap_or(0);
                        if number < at && !fits(&(version - 1)) {
                            return Err(format!(
                                "{name} has not found {:?}, over which it wrote: {statement:?}",
                                life.chain
                            ));
                        }
                    }
                }
            }
        }
        for (from, to, why) in edges {
            self.order.add_edge(from, to, || why);
        }
        Ok(absences)
    }

    /// Adds edges that follow from what was not found; whether there were any.
    fn narrow(&mut self, absences: &[Absence]) -> Result<bool, String> {
        let mut edges = Vec::new();
        for (place, number, first, fits) in absences {
            let life = &self.lives[first];
            let end = life.chain.len() + usize::from(life.deleted_by.is_some());
            let is_before = |version: &Version| {
                self.writer(life, *version).is_some_and(|writer| self.order.is_before(writer, *place))
            };
            let is_after = |version: &Version| {
                self.writer(life, *version).is_some_and(|writer| self.order.is_before(*place, writer))
            };
            let least = (1..=end).rev().find(is_before).unwrap_or(0);
            let most = (1..=end).find(is_after).map_or(end, |version| version - 1);
            let mut possible = fits.iter().filter(|version| (least..=most).contains(version));
            let (Some(low), name) = (possible.next().copied(), &self.transactions[*place].name) else {
                let (chain, name) = (&life.chain, &self.transactions[*place].name);
                let known = format!("it came after version {least} and before version {}", most + 1);
                let statement = &self.transactions[*place].statements[*number];
                return Err(format!(
                    "{name} has not found {chain:?}, and {known}; {fits:?} would fit: {statement:?}"
                ));
            };
            let high = possible.next_back().copied().unwrap_or(low);
            let why = || format!("{name} has not found {:?}", life.chain);
            edges.extend(self.writer(life, low).map(|writer| (writer, *place, why())));
            edges.extend(
                self.writer(life, high + 1).filter(|_| high < end).map(|writer| (*place, writer, why())),
            );
        }
        let mut any = false;
        for (from, to, why) in edges {
            any |= !self.order.is_before(from, to) && self.order.add_edge(from, to, || why);
        }
        Ok(any)
    }
}
