//! Lowers a statement that writes one row by its key and fires triggers to operations and calls. So the
//! analysis supports procedures with such statements, and their calls are logged as commands.

use super::function::set_by;
use crate::binder::Binder;
use crate::source::mentions;
use catalog::Table;
use procedure::query::{Delete, Insert, Plan, RowRules, Triggers, Update};
use procedure::{Access, Cast, Expression, OperationKind, Path, Register, Select, Statement};
use squawk_syntax::SyntaxNode;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A call of a trigger's function.
struct Fired {
    call: Statement,
    /// The register that a BEFORE ROW trigger sets to whether the statement writes the row; `None` for any
    /// other trigger.
    is_written: Option<Register>,
}

/// INSERT, UPDATE or DELETE of one row, with its triggers. The fields are in the order of execution.
pub(crate) struct Triggered {
    before_statement: Vec<Fired>,
    /// Finds the row, and sets the registers of the old row and of the new row; `None` for INSERT.
    find: Option<OperationKind>,
    /// Sets the registers of an inserted row.
    set: Vec<Statement>,
    before_row: Vec<Fired>,
    /// Sets the registers of generated columns.
    generate: Vec<Statement>,
    write: OperationKind,
    after_row: Vec<Fired>,
    after_statement: Vec<Fired>,
}

/// Returns the calls of which a plan consists; `None` if one of them is logged by value.
fn calls_of(plan: &Plan) -> Option<Vec<Fired>> {
    let (call, is_written) = match plan {
        Plan::One => return Some(Vec::new()),
        Plan::Filter { input, condition } => (&**input, Binder::register_of(condition)),
        call => (call, None),
    };
    let Plan::Call { input, procedure, arguments, outputs } = call else { return None };
    if procedure.by_value.is_some() {
        return None;
    }
    let mut calls = calls_of(input)?;
    let outputs = outputs.iter().map(|register| (*register, Cast::Same)).collect();
    let (procedure, arguments) = (Arc::clone(procedure), arguments.clone());
    calls.push(Fired { call: Statement::Call { procedure, arguments, outputs }, is_written });
    Some(calls)
}

fn at(first: Register, column: usize) -> Register {
    Register(first.0 + column as u32)
}

/// Returns the columns that BEFORE ROW triggers may change: the columns whose parameters the functions set.
fn changed_by(triggers: &[Fired], table: &Table) -> BTreeSet<usize> {
    let functions = triggers.iter().filter_map(|trigger| match &trigger.call {
        Statement::Call { procedure, .. } => Some(procedure),
        _ => None,
    });
    functions.flat_map(|function| set_by(function)).filter(|column| *column < table.visible().len()).collect()
}

impl Triggered {
    fn of(triggers: &Triggers, write: OperationKind) -> Option<Self> {
        Some(Self {
            before_statement: calls_of(&triggers.before_statement)?,
            find: None,
            set: Vec::new(),
            before_row: calls_of(&triggers.before_row)?,
            generate: Vec::new(),
            write,
            after_row: calls_of(&triggers.after_row)?,
            after_statement: calls_of(&triggers.after_statement)?,
        })
    }

    /// Returns its operations.
    pub(crate) fn kinds(&mut self) -> impl Iterator<Item = &mut OperationKind> {
        self.find.iter_mut().chain([&mut self.write])
    }

    /// Returns its statements. The binder adds their operations.
    pub(crate) fn statements(self, binder: &mut Binder<'_>, node: &SyntaxNode) -> Vec<Statement> {
        let found = binder.found();
        let plain = |calls: Vec<Fired>| calls.into_iter().map(|trigger| trigger.call);
        let mut written = self.generate;
        written.push(Statement::Execute(binder.operation(self.write, node)));
        written.extend(plain(self.after_row));
        for Fired { call, is_written } in self.before_row.into_iter().rev() {
            written = match is_written {
                Some(register) => {
                    let condition = Expression::Register(register);
                    vec![call, Statement::If { condition, then: written, otherwise: Vec::new() }]
                }
                None => [vec![call], written].concat(),
            };
        }
        let mut row = self.set;
        row.push(Statement::Assign { target: found, value: Expression::boolean(false) });
        row.append(&mut written);
        let mut statements: Vec<Statement> = plain(self.before_statement).collect();
        match self.find {
            Some(find) => {
                statements.push(Statement::Execute(binder.operation(find, node)));
                let condition = Expression::Register(found);
                statements.push(Statement::If { condition, then: row, otherwise: Vec::new() });
            }
            None => statements.append(&mut row),
        }
        statements.extend(plain(self.after_statement));
        statements
    }
}

