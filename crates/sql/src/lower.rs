//! Lowers plans: a plan that reads or writes the rows of one table becomes operations, which the analysis
//! supports. All other plans stay queries.
//!
//! Invariant: operations have the rows, errors and effects of their plan. Held by: the comparisons with
//! PostgreSQL (`crates/workload/tests/suite/postgresql.rs`), whose procedures run them.
//!
//! Not here: names, types and paths (`plan`).

use crate::binder::{Binder, Typed};
use crate::plan::Bound;
use crate::query::{BoundRows, Work};
use crate::source::mentions;
use crate::trigger::Triggered;
use catalog::{Deferral, ForeignKey, Index, Table, Type};
use procedure::query::{Delete, HeldRows, Insert, JoinKind, Plan, RowRules, Update};
use procedure::{
    Access, Aggregate, AggregateFunction, Cast, Choice, Expression, Function, OperationKind, Path, Register,
    Select, Statement, added_columns,
};
use squawk_syntax::SyntaxNode;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Returns whether an operation cannot check new rows of a table: it references itself, or whether a
/// deferrable constraint is checked there depends on the transaction.
fn is_checked_apart(table: &Table) -> bool {
    let is_apart = |key: &ForeignKey| key.parent == table.name || key.deferral != Deferral::Never;
    table.foreign_keys.iter().any(is_apart) || table.indexes.iter().any(Index::is_deferrable)
}

/// Values of registers.
type Values = Vec<(Register, Expression)>;

/// Operations that have the effects and rows of a plan.
struct Lowered {
    /// Calls of functions before them.
    calls: Vec<Statement>,
    work: Work,
    /// The values that the plan computes of its rows.
    values: Values,
}

impl Lowered {
    fn triggered(calls: Vec<Statement>, triggered: Triggered) -> Self {
        Self { calls, work: Work::Triggered(Box::new(triggered)), values: Vec::new() }
    }
}

/// Returns the values that a plan computes, and the plan below.
fn computed(plan: &Plan) -> (&[(Register, Expression)], &Plan) {
    match plan {
        Plan::Compute { input, values } => (values, input),
        plan => (&[], plan),
    }
}

/// Replaces registers by their values.
fn replace(expression: &mut Expression, values: &[(Register, Expression)]) {
    if let Expression::Register(register) = expression {
        if let Some((_, value)) = values.iter().find(|(target, _)| target == register) {
            *expression = value.clone();
        }
        return;
    }
    expression.operands_mut().into_iter().for_each(|operand| replace(operand, values));
}

fn replaced(expressions: &[Expression], values: &[(Register, Expression)]) -> Vec<Expression> {
    let mut replaced = expressions.to_vec();
    replaced.iter_mut().for_each(|expression| replace(expression, values));
    replaced
}

/// Returns whether an expression may have another value each time.
pub(crate) fn varies(expression: &Expression) -> bool {
    let mut varies = false;
    expression.walk(&mut |part| {
        varies |= matches!(part, Expression::Function { function: Function::Next(_), .. });
    });
    varies
}

/// Returns whether an expression may be evaluated several times: it has one value, and no effect.
fn is_repeatable(expression: &Expression) -> bool {
    use Function::{CurrentNumber, LastNumber, Live, Next, NextNumber, SetNumber};
    let mut is_repeatable = true;
    expression.walk(&mut |part| {
        if let Expression::Function { function, .. } = part {
            is_repeatable &= !matches!(
                function,
                Live(_) | Next(_) | NextNumber(_) | SetNumber(_) | CurrentNumber(_) | LastNumber
            );
        }
    });
    is_repeatable
}

/// Replaces, in the values of generated columns, the registers of a row by its values. Returns the values
/// with their columns; `None` if one of a row's values would have to be evaluated twice and may not be.
fn generated_of(
    rules: &RowRules,
    first: Register,
    value_of: impl Fn(usize) -> Option<Expression>,
) -> Option<Vec<(usize, Expression)>> {
    let generated = rules.generated.iter().map(|(column, value)| {
        let mut row: Values = Vec::new();
        let mut is_repeatable = true;
        value.walk(&mut |part| {
            let Some(register) = Binder::register_of(part) else { return };
            let position = register.0.checked_sub(first.0).map(|position| position as usize);
            if let Some(value) = position.and_then(&value_of) {
                is_repeatable &= self::is_repeatable(&value);
                row.push((register, value));
            }
        });
        let mut value = value.clone();
        replace(&mut value, &row);
        is_repeatable.then_some((*column, value))
    });
    generated.collect()
}

