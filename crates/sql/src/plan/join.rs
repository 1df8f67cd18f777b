//! Chooses the order and the kind of joins, and the paths to their tables.
//!
//! Relations are joined one after the other; the relation with the best score is next. A path by an index
//! scores by the columns that constants, outer queries and earlier relations bind. A relation that equal
//! values connect with these (a hash join) has a lower score, and any other relation the lowest. The first
//! relation is one with few rows, such as an array, if its values lead to rows of a table by an index.
//!
//! A correlated query runs for each row of the outer query. Where no index leads from the outer row to the
//! rows of a table, a hash table does, which all runs share: its rows and conditions depend on no outer row.
//!
//! Invariant: plans follow from the statement and the definitions alone; there are no statistics. So a
//! procedure has the same operations wherever its definition is bound: at CREATE, and for a replay of its
//! calls, which the plan of a query does not reach, as procedures with queries are logged by value.

use super::conjunct::{Comparison, Conjunct, all, filter, filter_by, take};
use super::from::{OuterJoin, Source};
use super::indexed::Loaded;
use super::{Binder, Relations, Rows, apply_all};
use crate::binder::Typed;
use crate::error::StatementError;
use crate::path::{Candidate, WantedOrder, choose_path, is_wider, mirrored};
use catalog::Table;
use procedure::query::{HashJoin, JoinKey, JoinKind, Plan, SlotId};
use procedure::{Access, CompareOperator, Expression, Path, Register};
use squawk_syntax::ast::AstNode;
use std::sync::Arc;

/// The score of a path by one equality.
const EQUALITY: i32 = 100;

/// Returns the score of a path; a higher score is better.
pub(super) fn score(path: &Path) -> i32 {
    match path {
        Path::Point { .. } => 1_000,
        Path::Range { prefix, lower, upper, .. } => {
            let ends = i32::from(lower.is_some()) + i32::from(upper.is_some());
            prefix.len() as i32 * EQUALITY + ends * 10
        }
    }
}

/// The right side of a join: rows that do not depend on those of the left side.
struct Side {
    plan: Plan,
    relations: Relations,
    /// Whether the rows of the plan may differ from one row of the outer query to the next.
    outer: bool,
    /// Further conditions on its rows.
    conjuncts: Vec<Conjunct>,
}

/// A path to the rows of a table.
pub(super) struct Way {
    pub(super) path: Path,
    /// Indexes of the conjuncts that it makes superfluous.
    used: Vec<usize>,
    /// Those of the used conjuncts that are filters, too, because the path has further rows.
    kept: Vec<usize>,
    /// Whether its rows are in the wanted order.
    ordered: bool,
}

impl Way {
    /// Returns the best path for some candidates.
    fn of(table: &Table, candidates: &[Candidate], wanted: Option<&WantedOrder>) -> Self {
        let (path, used, ordered) = choose_path(table, candidates, wanted);
        let is_wider = |place: &usize| candidates.iter().any(|own| own.conjunct == *place && own.is_wider);
        let kept = used.iter().copied().filter(is_wider).collect();
        Self { path, used, kept, ordered }
    }
}