impl Binder<'_> {
    /// Returns whether triggers of a statement may become calls of the current routine. If it uses ROW_COUNT,
    /// they may not, because the rows that the triggers write would count.
    fn may_lower_triggers(&self, node: &SyntaxNode) -> bool {
        self.body.is_some() && self.lifted.is_some() && !mentions(node, "row_count")
    }

    /// Lowers an INSERT of one row whose values are expressions over registers. Returns `None` if its
    /// triggers cannot become calls.
    pub(crate) fn lower_triggered_insert(
        &mut self,
        insert: &Insert,
        values: Vec<Expression>,
        mut write: OperationKind,
        node: &SyntaxNode,
    ) -> Option<Triggered> {
        let Insert { table, registers, rules, triggers, .. } = insert;
        let triggers = triggers.as_deref().filter(|_| self.may_lower_triggers(node))?;
        let window = self.row_registers(table);
        if let OperationKind::Insert { values, registers: target, checks, .. } = &mut write {
            *values = (0..table.columns.len()).map(|c| Expression::Register(at(*registers, c))).collect();
            *target = window;
            checks.iter_mut().for_each(|check| move_row(&mut check.condition, table, *registers, window));
        }
        let assign = |(column, value)| Statement::Assign { target: at(*registers, column), value };
        let set = values.into_iter().enumerate().map(assign).collect();
        let generate = generating(rules, *registers);
        Some(Triggered { set, generate, ..Triggered::of(triggers, write)? })
    }

    /// Lowers an UPDATE of one row by its key; `None` for any other UPDATE.
    pub(crate) fn lower_triggered_update(&mut self, update: &Update, node: &SyntaxNode) -> Option<Triggered> {
        let Update { input, table, registers, triggers, rules, assignments, .. } = update;
        let triggers = triggers.as_deref().filter(|_| self.may_lower_triggers(node))?;
        let access = by_key(input)?;
        let before = calls_of(&triggers.before_row)?;
        let mut changed: BTreeSet<usize> = assignments.iter().map(|(column, _)| *column).collect();
        changed.extend(changed_by(&before, table));
        let window = self.row_registers(table);
        changed.extend(rules.generated.iter().map(|(column, _)| *column));
        let mut plain_rules = RowRules { generated: Vec::new(), ..rules.clone() };
        plain_rules
            .conditions
            .iter_mut()
            .for_each(|check| move_row(&mut check.condition, table, *registers, window));
        let new = |column: usize| (column, Expression::Register(at(*registers, column)));
        let plain = Update {
            input: Box::new(scan_of(access.clone())),
            assignments: changed.into_iter().map(new).collect(),
            registers: window,
            rules: plain_rules,
            triggers: None,
            ..update.clone()
        };
        let write = self.lower_update(&plain, &[], &mut Vec::new())?;
        let mut find = access.clone();
        let first = find.registers;
        let outputs = (0..table.columns.len()).flat_map(|column| {
            let old = Expression::Register(at(first, position_of(&mut find, column)));
            let assigned = assignments.iter().find(|(assigned, _)| *assigned == column);
            let is_generated = rules.generated.iter().any(|(generated, _)| *generated == column);
            let new = match assigned {
                _ if is_generated => Expression::NULL,
                Some((_, value)) => value.clone(),
                None => old.clone(),
            };
            [(at(triggers.old, column), old), (at(triggers.new, column), new)]
        });
        let outputs: Vec<_> = outputs.collect();
        let find = Some(OperationKind::Select(select_of(find, outputs)));
        let generate = generating(rules, *registers);
        Some(Triggered { find, generate, ..Triggered::of(triggers, write)? })
    }

    /// Lowers a DELETE of one row by its key; `None` for any other DELETE.
    pub(crate) fn lower_triggered_delete(&mut self, delete: &Delete, node: &SyntaxNode) -> Option<Triggered> {
        let Delete { input, table, triggers, .. } = delete;
        let triggers = triggers.as_deref().filter(|_| self.may_lower_triggers(node))?;
        let access = by_key(input)?;
        let plain = Delete { input: Box::new(scan_of(access.clone())), triggers: None, ..delete.clone() };
        let write = self.lower_delete(&plain)?;
        let mut find = access.clone();
        let first = find.registers;
        let old = |column| {
            let position = position_of(&mut find, column);
            (at(triggers.old, column), Expression::Register(at(first, position)))
        };
        let outputs: Vec<_> = (0..table.columns.len()).map(old).collect();
        let find = Some(OperationKind::Select(select_of(find, outputs)));
        Some(Triggered { find, ..Triggered::of(triggers, write)? })
    }
}

/// Returns the statements that set the registers of generated columns.
fn generating(rules: &RowRules, first: Register) -> Vec<Statement> {
    let set = |(column, value): &(usize, Expression)| Statement::Assign {
        target: at(first, *column),
        value: value.clone(),
    };
    rules.generated.iter().map(set).collect()
}

/// Returns the access of a scan of one row by its key; `None` for any other plan.
fn by_key(input: &Plan) -> Option<&Access> {
    match input {
        Plan::Scan { access, .. } if matches!(access.path, Path::Point { .. }) => Some(access),
        _ => None,
    }
}

/// Returns a scan without its filter, to find a row again that has satisfied the filter.
fn scan_of(mut access: Access) -> Plan {
    access.filter = None;
    Plan::Scan { access, handle: None }
}

/// Returns the position of a column among those that an access reads. Adds the column if it is missing.
fn position_of(access: &mut Access, column: usize) -> usize {
    access.columns.iter().position(|known| *known == column).unwrap_or_else(|| {
        access.columns.push(column);
        access.slots.push(access.table.layout.slots()[column]);
        access.columns.len() - 1
    })
}

fn select_of(access: Access, outputs: Vec<(Register, Expression)>) -> Select {
    let (aggregates, order) = (Vec::new(), Vec::new());
    Select { access, aggregates, outputs, distinct: false, order, offset: None, limit: None, strict: false }
}

/// Replaces the registers of a row in an expression by those of another row.
fn move_row(expression: &mut Expression, table: &Table, from: Register, to: Register) {
    expression.visit_registers(&mut |_, register| {
        let column = register.0.wrapping_sub(from.0);
        if (column as usize) < table.columns.len() {
            register.0 = to.0 + column;
        }
    });
}
