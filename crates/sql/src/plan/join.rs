//! Chooses the order and the methods of joins, and the paths to their tables.
//!
//! Relations are joined one after the other; the relation with the best score is next. The score of an index
//! path grows with the number of key columns that constants, outer queries and joined relations bind. A
//! relation that a hash join can join has a lower score, and any other relation the lowest. A relation with
//! few rows, such as an array, comes first if its values are keys of a table's index.
//!
//! A correlated query runs for each row of the outer query. If no index serves the condition with the outer
//! row, the plan builds a hash table, which all runs share: its rows and conditions depend on no outer row.
//!
//! Invariant: a plan depends only on the statement and the definitions; there are no statistics. So a
//! procedure has the same operations at CREATE and at a replay of its calls. Plans of queries are not
//! replayed, because procedures with queries are logged by value.

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

/// The score of a range path for each column that an equality binds.
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

/// The right side of a join, whose rows do not depend on rows of the left side.
struct Side {
    plan: Plan,
    relations: Relations,
    /// Whether the rows of the plan depend on the row of the outer query.
    outer: bool,
    /// The conditions on its rows that the plan does not evaluate.
    conjuncts: Vec<Conjunct>,
}

/// The path by which a plan reads a table.
pub(super) struct ChosenPath {
    pub(super) path: Path,
    /// Indexes of the conjuncts that the path fulfils, so that no filter evaluates them.
    used: Vec<usize>,
    /// Those of the used conjuncts that are filters, too, because the path has further rows.
    kept: Vec<usize>,
    /// Whether its rows are in the wanted order.
    ordered: bool,
}