fn is_supported(aggregate: &Aggregate) -> bool {
    use AggregateFunction as F;
    let is_known = matches!(
        aggregate.function,
        F::Count
            | F::Min
            | F::Max
            | F::SumInt
            | F::SumDouble
            | F::SumReal
            | F::SumDecimal
            | F::AverageDouble
            | F::AverageDecimal
    );
    is_known && aggregate.filter.is_none() && aggregate.order.is_empty()
}

/// Returns a plan that reads one table as an operation without outputs, and the values that it computes;
/// `None` for any other plan.
fn reading(plan: &Plan, columns: &BTreeSet<Register>) -> Option<(Select, Values)> {
    let (mut plan, mut offset, mut limit) = (plan, None, None);
    if let Plan::Limit { input, offset: skipped, limit: most, ties } = plan {
        if !ties.is_empty() {
            return None;
        }
        (plan, offset, limit) = (input, skipped.clone(), most.clone());
    }
    // FOR UPDATE needs no operation: if another transaction writes a row of the read set, it waits for this
    // transaction or makes it fail.
    if let Plan::Hold { input, held: HeldRows::Wait, .. } = plan {
        plan = input;
    }
    let mut order = Vec::new();
    if let Plan::Sort { input, keys, .. } = plan {
        (plan, order) = (input, keys.clone());
    }
    let mut distinct = false;
    if let Plan::Distinct { input, values } = plan {
        // DISTINCT ON may compare other values than those of the row.
        let compared: BTreeSet<Register> = values.iter().filter_map(Binder::register_of).collect();
        if compared != *columns || !order.is_empty() {
            return None;
        }
        (plan, distinct) = (input, true);
    }
    let (values, mut plan) = computed(plan);
    let mut aggregates = Vec::new();
    if let Plan::Group { input, keys, aggregates: grouped, sets, .. } = plan {
        if !keys.is_empty() || grouped.is_empty() || !sets.is_empty() || !grouped.iter().all(is_supported) {
            return None;
        }
        // There is one row, in any order.
        order.clear();
        (plan, aggregates) = (input, grouped.clone());
    }
    let Plan::Scan { access, .. } = plan else { return None };
    for key in &mut order {
        // A volatile key would be evaluated a second time.
        if values.iter().any(|(target, value)| key.value == Expression::Register(*target) && varies(value)) {
            return None;
        }
        replace(&mut key.value, values);
    }
    let (access, outputs) = (access.clone(), Vec::new());
    let select = Select { access, aggregates, outputs, distinct, order, offset, limit, strict: false };
    Some((select, values.to_vec()))
}

/// Returns the access of an operation, and the expressions that are evaluated after a row is read, without
/// its filter.
fn access_of(kind: &mut OperationKind) -> Option<(&mut Access, Vec<&mut Expression>)> {
    match kind {
        OperationKind::Select(select) => {
            let Select { access, aggregates, outputs, order, .. } = select;
            let aggregated = aggregates.iter_mut().flat_map(|aggregate| &mut aggregate.argument);
            let outputs = outputs.iter_mut().map(|(_, value)| value);
            let keys = order.iter_mut().map(|key| &mut key.value);
            Some((access, aggregated.chain(outputs).chain(keys).collect()))
        }
        OperationKind::Update { access, assignments, checks, .. } => {
            let values = assignments.iter_mut().map(|(.., value)| value);
            let checks = checks.iter_mut().map(|check| &mut check.condition);
            Some((access, values.chain(checks).collect()))
        }
        OperationKind::Delete { access, .. } => Some((access, Vec::new())),
        OperationKind::Insert { .. } => None,
    }
}

