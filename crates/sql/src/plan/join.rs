//! Chooses the order and the kind of joins, and the paths to their tables.
//!
//! Relations are joined one after the other; the relation with the best score is next. A path by an index
//! scores by the columns that constants and earlier relations bind. A relation that equal values connect with
//! earlier relations (a hash join) has a lower score, and any other relation the lowest. The first relation
//! is one with few rows, such as an array, if its values lead to rows of a table by an index. There are no
//! statistics.

use super::from::{OuterJoin, Source};
use super::{Applied, Binder, References, Relations, Rows, apply_all};
use crate::binder::Typed;
use crate::error::StatementError;
use crate::expression::comparison_operator;
use crate::path::{Candidate, WantedOrder, choose_path, is_any, mirrored, split};
use procedure::query::{JoinKey, JoinKind, Plan};
use procedure::{Access, CompareClass, CompareOperator, Expression, Path, Register};
use squawk_syntax::SyntaxNode;
use squawk_syntax::ast::{self, AstNode};
use std::sync::Arc;

/// A conjunct: a part of a condition that is a chain of ANDs.
#[derive(Debug)]
pub(super) struct Conjunct {
    pub(super) condition: Expression,
    /// The subqueries and calls that are evaluated before it.
    pub(super) applied: Vec<Applied>,
    pub(super) refers: References,
    /// The comparison, if it compares two values.
    pub(super) comparison: Option<Comparison>,
}

#[derive(Debug)]
pub(super) struct Comparison {
    operator: CompareOperator,
    class: CompareClass,
    /// Both sides, converted to the class.
    operands: Box<[Expression; 2]>,
    /// Both sides before the conversion, with their references.
    sides: [(Typed, References); 2],
    node: SyntaxNode,
}

/// Returns the score of a path; a higher score is better.
pub(super) fn score(path: &Path) -> i32 {
    match path {
        Path::Point { .. } => 1_000,
        Path::Range { prefix, lower, upper, .. } => {
            let ends = i32::from(lower.is_some()) + i32::from(upper.is_some());
            prefix.len() as i32 * 100 + ends * 10
        }
    }
}

/// A path to the rows of a table.
pub(super) struct Way {
    pub(super) path: Path,
    /// Indexes of the conjuncts that it makes superfluous.
    used: Vec<usize>,
    /// Whether its rows are in the wanted order.
    ordered: bool,
}

fn all(conditions: impl IntoIterator<Item = Expression>) -> Option<Expression> {
    let conditions: Vec<_> = conditions.into_iter().collect();
    (!conditions.is_empty()).then(|| Expression::all(conditions))
}

fn filter(plan: Plan, condition: Option<Expression>) -> Plan {
    match condition {
        Some(condition) => plan.filter(condition),
        None => plan,
    }
}

/// Filters the rows of a plan by conjuncts; those with subqueries are evaluated last.
fn filter_by(plan: Plan, conjuncts: Vec<Conjunct>) -> Plan {
    let (plain, with_subqueries): (Vec<_>, Vec<_>) =
        conjuncts.into_iter().partition(|own| own.applied.is_empty());
    let plan = filter(plan, all(plain.into_iter().map(|own| own.condition)));
    with_subqueries.into_iter().fold(plan, |plan, own| apply_all(own.applied, plan).filter(own.condition))
}

/// Removes the conjuncts that fulfil a condition, and returns them.
fn take(conjuncts: &mut Vec<Conjunct>, is_wanted: impl Fn(&Conjunct) -> bool) -> Vec<Conjunct> {
    let (taken, left) = std::mem::take(conjuncts).into_iter().partition(|own| is_wanted(own));
    *conjuncts = left;
    taken
}

impl Conjunct {
    /// Returns the conjunct as a key of a hash join between `placed` relations (probe) and `new` ones
    /// (build); `None` if it is no such equality.
    fn as_key(&self, placed: Relations, new: Relations) -> Option<JoinKey> {
        let Comparison { operator, class, operands, sides, .. } = self.comparison.as_ref()?;
        if *operator != CompareOperator::Equal || !self.applied.is_empty() {
            return None;
        }
        let [a, b] = [sides[0].1.own, sides[1].1.own];
        let within = |side: Relations, of: Relations| side != 0 && side & !of == 0;
        let [left, right] = (**operands).clone();
        if within(a, placed) && within(b, new) && !sides[1].1.outer {
            return Some(JoinKey { class: *class, probe: left, build: right });
        }
        if within(b, placed) && within(a, new) && !sides[0].1.outer {
            let class = match *class {
                CompareClass::Decimal { left_scale, right_scale } => {
                    CompareClass::Decimal { left_scale: right_scale, right_scale: left_scale }
                }
                class => class,
            };
            return Some(JoinKey { class, probe: right, build: left });
        }
        None
    }
}