impl ChosenPath {
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
        for (index, conjunct) in conjuncts.iter().enumerate() {
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
                    indexed.partial_column_of(column, conjuncts, loaded).map(|column| (relation, column))
                };
                let Some((indexed_relation, column)) = self.table_column(column).or_else(in_some_rows) else {
                    continue;
                };
                if indexed_relation != relation || refers.relations & !available != 0 {
                    continue;
                }
                let ty = table.columns[column].ty;
                let is_wider = is_wider(value, ty);
                let value = self.key_value(value.clone(), ty, operator, &comparison.node)?;
                let Some(value) = value else { continue };
                let further = self.further_keys(table, relation, (comparison, is_swapped))?;
                let is_strict = match &comparison.further {
                    Some(values) => values.is_strict && values.pairs.len() == further.len(),
                    None => matches!(operator, CompareOperator::Less | CompareOperator::Greater),
                };
                let conjunct = index;
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
            indexed.add_partial_columns(&mut candidates, conjuncts, loaded);
        }
        Ok(candidates)
    }

    /// Returns the second and further columns of a comparison of rows, with their values as keys, up to the
    /// first pair without a key. `is_swapped` means that the columns are on the right.
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
            let Some((_, column)) =
                self.table_column(column).filter(|(indexed_relation, _)| *indexed_relation == relation)
            else {
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

    pub(super) fn path_to(
        &self,
        relation: usize,
        available: Relations,
        conjuncts: &[Conjunct],
        wanted: Option<&WantedOrder>,
    ) -> Result<Option<ChosenPath>, StatementError> {
        let Some(table) = self.table_of(relation) else { return Ok(None) };
        let candidates = self.candidates(relation, available, conjuncts)?;
        Ok(Some(ChosenPath::of(&table, &candidates, wanted)))
    }

    pub(super) fn table_of(&self, relation: usize) -> Option<Arc<catalog::Table>> {
        match &self.queries.levels.last()?.relations[relation].rows {
            Rows::Table { table, .. } => Some(Arc::clone(table)),
            _ => None,
        }
    }

    fn set_registers(&self, relations: Relations) -> Vec<Register> {
        let level = self.queries.levels.last().expect("a query is being planned");
        let selected = level.relations.iter().enumerate().filter(|(index, _)| relations & 1 << index != 0);
        selected.flat_map(|(_, relation)| relation.set_registers()).collect()
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

    /// Returns the score of a source as the next one to join; `None` if it refers to sources that are not
    /// joined yet.
    fn score_of(
        &self,
        source: &Source,
        placed: Relations,
        conjuncts: &[Conjunct],
        wanted: Option<&WantedOrder>,
        sources: &[Source],
    ) -> Result<Option<i32>, StatementError> {
        let relations = source.relations();
        let connected = conjuncts.iter().any(|conjunct| conjunct.as_key(placed, relations).is_some());
        let otherwise = if connected {
            5
        } else if placed == 0 {
            0
        } else {
            -10
        };
        let Source::Relation(relation) = source else { return Ok(Some(otherwise)) };
        let level = self.queries.levels.last().expect("a query is being planned");
        if let Rows::Plan { lateral, plan, .. } = &level.relations[*relation].rows {
            let may_be_first = placed == 0 && plan.as_deref().is_some_and(Self::is_small);
            let as_first =
                if may_be_first { self.score_as_first(relations, conjuncts, sources)? } else { otherwise };
            return Ok((lateral & !placed == 0).then_some(as_first.max(otherwise)));
        }
        let chosen = self.path_to(*relation, placed, conjuncts, wanted)?;
        Ok(chosen.map(|chosen| score(&chosen.path).max(otherwise)))
    }

    /// Returns the score of relations as the first ones: one less than the best path that needs their values;
    /// 0 if no path needs them.
    fn score_as_first(
        &self,
        relations: Relations,
        conjuncts: &[Conjunct],
        sources: &[Source],
    ) -> Result<i32, StatementError> {
        let mut most = 0;
        for source in sources {
            let Source::Relation(relation) = source else { continue };
            let with =
                self.path_to(*relation, relations, conjuncts, None)?.map_or(0, |chosen| score(&chosen.path));
            let without =
                self.path_to(*relation, 0, conjuncts, None)?.map_or(0, |chosen| score(&chosen.path));
            if with > without {
                most = most.max(with - 1);
            }
        }
        Ok(most)
    }

    /// Joins all sources. Also returns whether the rows are in the wanted order.
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
            for (index, source) in sources.iter().enumerate() {
                if let Some(score) = self.score_of(source, placed, &conjuncts, wanted, &sources)?
                    && best.is_none_or(|(_, most)| score > most)
                {
                    best = Some((index, score));
                }
            }
            let source = sources.remove(best.map_or(0, |(index, _)| index));
            let relations = source.relations();
            let ready =
                take(&mut conjuncts, |conjunct| conjunct.refers.relations & !(placed | relations) == 0);
            let (joined, in_order) = self.join_next(plan.take(), source, placed, ready, wanted)?;
            ordered = if placed == 0 { in_order } else { ordered };
            plan = Some(joined);
            placed |= relations;
        }
        Ok((filter_by(plan.unwrap_or(Plan::One), conjuncts), ordered))
    }

    /// Joins a source to the plan of the joined sources. Also returns whether its rows are in the wanted
    /// order.
    fn join_next(
        &mut self,
        before: Option<Plan>,
        source: Source,
        placed: Relations,
        mut conjuncts: Vec<Conjunct>,
        wanted: Option<&WantedOrder>,
    ) -> Result<(Plan, bool), StatementError> {
        let relations = source.relations();
        let relation = match source {
            Source::Relation(relation) => relation,
            Source::Join(join) => {
                let (plan, left) = self.outer_join(*join, &mut conjuncts)?;
                debug_assert_eq!(left, relations);
                let inside = take(&mut conjuncts, |conjunct| conjunct.refers.relations & !relations == 0);
                let plan = filter_by(plan, inside);
                let side = Side { plan, relations, outer: self.is_correlated(), conjuncts: Vec::new() };
                return Ok((self.combine(before, side, placed, conjuncts), false));
            }
        };
        if let Some(chosen) = self.path_to(relation, placed, &conjuncts, wanted)? {
            let is_hashed = conjuncts.iter().any(|conjunct| conjunct.as_key(placed, relations).is_some());
            let chosen = match is_hashed && score(&chosen.path) < EQUALITY {
                true => self.steady_path_to(relation, &conjuncts, wanted)?.unwrap_or(chosen),
                false => chosen,
            };
            return Ok(self.join_table(before, (relation, chosen), placed, conjuncts));
        }
        let (plan, lateral, outer) = self.take_plan(relation);
        if lateral != 0 {
            let inside = filter_by(plan, conjuncts);
            let inner_registers = Vec::new();
            let outer = Box::new(before.unwrap_or(Plan::One));
            let (inner, kind, condition) = (Box::new(inside), JoinKind::Inner, None);
            return Ok((Plan::Loop { outer, inner, kind, condition, inner_registers }, false));
        }
        let mut inner_conjuncts = within(&mut conjuncts, relations);
        let inside = self.take_inside(&mut inner_conjuncts);
        let plan = filter_by(plan, inside);
        let side = Side { plan, relations, outer, conjuncts: inner_conjuncts };
        Ok((self.combine(before, side, placed, conjuncts), false))
    }

    /// Returns the best path to a table that uses only values which are the same in every run of the plan.
    fn steady_path_to(
        &self,
        relation: usize,
        conjuncts: &[Conjunct],
        wanted: Option<&WantedOrder>,
    ) -> Result<Option<ChosenPath>, StatementError> {
        let Some(table) = self.table_of(relation) else { return Ok(None) };
        let mut candidates = self.candidates(relation, 0, conjuncts)?;
        candidates.retain(|candidate| {
            let Conjunct { refers, .. } = &conjuncts[candidate.conjunct];
            refers.relations & !(1 << relation) == 0 && conjuncts[candidate.conjunct].is_steady()
        });
        Ok(Some(ChosenPath::of(&table, &candidates, wanted)))
    }

    fn take_plan(&mut self, relation: usize) -> (Plan, Relations, bool) {
        match &mut self.level().relations[relation].rows {
            Rows::Plan { plan, lateral, outer, .. } => (*plan.take().unwrap_or_default(), *lateral, *outer),
            _ => (Plan::One, 0, false),
        }
    }

    /// Joins a table by a nested loop over its path, or by a hash table. Also returns whether the rows are in
    /// the wanted order.
    fn join_table(
        &mut self,
        before: Option<Plan>,
        (relation, chosen): (usize, ChosenPath),
        placed: Relations,
        conjuncts: Vec<Conjunct>,
    ) -> (Plan, bool) {
        let relations: Relations = 1 << relation;
        let needs_placed = chosen.used.iter().any(|used| conjuncts[*used].refers.relations & !relations != 0);
        let outer = chosen.used.iter().any(|used| conjuncts[*used].refers.outer);
        let mut ahead = Vec::new();
        let mut left = Vec::new();
        for (number, mut conjunct) in conjuncts.into_iter().enumerate() {
            if chosen.used.contains(&number) {
                // The values of the path are evaluated before the table is read.
                ahead.append(&mut conjunct.applied);
            }
            if !chosen.used.contains(&number) || chosen.kept.contains(&number) {
                left.push(conjunct);
            }
        }
        let is_looked_up = !outer
            && score(&chosen.path) < score(&Path::Point { key: Vec::new() })
            && left.iter().any(|conjunct| conjunct.as_key(placed, relations).is_some());
        if before.is_none() && !is_looked_up || needs_placed || !ahead.is_empty() {
            let plain = take(&mut left, |conjunct| conjunct.applied.is_empty());
            let scan =
                self.scan(relation, chosen.path, all(plain.into_iter().map(|conjunct| conjunct.condition)));
            let inner = filter_by(scan, left);
            let outer = match before {
                None if ahead.is_empty() => return (inner, chosen.ordered),
                None => Plan::One,
                Some(plan) => plan,
            };
            let outer = Box::new(apply_all(ahead, outer));
            let (inner, kind, condition) = (Box::new(inner), JoinKind::Inner, None);
            let plan = Plan::Loop { outer, inner, kind, condition, inner_registers: Vec::new() };
            return (plan, chosen.ordered);
        }
        let is_first = before.is_none();
        let mut conjuncts = within(&mut left, relations);
        let mut inside = self.take_inside(&mut conjuncts);
        let plain = take(&mut inside, |conjunct| conjunct.applied.is_empty());
        let scan =
            self.scan(relation, chosen.path, all(plain.into_iter().map(|conjunct| conjunct.condition)));
        let plan = filter_by(scan, inside);
        let side = Side { plan, relations, outer, conjuncts };
        (self.combine(before, side, placed, left), is_first && chosen.ordered)
    }

    /// Joins a plan with a side that does not depend on it: by a hash join if there are keys, otherwise by a
    /// nested loop.
    fn combine(
        &mut self,
        before: Option<Plan>,
        mut side: Side,
        placed: Relations,
        mut conjuncts: Vec<Conjunct>,
    ) -> Plan {
        let mut keys = Vec::new();
        if before.is_some() || !side.outer {
            for list in [&mut side.conjuncts, &mut conjuncts] {
                let key = |conjunct: &Conjunct| conjunct.as_key(placed, side.relations);
                keys.extend(list.iter().filter_map(key));
                list.retain(|conjunct| key(conjunct).is_none());
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
    /// correlated query, only steady conjuncts do, so that the rows can be shared by all runs.
    fn take_inside(&self, conjuncts: &mut Vec<Conjunct>) -> Vec<Conjunct> {
        let is_correlated = self.is_correlated();
        take(conjuncts, |conjunct| !is_correlated || conjunct.is_steady())
    }

    /// Returns whether the innermost level refers to an outer query, so that it runs for each outer row.
    fn is_correlated(&self) -> bool {
        let innermost = self.queries.levels.len() - 1;
        self.queries.lowest.is_some_and(|lowest| lowest < innermost)
    }

    /// Returns a slot for a hash table that all runs of a correlated query share; `None` if they share none.
    fn table_slot(&mut self, outer: bool) -> Option<SlotId> {
        (self.is_correlated() && !outer).then(|| self.new_slot())
    }

    /// Returns a plan that keeps the rows of its first run for further runs, unless the rows may differ.
    fn keep(&mut self, plan: Plan, relations: Relations, outer: bool) -> Plan {
        if outer || matches!(plan, Plan::Named { .. } | Plan::Values { .. }) {
            return plan;
        }
        let registers = self.set_registers(relations);
        Plan::Keep { slot: self.new_slot(), input: Box::new(plan), registers }
    }

    /// Plans a left or full join. Returns it with its relations. A left join takes from `above` the conjuncts
    /// that refer only to its left side.
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
            left_conjuncts.append(&mut take(above, |conjunct| {
                conjunct.refers.relations != 0 && conjunct.refers.relations & !left_relations == 0
            }));
            right_conjuncts.append(&mut take(&mut condition, |conjunct| {
                conjunct.refers.relations != 0 && conjunct.refers.relations & !right_relations == 0
            }));
        }
        let (outer, _) = self.join_all(left, left_conjuncts, None)?;
        let is_lateral = self.is_lateral(&right);
        if let (JoinKind::Left, [Source::Relation(relation)]) = (kind, right.as_slice())
            && self.table_of(*relation).is_some()
        {
            right_conjuncts.append(&mut condition);
            let chosen = self.path_to(*relation, left_relations, &right_conjuncts, None)?;
            let chosen = chosen.filter(|chosen| {
                chosen.used.iter().any(|used| right_conjuncts[*used].refers.relations & left_relations != 0)
            });
            if let Some(chosen) = chosen {
                let (inner, _) = self.join_table(None, (*relation, chosen), left_relations, right_conjuncts);
                let inner_registers = self.set_registers(right_relations);
                let (outer, inner) = (Box::new(outer), Box::new(inner));
                return Ok((Plan::Loop { outer, inner, kind, condition: None, inner_registers }, both));
            }
            condition =
                take(&mut right_conjuncts, |conjunct| conjunct.refers.relations & !right_relations != 0);
        }
        let mut keys = Vec::new();
        let mut remaining = Vec::new();
        for conjunct in condition {
            match conjunct.as_key(left_relations, right_relations) {
                Some(key) if !is_lateral => keys.push(key),
                _ => remaining.push(conjunct),
            }
        }
        let has_subqueries = remaining.iter().any(|conjunct| !conjunct.applied.is_empty());
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
            condition: all(remaining.into_iter().map(|conjunct| conjunct.condition)),
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
            Source::Relation(relation) => {
                !matches!(level.relations[*relation].rows, Rows::Plan { outer: true, .. })
            }
            Source::Join(_) => false,
        })
    }

    fn is_lateral(&self, sources: &[Source]) -> bool {
        let level = self.queries.levels.last().expect("a query is being planned");
        sources.iter().any(|source| match source {
            Source::Relation(relation) => {
                matches!(level.relations[*relation].rows, Rows::Plan { lateral, .. } if lateral != 0)
            }
            Source::Join(_) => false,
        })
    }
}

/// Removes the conjuncts that refer to no other relations than these, and returns them.
fn within(conjuncts: &mut Vec<Conjunct>, relations: Relations) -> Vec<Conjunct> {
    take(conjuncts, |conjunct| conjunct.refers.relations & !relations == 0)
}