/// Reads only the columns that expressions use, into consecutive registers.
fn keep_used(access: &mut Access, expressions: &mut [&mut Expression]) {
    let Access { columns, slots, registers, filter, .. } = access;
    let (base, end) = (registers.0, registers.0 + columns.len() as u32);
    let mut used = BTreeSet::new();
    for expression in expressions.iter_mut().map(|expression| &mut **expression).chain(&mut *filter) {
        expression.visit_registers(&mut |_, register| {
            used.extend((base..end).contains(&register.0).then(|| register.0 - base));
        });
    }
    let used: Vec<u32> = used.into_iter().collect();
    for expression in expressions.iter_mut().map(|expression| &mut **expression).chain(&mut *filter) {
        expression.visit_registers(&mut |_, register| {
            if let Ok(position) = used.binary_search(&register.0.wrapping_sub(base)) {
                register.0 = base + position as u32;
            }
        });
    }
    *columns = used.iter().map(|position| columns[*position as usize]).collect();
    *slots = used.iter().map(|position| slots[*position as usize]).collect();
}

/// Returns the column of a row that an expression is.
fn column_of(expression: &Expression, access: &Access) -> Option<usize> {
    let Expression::Register(register) = expression else { return None };
    let position = register.0.checked_sub(access.registers.0)? as usize;
    access.columns.get(position).copied()
}