impl Binder<'_> {
    /// Binds a condition, as conjuncts.
    pub(super) fn bind_conjuncts(
        &mut self,
        condition: ast::Expr,
        conjuncts: &mut Vec<Conjunct>,
    ) -> Result<(), StatementError> {
        let mut parts = Vec::new();
        split(condition, &mut parts);
        for part in parts {
            match &part {
                ast::Expr::BinExpr(binary) => {
                    let operator = binary.op().and_then(|operator| comparison_operator(&operator));
                    if let (Some(operator), Some(left), Some(right)) = (operator, binary.lhs(), binary.rhs())
                        && !is_any(&right)
                        && !is_row(&left)
                    {
                        conjuncts.push(self.bind_comparison(operator, &left, &right, part.syntax())?);
                        continue;
                    }
                }
                ast::Expr::BetweenExpr(between)
                    if between.not_token().is_none() && between.between_symmetry().is_none() =>
                {
                    self.check_between(between)?;
                    if let (Some(value), Some(start), Some(end)) =
                        (between.target(), between.start(), between.end())
                    {
                        for (operator, end) in
                            [(CompareOperator::GreaterOrEqual, start), (CompareOperator::LessOrEqual, end)]
                        {
                            conjuncts.push(self.bind_comparison(operator, &value, &end, part.syntax())?);
                        }
                        continue;
                    }
                }
                _ => {}
            }
            let bind = |binder: &mut Self| binder.bind_condition(&part);
            let ((condition, applied), refers) = self.referring(|binder| binder.applying(bind))?;
            conjuncts.push(Conjunct { condition, applied, refers, comparison: None });
        }
        Ok(())
    }

    fn bind_comparison(
        &mut self,
        operator: CompareOperator,
        left: &ast::Expr,
        right: &ast::Expr,
        node: &SyntaxNode,
    ) -> Result<Conjunct, StatementError> {
        let ((a, mut applied), a_refers) = self.referring(|own| own.applying(|binder| binder.bind(left)))?;
        let ((b, mut more_applied), b_refers) =
            self.referring(|own| own.applying(|binder| binder.bind(right)))?;
        let mut conjunct = self.compared(operator, (a, a_refers), (b, b_refers), node)?;
        applied.append(&mut more_applied);
        conjunct.applied = applied;
        Ok(conjunct)
    }

    /// Returns a comparison of two values as a conjunct.
    pub(super) fn compared(
        &mut self,
        operator: CompareOperator,
        (a, a_refers): (Typed, References),
        (b, b_refers): (Typed, References),
        node: &SyntaxNode,
    ) -> Result<Conjunct, StatementError> {
        let condition = self.comparison(operator, a.clone(), b.clone(), node)?;
        let Typed::Known(condition, _) = condition else { unreachable!("a comparison has a type") };
        let refers = References { own: a_refers.own | b_refers.own, outer: a_refers.outer || b_refers.outer };
        let comparison = match &condition {
            Expression::Compare { class, operands, .. } => Some(Comparison {
                operator,
                class: *class,
                operands: operands.clone(),
                sides: [(a, a_refers), (b, b_refers)],
                node: node.clone(),
            }),
            _ => None,
        };
        Ok(Conjunct { condition, applied: Vec::new(), refers, comparison })
    }

    /// Returns the conjuncts that compare a column of a table with a value of the `available` relations.
    fn candidates(
        &self,
        relation: usize,
        available: Relations,
        conjuncts: &[Conjunct],
    ) -> Result<Vec<Candidate>, StatementError> {
        let Rows::Table { table, .. } =
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
            let pairs = [(left, right, comparison.operator), (right, left, mirrored(comparison.operator))];
            for ((column, _), (value, refers), operator) in pairs {
                let Typed::Known(column, _) = column else { continue };
                let Some((own, column)) = self.table_column(column) else { continue };
                if own != relation || refers.own & !available != 0 {
                    continue;
                }
                let ty = table.columns[column].ty;
                if let Some(value) = self.key_value(value.clone(), ty, operator, &comparison.node)? {
                    candidates.push(Candidate { column, operator, value, conjunct: place });
                    break;
                }
            }
        }
        Ok(candidates)
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
        let (path, used, ordered) = choose_path(&table, &candidates, wanted);
        Ok(Some(Way { path, used, ordered }))
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
        let Rows::Table { table, registers, used, handle } = &level.relations[relation].rows else {
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
                return Ok((self.combine(before, (plan, own, false), placed, conjuncts), false));
            }
        };
        if let Some(way) = self.way_to(place, placed, &conjuncts, wanted)? {
            return self.join_table(before, (place, way), placed, conjuncts);
        }
        let (plan, lateral, outer) = self.take_plan(place);
        if lateral != 0 {
            let inside = filter_by(plan, conjuncts);
            let inner_registers = Vec::new();
            let outer = Box::new(before.unwrap_or(Plan::One));
            let (inner, kind, condition) = (Box::new(inside), JoinKind::Inner, None);
            return Ok((Plan::Loop { outer, inner, kind, condition, inner_registers }, false));
        }
        let inside = take(&mut conjuncts, |conjunct| conjunct.refers.own & !own == 0);
        let outer = outer || inside.iter().any(|conjunct| conjunct.refers.outer);
        let plan = filter_by(plan, inside);
        Ok((self.combine(before, (plan, own, outer), placed, conjuncts), false))
    }

    fn take_plan(&mut self, relation: usize) -> (Plan, Relations, bool) {
        match &mut self.level().relations[relation].rows {
            Rows::Plan { plan, lateral, outer, .. } => (*plan.take().unwrap_or_default(), *lateral, *outer),
            _ => (Plan::One, 0, false),
        }
    }

    fn join_table(
        &mut self,
        before: Option<Plan>,
        (place, way): (usize, Way),
        placed: Relations,
        conjuncts: Vec<Conjunct>,
    ) -> Result<(Plan, bool), StatementError> {
        let own: Relations = 1 << place;
        let needs_placed = way.used.iter().any(|used| conjuncts[*used].refers.own & !own != 0);
        let mut ahead = Vec::new();
        let mut left = Vec::new();
        for (number, mut conjunct) in conjuncts.into_iter().enumerate() {
            if way.used.contains(&number) {
                // The values of the path are evaluated before the table is read.
                ahead.append(&mut conjunct.applied);
            } else {
                left.push(conjunct);
            }
        }
        if before.is_none() || needs_placed || !ahead.is_empty() {
            let plain = take(&mut left, |conjunct| conjunct.applied.is_empty());
            let scan = self.scan(place, way.path, all(plain.into_iter().map(|own| own.condition)));
            let inner = filter_by(scan, left);
            let outer = match before {
                None if ahead.is_empty() => return Ok((inner, way.ordered)),
                None => Plan::One,
                Some(plan) => plan,
            };
            let outer = Box::new(apply_all(ahead, outer));
            let (inner, kind, condition) = (Box::new(inner), JoinKind::Inner, None);
            return Ok((
                Plan::Loop { outer, inner, kind, condition, inner_registers: Vec::new() },
                way.ordered,
            ));
        }
        let mut inside = take(&mut left, |conjunct| conjunct.refers.own & !own == 0);
        let outer = inside.iter().any(|conjunct| conjunct.refers.outer) || self.is_by_outer(&way);
        let plain = take(&mut inside, |conjunct| conjunct.applied.is_empty());
        let scan = self.scan(place, way.path, all(plain.into_iter().map(|own| own.condition)));
        let plan = filter_by(scan, inside);
        Ok((self.combine(before, (plan, own, outer), placed, left), false))
    }

    /// Returns whether a path may depend on a row of the outer query. Its rows must then not be kept from one
    /// row of the outer query to the next.
    fn is_by_outer(&self, way: &Way) -> bool {
        !way.used.is_empty() && self.queries.levels.len() > 1
    }

    /// Joins the rows of a plan with those of a plan that does not depend on them.
    fn combine(
        &mut self,
        before: Option<Plan>,
        (plan, own, outer): (Plan, Relations, bool),
        placed: Relations,
        conjuncts: Vec<Conjunct>,
    ) -> Plan {
        let Some(before) = before else { return filter_by(plan, conjuncts) };
        let mut keys = Vec::new();
        let mut remaining = Vec::new();
        for conjunct in conjuncts {
            match conjunct.as_key(placed, own) {
                Some(key) => keys.push(key),
                None => remaining.push(conjunct),
            }
        }
        let (before, build_registers) = (Box::new(before), self.set_registers(own));
        let joined = if keys.is_empty() {
            let inner = Box::new(self.keep(plan, own, outer));
            let (kind, inner_registers) = (JoinKind::Inner, build_registers);
            Plan::Loop { outer: before, inner, kind, condition: None, inner_registers }
        } else {
            Plan::Hash {
                probe: before,
                build: Box::new(plan),
                keys,
                kind: JoinKind::Inner,
                condition: None,
                probe_registers: Vec::new(),
                build_registers,
            }
        };
        filter_by(joined, remaining)
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
                let (inner, _) = self.join_table(None, (*place, way), left_relations, right_conjuncts)?;
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
        let is_outer = right_conjuncts.iter().any(|own| own.refers.outer) || is_lateral;
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
        let plan = Plan::Hash {
            probe: Box::new(outer),
            build: Box::new(inner),
            keys,
            kind,
            condition: all(remaining.into_iter().map(|own| own.condition)),
            probe_registers: self.set_registers(left_relations),
            build_registers: inner_registers,
        };
        Ok((plan, both))
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

fn is_row(expression: &ast::Expr) -> bool {
    matches!(expression, ast::Expr::TupleExpr(_))
}