impl Binder<'_> {
    /// Returns the conjuncts that compare a column of a table with a value of the `available` relations.
    fn candidates(
        &self,
        relation: usize,
        available: Relations,
        conjuncts: &[Conjunct],
    ) -> Result<Vec<Candidate>, StatementError> {
        let Rows::Table { table, registers, used, indexed, .. } =
            &self.queries.levels[self.queries.levels.len() - 1].relations[relation].rows
        else {
            return Ok(Vec::new());
        };
        let mut candidates = Vec::new();
        for (place, conjunct) in conjuncts.iter().enumerate() {
            let Some(comparison) = &conjunct.comparison else { continue };
            if comparison.operator == CompareOperator::NotEqual {
                continue;
            }
            let [left, right] = &comparison.sides;
            for is_swapped in [false, true] {
                let (column, (value, refers), operator) = match is_swapped {
                    false => (&left.0, right, comparison.operator),
                    true => (&right.0, left, mirrored(comparison.operator)),
                };
                let Typed::Known(column, _) = column else { continue };
                let loaded = Loaded { first: *registers, columns: used };
                let in_some_rows = || {
                    let indexed = indexed.as_ref()?;
                    indexed.part_of(column, conjuncts, loaded).map(|column| (relation, column))
                };
                let Some((own, column)) = self.table_column(column).or_else(in_some_rows) else { continue };
                if own != relation || refers.own & !available != 0 {
                    continue;
                }
                let ty = table.columns[column].ty;
                let is_wider = is_wider(value, ty);
                let value = self.key_value(value.clone(), ty, operator, &comparison.node)?;
                let Some(value) = value else { continue };
                let further = self.further_keys(table, relation, (comparison, is_swapped))?;
                let is_strict = match &comparison.further {
                    Some(own) => own.is_strict && own.pairs.len() == further.len(),
                    None => matches!(operator, CompareOperator::Less | CompareOperator::Greater),
                };
                let conjunct = place;
                candidates.push(Candidate {
                    column,
                    operator,
                    value,
                    further,
                    is_strict,
                    conjunct,
                    is_wider,
                });
                break;
            }
        }
        if let Some(indexed) = indexed {
            let loaded = Loaded { first: *registers, columns: used };
            indexed.add_parts(&mut candidates, conjuncts, loaded);
        }
        Ok(candidates)
    }

    /// Returns the further columns of a comparison of rows, with their values as keys. `is_swapped` says that
    /// the columns are on the right.
    fn further_keys(
        &self,
        table: &Table,
        relation: usize,
        (comparison, is_swapped): (&Comparison, bool),
    ) -> Result<Vec<(usize, Expression)>, StatementError> {
        let mut keys = Vec::new();
        for [left, right] in comparison.further.iter().flat_map(|further| &further.pairs) {
            let (column, value) = if is_swapped { (right, left) } else { (left, right) };
            let Typed::Known(column, _) = column else { break };
            let Some((_, column)) = self.table_column(column).filter(|(own, _)| *own == relation) else {
                break;
            };
            let (ty, operator) = (table.columns[column].ty, comparison.operator);
            if is_wider(value, ty) {
                break;
            }
            let Some(value) = self.key_value(value.clone(), ty, operator, &comparison.node)? else { break };
            keys.push((column, value));
        }
        Ok(keys)
    }

    pub(super) fn way_to(
        &self,
        relation: usize,
        available: Relations,
        conjuncts: &[Conjunct],
        wanted: Option<&WantedOrder>,
    ) -> Result<Option<Way>, StatementError> {
        let Some(table) = self.table_of(relation) else { return Ok(None) };
        let candidates = self.candidates(relation, available, conjuncts)?;
        Ok(Some(Way::of(&table, &candidates, wanted)))
    }

    pub(super) fn table_of(&self, relation: usize) -> Option<Arc<catalog::Table>> {
        match &self.queries.levels.last()?.relations[relation].rows {
            Rows::Table { table, .. } => Some(Arc::clone(table)),
            _ => None,
        }
    }

    fn set_registers(&self, relations: Relations) -> Vec<Register> {
        let level = self.queries.levels.last().expect("a query is being planned");
        let own = level.relations.iter().enumerate().filter(|(place, _)| relations & 1 << place != 0);
        own.flat_map(|(_, relation)| relation.set_registers()).collect()
    }

    /// Returns a scan of a table, with a filter for its rows.
    fn scan(&self, relation: usize, path: Path, condition: Option<Expression>) -> Plan {
        let level = self.queries.levels.last().expect("a query is being planned");
        let Rows::Table { table, registers, used, handle, .. } = &level.relations[relation].rows else {
            unreachable!("a table is scanned")
        };
        let access = Access {
            table: Arc::clone(table),
            path,
            columns: used.clone(),
            slots: used.iter().map(|column| table.layout.slots()[*column]).collect(),
            registers: *registers,
            choices: Vec::new(),
            filter: condition,
        };
        Plan::Scan { access, handle: *handle }
    }

    /// Returns the score of a source as the next one; `None` if it cannot be next.
    fn score_of(
        &self,
        source: &Source,
        placed: Relations,
        conjuncts: &[Conjunct],
        wanted: Option<&WantedOrder>,
        sources: &[Source],
    ) -> Result<Option<i32>, StatementError> {
        let own = source.relations();
        let connected = conjuncts.iter().any(|conjunct| conjunct.as_key(placed, own).is_some());
        let otherwise = if connected {
            5
        } else if placed == 0 {
            0
        } else {
            -10
        };
        let Source::Relation(place) = source else { return Ok(Some(otherwise)) };
        let level = self.queries.levels.last().expect("a query is being planned");
        if let Rows::Plan { lateral, plan, .. } = &level.relations[*place].rows {
            let leads = placed == 0 && plan.as_deref().is_some_and(Self::is_small);
            let led = if leads { self.score_of_led(own, conjuncts, sources)? } else { otherwise };
            return Ok((lateral & !placed == 0).then_some(led.max(otherwise)));
        }
        let way = self.way_to(*place, placed, conjuncts, wanted)?;
        Ok(way.map(|way| score(&way.path).max(otherwise)))
    }

    /// Returns the score of relations that come first: just below the best path to which their values lead,
    /// and to which nothing else leads; 0 if there is none.
    fn score_of_led(
        &self,
        own: Relations,
        conjuncts: &[Conjunct],
        sources: &[Source],
    ) -> Result<i32, StatementError> {
        let mut most = 0;
        for source in sources {
            let Source::Relation(place) = source else { continue };
            let with = self.way_to(*place, own, conjuncts, None)?.map_or(0, |way| score(&way.path));
            let without = self.way_to(*place, 0, conjuncts, None)?.map_or(0, |way| score(&way.path));
            if with > without {
                most = most.max(with - 1);
            }
        }
        Ok(most)
    }

    /// Joins sources. Also returns whether their rows are in the wanted order.
    pub(super) fn join_all(
        &mut self,
        mut sources: Vec<Source>,
        mut conjuncts: Vec<Conjunct>,
        wanted: Option<&WantedOrder>,
    ) -> Result<(Plan, bool), StatementError> {
        let mut plan = None;
        let (mut placed, mut ordered) = (0, false);
        self.join_lists(&mut sources, &mut conjuncts)?;
        while !sources.is_empty() {
            let mut best: Option<(usize, i32)> = None;
            for (place, source) in sources.iter().enumerate() {
                if let Some(score) = self.score_of(source, placed, &conjuncts, wanted, &sources)?
                    && best.is_none_or(|(_, most)| score > most)
                {
                    best = Some((place, score));
                }
            }
            let source = sources.remove(best.map_or(0, |(place, _)| place));
            let own = source.relations();
            let ready = take(&mut conjuncts, |conjunct| conjunct.refers.own & !(placed | own) == 0);
            let (joined, in_order) = self.join_next(plan.take(), source, placed, ready, wanted)?;
            ordered = if placed == 0 { in_order } else { ordered };
            plan = Some(joined);
            placed |= own;
        }
        Ok((filter_by(plan.unwrap_or(Plan::One), conjuncts), ordered))
    }

    /// Joins a source to the sources that are joined already.
    fn join_next(
        &mut self,
        before: Option<Plan>,
        source: Source,
        placed: Relations,
        mut conjuncts: Vec<Conjunct>,
        wanted: Option<&WantedOrder>,
    ) -> Result<(Plan, bool), StatementError> {
        let own = source.relations();
        let place = match source {
            Source::Relation(place) => place,
            Source::Join(join) => {
                let (plan, left) = self.outer_join(*join, &mut conjuncts)?;
                debug_assert_eq!(left, own);
                let inside = take(&mut conjuncts, |conjunct| conjunct.refers.own & !own == 0);
                let plan = filter_by(plan, inside);
                let side = Side { plan, relations: own, outer: self.is_correlated(), conjuncts: Vec::new() };
                return Ok((self.combine(before, side, placed, conjuncts), false));
            }
        };
        if let Some(way) = self.way_to(place, placed, &conjuncts, wanted)? {
            let is_hashed = conjuncts.iter().any(|conjunct| conjunct.as_key(placed, own).is_some());
            let way = match is_hashed && score(&way.path) < EQUALITY {
                true => self.way_within(place, &conjuncts, wanted)?.unwrap_or(way),
                false => way,
            };
            return Ok(self.join_table(before, (place, way), placed, conjuncts));
        }
        let (plan, lateral, outer) = self.take_plan(place);
        if lateral != 0 {
            let inside = filter_by(plan, conjuncts);
            let inner_registers = Vec::new();
            let outer = Box::new(before.unwrap_or(Plan::One));
            let (inner, kind, condition) = (Box::new(inside), JoinKind::Inner, None);
            return Ok((Plan::Loop { outer, inner, kind, condition, inner_registers }, false));
        }
        let mut of_its_own = within(&mut conjuncts, own);
        let inside = self.take_inside(&mut of_its_own);
        let plan = filter_by(plan, inside);
        let side = Side { plan, relations: own, outer, conjuncts: of_its_own };
        Ok((self.combine(before, side, placed, conjuncts), false))
    }

    /// Returns the best path to a table by values that are the same in every run of the plan.
    fn way_within(
        &self,
        relation: usize,
        conjuncts: &[Conjunct],
        wanted: Option<&WantedOrder>,
    ) -> Result<Option<Way>, StatementError> {
        let Some(table) = self.table_of(relation) else { return Ok(None) };
        let mut candidates = self.candidates(relation, 0, conjuncts)?;
        candidates.retain(|own| {
            let Conjunct { refers, .. } = &conjuncts[own.conjunct];
            refers.own & !(1 << relation) == 0 && conjuncts[own.conjunct].is_steady()
        });
        Ok(Some(Way::of(&table, &candidates, wanted)))
    }

    fn take_plan(&mut self, relation: usize) -> (Plan, Relations, bool) {
        match &mut self.level().relations[relation].rows {
            Rows::Plan { plan, lateral, outer, .. } => (*plan.take().unwrap_or_default(), *lateral, *outer),
            _ => (Plan::One, 0, false),
        }
    }

    /// Joins a table, by values of the relations before it or by a hash table. Also returns whether its rows
    /// are in the order of the path.
    fn join_table(
        &mut self,
        before: Option<Plan>,
        (place, way): (usize, Way),
        placed: Relations,
        conjuncts: Vec<Conjunct>,
    ) -> (Plan, bool) {
        let own: Relations = 1 << place;
        let needs_placed = way.used.iter().any(|used| conjuncts[*used].refers.own & !own != 0);
        let outer = way.used.iter().any(|used| conjuncts[*used].refers.outer);
        let mut ahead = Vec::new();
        let mut left = Vec::new();
        for (number, mut conjunct) in conjuncts.into_iter().enumerate() {
            if way.used.contains(&number) {
                // The values of the path are evaluated before the table is read.
                ahead.append(&mut conjunct.applied);
            }
            if !way.used.contains(&number) || way.kept.contains(&number) {
                left.push(conjunct);
            }
        }
        let is_looked_up = !outer
            && score(&way.path) < score(&Path::Point { key: Vec::new() })
            && left.iter().any(|conjunct| conjunct.as_key(placed, own).is_some());
        if before.is_none() && !is_looked_up || needs_placed || !ahead.is_empty() {
            let plain = take(&mut left, |conjunct| conjunct.applied.is_empty());
            let scan = self.scan(place, way.path, all(plain.into_iter().map(|own| own.condition)));
            let inner = filter_by(scan, left);
            let outer = match before {
                None if ahead.is_empty() => return (inner, way.ordered),
                None => Plan::One,
                Some(plan) => plan,
            };
            let outer = Box::new(apply_all(ahead, outer));
            let (inner, kind, condition) = (Box::new(inner), JoinKind::Inner, None);
            let plan = Plan::Loop { outer, inner, kind, condition, inner_registers: Vec::new() };
            return (plan, way.ordered);
        }
        let is_first = before.is_none();
        let mut conjuncts = within(&mut left, own);
        let mut inside = self.take_inside(&mut conjuncts);
        let plain = take(&mut inside, |conjunct| conjunct.applied.is_empty());
        let scan = self.scan(place, way.path, all(plain.into_iter().map(|own| own.condition)));
        let plan = filter_by(scan, inside);
        let side = Side { plan, relations: own, outer, conjuncts };
        (self.combine(before, side, placed, left), is_first && way.ordered)
    }

    /// Joins the rows of a plan with those of a plan that does not depend on them.
    fn combine(
        &mut self,
        before: Option<Plan>,
        mut side: Side,
        placed: Relations,
        mut conjuncts: Vec<Conjunct>,
    ) -> Plan {
        let mut keys = Vec::new();
        if before.is_some() || !side.outer {
            for own in [&mut side.conjuncts, &mut conjuncts] {
                let key = |conjunct: &Conjunct| conjunct.as_key(placed, side.relations);
                keys.extend(own.iter().filter_map(key));
                own.retain(|conjunct| key(conjunct).is_none());
            }
        }
        let build_registers = self.set_registers(side.relations);
        if keys.is_empty() {
            let inner = if before.is_some() || self.is_correlated() {
                self.keep(side.plan, side.relations, side.outer)
            } else {
                side.plan
            };
            let inner = filter_by(inner, side.conjuncts);
            let Some(before) = before else { return filter_by(inner, conjuncts) };
            let (outer, inner) = (Box::new(before), Box::new(inner));
            let (kind, inner_registers) = (JoinKind::Inner, build_registers);
            let joined = Plan::Loop { outer, inner, kind, condition: None, inner_registers };
            return filter_by(joined, conjuncts);
        }
        let joined = Plan::Hash(HashJoin {
            probe: Box::new(before.unwrap_or_default()),
            build: Box::new(side.plan),
            keys,
            kind: JoinKind::Inner,
            condition: None,
            probe_registers: Vec::new(),
            build_registers,
            kept: self.table_slot(side.outer),
        });
        side.conjuncts.append(&mut conjuncts);
        filter_by(joined, side.conjuncts)
    }

    /// Removes the conjuncts that filter the rows of a plan before they are joined, and returns them. In a
    /// correlated query these rows are the same for each row of the outer query.
    fn take_inside(&self, conjuncts: &mut Vec<Conjunct>) -> Vec<Conjunct> {
        let is_correlated = self.is_correlated();
        take(conjuncts, |conjunct| !is_correlated || conjunct.is_steady())
    }

    /// Returns whether the innermost level refers to levels below, so that it runs for each of their rows.
    fn is_correlated(&self) -> bool {
        let own = self.queries.levels.len() - 1;
        self.queries.lowest.is_some_and(|lowest| lowest < own)
    }

    /// Returns a slot for a hash table that all runs of a correlated query use.
    fn table_slot(&mut self, outer: bool) -> Option<SlotId> {
        (self.is_correlated() && !outer).then(|| self.new_slot())
    }

    /// Keeps the rows of a plan that runs more than once, unless the rows may differ from run to run.
    fn keep(&mut self, plan: Plan, own: Relations, outer: bool) -> Plan {
        if outer || matches!(plan, Plan::Named { .. } | Plan::Values { .. }) {
            return plan;
        }
        let registers = self.set_registers(own);
        Plan::Keep { slot: self.new_slot(), input: Box::new(plan), registers }
    }

    /// Plans a left or full join. Returns it with its relations. A left join takes the conjuncts of `above`
    /// that refer to its left side only.
    fn outer_join(
        &mut self,
        join: OuterJoin,
        above: &mut Vec<Conjunct>,
    ) -> Result<(Plan, Relations), StatementError> {
        let OuterJoin { kind, left, mut left_conjuncts, right, mut right_conjuncts, mut condition } = join;
        let relations = |sources: &[Source]| sources.iter().map(Source::relations).fold(0, |a, b| a | b);
        let (left_relations, right_relations) = (relations(&left), relations(&right));
        let both = left_relations | right_relations;
        if kind == JoinKind::Left {
            left_conjuncts
                .append(&mut take(above, |own| own.refers.own != 0 && own.refers.own & !left_relations == 0));
            right_conjuncts.append(&mut take(&mut condition, |own| {
                own.refers.own != 0 && own.refers.own & !right_relations == 0
            }));
        }
        let (outer, _) = self.join_all(left, left_conjuncts, None)?;
        let is_lateral = self.is_lateral(&right);
        if let (JoinKind::Left, [Source::Relation(place)]) = (kind, right.as_slice())
            && self.table_of(*place).is_some()
        {
            right_conjuncts.append(&mut condition);
            let way = self.way_to(*place, left_relations, &right_conjuncts, None)?;
            let way = way.filter(|way| {
                way.used.iter().any(|used| right_conjuncts[*used].refers.own & left_relations != 0)
            });
            if let Some(way) = way {
                let (inner, _) = self.join_table(None, (*place, way), left_relations, right_conjuncts);
                let inner_registers = self.set_registers(right_relations);
                let (outer, inner) = (Box::new(outer), Box::new(inner));
                return Ok((Plan::Loop { outer, inner, kind, condition: None, inner_registers }, both));
            }
            condition = take(&mut right_conjuncts, |own| own.refers.own & !right_relations != 0);
        }
        let mut keys = Vec::new();
        let mut remaining = Vec::new();
        for conjunct in condition {
            match conjunct.as_key(left_relations, right_relations) {
                Some(key) if !is_lateral => keys.push(key),
                _ => remaining.push(conjunct),
            }
        }
        let has_subqueries = remaining.iter().any(|own| !own.applied.is_empty());
        if kind == JoinKind::Full && (keys.is_empty() || has_subqueries) {
            let node = self.source.file.syntax().clone();
            return Err(self.unsupported(&node, "FULL JOIN without an equality of columns of both sides"));
        }
        let is_steady = right_conjuncts.iter().all(Conjunct::is_steady);
        let is_outer = !is_steady || is_lateral || !self.is_standalone(&right);
        let (inner, _) = self.join_all(right, right_conjuncts, None)?;
        let inner_registers = self.set_registers(right_relations);
        if keys.is_empty() || has_subqueries {
            // A hash join cannot evaluate subqueries, so the keys become conditions of a nested loop.
            let equal = keys.into_iter().map(|JoinKey { class, probe, build }| Expression::Compare {
                operator: CompareOperator::Equal,
                class,
                operands: Box::new([probe, build]),
            });
            let kept = self.keep(inner, right_relations, is_outer || self.queries.levels.len() > 1);
            let inner = Box::new(filter_by(filter(kept, all(equal)), remaining));
            let outer = Box::new(outer);
            return Ok((Plan::Loop { outer, inner, kind, condition: None, inner_registers }, both));
        }
        let plan = Plan::Hash(HashJoin {
            probe: Box::new(outer),
            build: Box::new(inner),
            keys,
            kind,
            condition: all(remaining.into_iter().map(|own| own.condition)),
            probe_registers: self.set_registers(left_relations),
            build_registers: inner_registers,
            kept: self.table_slot(is_outer),
        });
        Ok((plan, both))
    }

    /// Returns whether the rows of relations are the same for each row of the outer query.
    fn is_standalone(&self, sources: &[Source]) -> bool {
        let level = self.queries.levels.last().expect("a query is being planned");
        sources.iter().all(|source| match source {
            Source::Relation(place) => {
                !matches!(level.relations[*place].rows, Rows::Plan { outer: true, .. })
            }
            Source::Join(_) => false,
        })
    }

    fn is_lateral(&self, sources: &[Source]) -> bool {
        let level = self.queries.levels.last().expect("a query is being planned");
        sources.iter().any(|source| match source {
            Source::Relation(place) => {
                matches!(level.relations[*place].rows, Rows::Plan { lateral, .. } if lateral != 0)
            }
            Source::Join(_) => false,
        })
    }
}

/// Removes the conjuncts that refer to these relations only, and returns them.
fn within(conjuncts: &mut Vec<Conjunct>, relations: Relations) -> Vec<Conjunct> {
    take(conjuncts, |conjunct| conjunct.refers.own & !relations == 0)
}