impl Binder<'_> {
    /// Returns a bound plan as operations; `None` if it must stay a query. `first` is the first register that
    /// only the plan uses.
    pub(crate) fn lower(&mut self, bound: &Bound, first: usize, node: &SyntaxNode) -> Option<BoundRows> {
        let registers: Vec<Register> = bound.columns.iter().map(|column| column.register).collect();
        let (values, below) = computed(&bound.plan);
        let mut replacements = Vec::new();
        let lowered = match below {
            Plan::Insert(insert) => self.lower_insert(insert, &registers, values, node)?,
            Plan::Update(update) if update.triggers.is_some() && registers.is_empty() => {
                Lowered::triggered(Vec::new(), self.lower_triggered_update(update, node)?)
            }
            Plan::Delete(delete) if delete.triggers.is_some() && registers.is_empty() => {
                Lowered::triggered(Vec::new(), self.lower_triggered_delete(delete, node)?)
            }
            Plan::Update(update) => {
                let work = Work::Operation(self.lower_update(update, values, &mut replacements)?);
                Lowered { calls: Vec::new(), work, values: values.to_vec() }
            }
            Plan::Delete(delete) => {
                let work = Work::Operation(self.lower_delete(delete)?);
                Lowered { calls: Vec::new(), work, values: values.to_vec() }
            }
            below => match self.calls_of(below) {
                // Only a query sets ROW_COUNT.
                Some(_) if mentions(node, "row_count") => return None,
                Some(calls) => Lowered { calls, work: Work::Values, values: values.to_vec() },
                None => {
                    let (select, values) = reading(&bound.plan, &registers.iter().copied().collect())?;
                    Lowered {
                        calls: Vec::new(),
                        work: Work::Operation(OperationKind::Select(select)),
                        values,
                    }
                }
            },
        };
        let Lowered { mut calls, mut work, values } = lowered;
        let mut items = Vec::new();
        for (position, column) in bound.columns.iter().enumerate() {
            let mut value = Expression::Register(column.register);
            replace(&mut value, &values);
            replace(&mut value, &replacements);
            let typed = bound.literals.get(&position).cloned().unwrap_or(Typed::Known(value, column.ty));
            let item_node = bound.nodes.get(position).unwrap_or(node);
            items.push((column.name.clone(), typed, item_node.clone()));
        }
        self.finish_operations(&mut work, &mut items);
        if !matches!(work, Work::Triggered(_)) {
            self.compact(first, &mut calls, &mut work, &mut items);
        }
        if let Some(lifted) = &mut self.lifted {
            lifted.append(&mut calls);
        }
        Some(BoundRows { items, work })
    }

    /// Returns the calls of a plan that has one row and does nothing but call; `None` for any other plan.
    fn calls_of(&self, plan: &Plan) -> Option<Vec<Statement>> {
        match plan {
            Plan::One => Some(Vec::new()),
            Plan::Call { input, procedure, arguments, outputs } if self.lifted.is_some() => {
                let mut calls = self.calls_of(input)?;
                let outputs = outputs.iter().map(|target| (*target, Cast::Same)).collect();
                let procedure = Arc::clone(procedure);
                calls.push(Statement::Call { procedure, arguments: arguments.clone(), outputs });
                Some(calls)
            }
            _ => None,
        }
    }

    fn lower_insert(
        &mut self,
        insert: &Insert,
        columns: &[Register],
        returned: &[(Register, Expression)],
        node: &SyntaxNode,
    ) -> Option<Lowered> {
        let Insert { input, table, values, registers, rules, conflict, triggers, .. } = insert;
        if conflict.is_some() || is_checked_apart(table) || rules.calls.is_some() {
            return None;
        }
        let references = self.schema.foreign_keys().map(|keys| keys.references_of(table.id).to_vec());
        let kind = |values: Vec<Expression>| OperationKind::Insert {
            table: Arc::clone(table),
            values,
            registers: *registers,
            checks: rules.conditions.clone(),
            references: references.clone().unwrap_or_default(),
            returning: Vec::new(),
        };
        let complete = |mut values: Vec<Expression>| {
            for (column, value) in generated_of(rules, *registers, |column| values.get(column).cloned())? {
                values[column] = value;
            }
            Some(values)
        };
        let (computed_values, below) = computed(input);
        if let Some(calls) = self.calls_of(below) {
            let values = replaced(values, computed_values);
            if triggers.is_some() && columns.is_empty() {
                let write = kind(values.clone());
                return Some(Lowered::triggered(
                    calls,
                    self.lower_triggered_insert(insert, values, write, node)?,
                ));
            }
            let work = Work::Operation(kind(complete(values)?));
            return triggers.is_none().then(|| Lowered { calls, work, values: returned.to_vec() });
        }
        if !columns.is_empty() || triggers.is_some() {
            return None;
        }
        let (calls, rows) = match below {
            Plan::Loop { outer, inner, kind: JoinKind::Inner, condition: None, .. } => {
                (self.calls_of(outer)?, &**inner)
            }
            rows => (Vec::new(), rows),
        };
        if let (Plan::Values { registers: given, rows }, []) = (rows, computed_values) {
            let row = |row: &Vec<Expression>| {
                let of_row: Values = given.iter().copied().zip(row.iter().cloned()).collect();
                let (window, first) = (self.row_registers(table), *registers);
                let mut kind = kind(complete(replaced(values, &of_row))?);
                kind.visit_registers(&mut |_, register| {
                    let column = register.0.wrapping_sub(first.0);
                    if (column as usize) < table.columns.len() {
                        register.0 = window.0 + column;
                    }
                });
                Some(kind)
            };
            let work = Work::Inserts(rows.iter().map(row).collect::<Option<_>>()?);
            return Some(Lowered { calls, work, values: Vec::new() });
        }
        let (select, values) = self.lower_source(input, values)?;
        let work = Work::Repeat(Box::new([OperationKind::Select(select), kind(complete(values)?)]));
        Some(Lowered { calls, work, values: Vec::new() })
    }

    /// Returns the rows of an INSERT … SELECT, and the values of the new row. Registers of the
    /// loop keep the source's columns that they use.
    fn lower_source(&mut self, source: &Plan, values: &[Expression]) -> Option<(Select, Vec<Expression>)> {
        let mut used = BTreeSet::new();
        for value in values {
            value.walk(&mut |part| used.extend(Self::register_of(part)));
        }
        let (mut select, source_values) = reading(source, &used)?;
        let first = select.access.registers.0;
        let window = first..first + select.access.columns.len() as u32;
        let (mut kept, mut values) = (BTreeMap::new(), values.to_vec());
        for value in &mut values {
            value.visit_registers(&mut |_, register| {
                let is_read = window.contains(&register.0)
                    || source_values.iter().any(|(computed, _)| computed == register)
                    || select.aggregates.iter().any(|aggregate| aggregate.target == *register);
                if is_read {
                    let ty = self.registers[register.0 as usize];
                    *register = *kept.entry(*register).or_insert_with(|| self.new_register(ty));
                }
            });
        }
        select.outputs = kept.into_iter().map(|(from, to)| (to, Expression::Register(from))).collect();
        select.outputs.iter_mut().for_each(|(_, value)| replace(value, &source_values));
        Some((select, values))
    }

    /// Returns an UPDATE as an operation. Checks and RETURNING read unchanged columns from the old row;
    /// `replacements` takes the registers of RETURNING.
    pub(crate) fn lower_update(
        &self,
        update: &Update,
        returned: &[(Register, Expression)],
        replacements: &mut Values,
    ) -> Option<OperationKind> {
        let Update { input, table, registers, rules, keys, triggers, .. } = update;
        let Plan::Scan { access, .. } = &**input else { return None };
        let (mut assignments, mut access) = (update.assignments.clone(), access.clone());
        assignments.retain(|(assigned, _)| rules.generated.iter().all(|(column, _)| assigned != column));
        let given =
            |column: usize| assignments.iter().find(|(own, _)| *own == column).map(|(_, own)| own.clone());
        let generated = generated_of(rules, *registers, given)?;
        assignments.extend(generated.iter().cloned());
        let is_changed = |column: &usize| assignments.iter().any(|(assigned, _)| assigned == column);
        if triggers.is_some()
            || keys.is_some()
            || rules.calls.is_some()
            || table.primary().columns.iter().any(is_changed)
        {
            return None;
        }
        let changed = |register: Register| {
            let column = register.0.checked_sub(registers.0)? as usize;
            (column < table.columns.len()).then(|| (column, is_changed(&column)))
        };
        let mut keep = |expression: &Expression| {
            expression.walk(&mut |part| {
                let Expression::Register(register) = part else { return };
                let Some((column, false)) = changed(*register) else { return };
                let position = access.columns.iter().position(|read| *read == column).unwrap_or_else(|| {
                    access.columns.push(column);
                    access.slots.push(table.layout.slots()[column]);
                    access.columns.len() - 1
                });
                let old = Expression::Register(Register(access.registers.0 + position as u32));
                replacements.push((*register, old));
            });
        };
        let mut needed = Vec::new();
        assignments.iter().for_each(|(_, value)| keep(value));
        for check in &rules.conditions {
            let (mut reads, mut is_touched) = (false, false);
            check.condition.walk(&mut |part| {
                if let Expression::Register(register) = part
                    && let Some((_, touches)) = changed(*register)
                {
                    (reads, is_touched) = (true, is_touched || touches);
                }
            });
            if is_touched || !reads {
                keep(&check.condition);
                needed.push(check.clone());
            }
        }
        returned.iter().for_each(|(_, value)| keep(value));
        needed.iter_mut().for_each(|check| replace(&mut check.condition, replacements));
        let new = |(column, value): &(usize, Expression)| {
            (*column, Register(registers.0 + *column as u32), value.clone())
        };
        assignments.iter_mut().for_each(|(_, value)| replace(value, replacements));
        let assignments = assignments.iter().map(new).collect();
        Some(OperationKind::Update {
            access,
            assignments,
            checks: needed,
            returning: Vec::new(),
            added: Vec::new(),
        })
    }

    pub(crate) fn lower_delete(&self, delete: &Delete) -> Option<OperationKind> {
        let Delete { input, table, triggers, .. } = delete;
        let Plan::Scan { access, .. } = &**input else { return None };
        let is_referenced = self.schema.catalog().references_to(&table.name).next().is_some();
        let kind = OperationKind::Delete { access: access.clone(), returning: Vec::new() };
        (!is_referenced && triggers.is_none()).then_some(kind)
    }

    /// Chooses columns before rows are read, leaves out columns that nothing reads, and finds sums.
    fn finish_operations(&mut self, work: &mut Work, items: &mut [(String, Typed, SyntaxNode)]) {
        let values = items.iter_mut().filter_map(|(_, item, _)| match item {
            Typed::Known(value, _) => Some(value),
            _ => None,
        });
        let mut values: Vec<&mut Expression> = values.collect();
        for kind in work.kinds() {
            if let Some((access, mut expressions)) = access_of(kind) {
                expressions.extend(values.iter_mut().map(|value| &mut **value));
                expressions.iter_mut().for_each(|expression| self.choose(access, expression));
                keep_used(access, &mut expressions);
            }
            if let OperationKind::Update { access, assignments, checks, added, .. } = kind {
                let results = values.iter().map(|value| (Register(0), (**value).clone()));
                *added = added_columns(access, assignments, checks, &results.collect::<Values>());
            }
        }
    }

    /// Turns a CASE of columns, whose conditions do not depend on the row, into a choice of a column.
    fn choose(&mut self, access: &mut Access, expression: &mut Expression) {
        if !matches!(access.path, Path::Point { .. }) {
            return;
        }
        if let Expression::Case { branches, otherwise } = expression {
            let is_of_row = |condition: &Expression| {
                let mut is_of_row = false;
                condition.walk(&mut |part| is_of_row |= column_of(part, access).is_some());
                is_of_row
            };
            let columns: Option<Vec<usize>> =
                branches.iter().map(|(_, value)| column_of(value, access)).collect();
            let last = column_of(otherwise, access);
            if let (Some(columns), Some(otherwise)) = (columns, last)
                && !branches.iter().any(|(condition, _)| is_of_row(condition))
            {
                let ty = access.table.columns[otherwise].ty;
                if columns.iter().all(|column| access.table.columns[*column].ty == ty) {
                    let target = self.new_register(ty);
                    let conditions = branches.drain(..).map(|(condition, _)| condition);
                    let branches = conditions.zip(columns).collect();
                    access.choices.push(Choice { branches, otherwise, target });
                    *expression = Expression::Register(target);
                    return;
                }
            }
        }
        expression.operands_mut().into_iter().for_each(|operand| self.choose(access, operand));
    }

    /// Renumbers the used registers from `first` on, so that their numbers have no gaps.
    fn compact(
        &mut self,
        first: usize,
        calls: &mut [Statement],
        work: &mut Work,
        items: &mut [(String, Typed, SyntaxNode)],
    ) {
        let first = first as u32;
        if self.found.is_some_and(|found| found.0 >= first) {
            return;
        }
        let mut ranges: BTreeMap<u32, u32> = BTreeMap::new();
        for (start, length) in work.kinds().iter().flat_map(|kind| kind.windows()) {
            ranges.insert(start.0, length as u32);
        }
        let windows = ranges.clone();
        let mut visit_all = |visit: &mut dyn FnMut(&mut Register)| {
            for call in &mut *calls {
                if let Statement::Call { arguments, outputs, .. } = call {
                    arguments
                        .iter_mut()
                        .for_each(|argument| argument.visit_registers(&mut |_, register| visit(register)));
                    outputs.iter_mut().for_each(|(target, _)| visit(target));
                }
            }
            work.kinds()
                .into_iter()
                .for_each(|kind| kind.visit_registers(&mut |_, register| visit(register)));
            for (_, item, _) in &mut *items {
                if let Typed::Known(value, _) = item {
                    value.visit_registers(&mut |_, register| visit(register));
                }
            }
        };
        let window_of = |register: u32| {
            windows.range(..=register).next_back().filter(|(start, length)| register < *start + **length)
        };
        visit_all(&mut |register| {
            if register.0 >= first && window_of(register.0).is_none() {
                ranges.insert(register.0, 1);
            }
        });
        let mut types: Vec<Type> = Vec::new();
        let mut positions: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        for (start, length) in ranges {
            positions.insert(start, (length, first + types.len() as u32));
            types.extend_from_slice(&self.registers[start as usize..(start + length) as usize]);
        }
        visit_all(&mut |register| {
            if register.0 >= first
                && let Some((start, (_, to))) = positions.range(..=register.0).next_back()
            {
                register.0 = to + (register.0 - start);
            }
        });
        self.registers.truncate(first as usize);
        self.registers.append(&mut types);
    }
}
