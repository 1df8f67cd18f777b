//! Programs: procedures in the form that the analysis uses. Calls are inlined, each operation belongs to one
//! step, and each value has a register.
//! Source: Muchnick, Advanced Compiler Design, §16.3.3 (webs of definitions and uses).
//!
//! A variable that is assigned for two purposes would make independent statements depend on each other, and
//! FOUND, which every operation sets, would connect all of them. So definitions share a register only if they
//! reach a common use.

use super::draws::replace_draws;
use super::step::Step;
use crate::ir::visit::Role;
use crate::{
    ByValueCause, Cast, Expression, Label, Operation, OperationId, Procedure, Register, Statement, Witnessed,
};
use catalog::ProcedureId;
use petgraph::unionfind::UnionFind;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A procedure ready for analysis.
#[derive(Clone, Debug)]
pub struct Program {
    /// The id of the procedure.
    pub procedure: ProcedureId,
    /// Its name.
    pub name: String,
    /// For each parameter that takes a value, in order, the register of the value; `None` if no statement
    /// uses it.
    pub inputs: Vec<Option<Register>>,
    /// Number of registers.
    pub registers: usize,
    /// Registers that may be used before a statement sets them. Their value is then NULL or an argument.
    pub(super) unset: BTreeSet<Register>,
    /// Whether it must stay in one piece: it draws random numbers where the analysis can't number them.
    pub whole: bool,
    /// Its statements, without calls.
    pub body: Vec<Step>,
    /// Its data accesses, by id; each belongs to one statement.
    pub operations: Vec<Operation>,
    /// For each operation, its id in the procedure; `None` if it comes from a called procedure.
    pub(super) origins: Vec<Option<OperationId>>,
    /// Operations whose results are in the call's record: the position among the procedure's witnesses, and
    /// the registers that take the values.
    pub witnesses: BTreeMap<OperationId, (usize, Vec<Register>)>,
}

/// Inlines calls.
struct Inliner {
    registers: u32,
    labels: u32,
    operations: Vec<Operation>,
    origins: Vec<Option<OperationId>>,
}

/// A procedure whose body is being inlined.
struct Frame<'p> {
    procedure: &'p Procedure,
    /// The program's register for the procedure's first register.
    base: u32,
    /// The program's labels by those of the procedure.
    labels: BTreeMap<Label, Label>,
    /// The block that a RETURN leaves.
    returns_to: Label,
}

impl Inliner {
    fn new_label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }

    /// Returns a procedure's body with new registers, labels and operations, and the first of the registers.
    /// A RETURN leaves the block around the body.
    fn body(&mut self, procedure: &Procedure) -> Result<(u32, Step), ByValueCause> {
        let (base, label) = (self.registers, self.new_label());
        self.registers += procedure.registers.len() as u32;
        let mut frame = Frame { procedure, base, labels: BTreeMap::new(), returns_to: label };
        let body = self.steps(&procedure.body, &mut frame)?;
        Ok((base, Step::Block { label, body }))
    }

    fn steps(&mut self, statements: &[Statement], frame: &mut Frame<'_>) -> Result<Vec<Step>, ByValueCause> {
        let mut steps = Vec::with_capacity(statements.len());
        statements.iter().try_for_each(|statement| self.add(statement, frame, &mut steps))?;
        Ok(steps)
    }

    /// Adds the step of a statement, or the steps of a call.
    fn add(
        &mut self,
        statement: &Statement,
        frame: &mut Frame<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<(), ByValueCause> {
        let mut step = match statement {
            Statement::Assign { target, value } => Step::Assign { target: *target, value: value.clone() },
            Statement::AssignElement { array, index, value } => {
                Step::AssignElement { array: *array, index: index.clone(), value: value.clone() }
            }
            Statement::If { condition, then, otherwise } => Step::If {
                condition: condition.clone(),
                then: self.steps(then, frame)?,
                otherwise: self.steps(otherwise, frame)?,
            },
            Statement::ForRange { label, variable, from, to, step, reverse, ahead: _, body } => {
                Step::ForRange {
                    label: self.label(*label, frame),
                    variable: *variable,
                    from: from.clone(),
                    to: to.clone(),
                    step: step.clone(),
                    reverse: *reverse,
                    body: self.steps(body, frame)?,
                }
            }
            Statement::ForEach { label, variable, array, body } => Step::ForEach {
                label: self.label(*label, frame),
                variable: *variable,
                array: array.clone(),
                body: self.steps(body, frame)?,
            },
            Statement::ForRows { label, operation, body } => Step::ForRows {
                label: self.label(*label, frame),
                operation: self.operation(*operation, frame),
                body: self.steps(body, frame)?,
            },
            Statement::While { label, condition, body } => Step::While {
                label: self.label(*label, frame),
                condition: condition.clone(),
                body: self.steps(body, frame)?,
            },
            Statement::Block { label, body } => {
                Step::Block { label: self.label(*label, frame), body: self.steps(body, frame)? }
            }
            Statement::Exit(label) => Step::Exit(self.label(*label, frame)),
            Statement::Continue(label) => Step::Continue(self.label(*label, frame)),
            Statement::Return => Step::Exit(frame.returns_to),
            Statement::Execute(id) => Step::Execute(self.operation(*id, frame)),
            Statement::Raise(raise) => Step::Raise(raise.clone()),
            Statement::Call { procedure, arguments, outputs } => {
                return self.call(procedure, arguments, outputs, frame, steps);
            }
            Statement::Query(_) | Statement::ForQuery { .. } => return Err(ByValueCause::Query),
            Statement::Guarded(_) | Statement::RaiseAgain => return Err(ByValueCause::Handler),
            Statement::Opaque(opaque) => return Err(opaque.cause()),
        };
        let mut shift = |_: Role, register: &mut Register| register.0 += frame.base;
        step.visit_uses(&mut shift);
        step.visit_definitions(&mut shift);
        steps.push(step);
        Ok(())
    }

    fn label(&mut self, label: Label, frame: &mut Frame<'_>) -> Label {
        *frame.labels.entry(label).or_insert_with(|| self.new_label())
    }

    fn operation(&mut self, id: OperationId, frame: &Frame<'_>) -> OperationId {
        let mut operation = frame.procedure.operations[id.0 as usize].clone();
        operation.visit_registers(&mut |_, register| register.0 += frame.base);
        let is_outermost = frame.returns_to == Label(0);
        self.origins.push(is_outermost.then_some(id));
        self.operations.push(operation);
        OperationId(self.operations.len() as u32 - 1)
    }

    fn call(
        &mut self,
        procedure: &Procedure,
        arguments: &[Expression],
        outputs: &[(Register, Cast)],
        frame: &Frame<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<(), ByValueCause> {
        let (callee, block) = self.body(procedure)?;
        // Each call begins with its variables NULL, also in a later round of a loop.
        for register in 0..procedure.registers.len() as u32 {
            steps.push(assign(callee + register, Expression::NULL));
        }
        for ((index, _), argument) in procedure.inputs().zip(arguments) {
            let mut argument = argument.clone();
            argument.visit_registers(&mut |_, register| register.0 += frame.base);
            steps.push(assign(callee + index as u32, argument));
        }
        steps.push(block);
        for ((_, output, _), (target, cast)) in procedure.outputs().zip(outputs) {
            let value = Expression::Register(Register(callee + output.0));
            let value = Expression::Cast { cast: *cast, operand: Box::new(value) };
            steps.push(assign(frame.base + target.0, value));
        }
        Ok(())
    }
}

fn assign(target: u32, value: Expression) -> Step {
    Step::Assign { target: Register(target), value }
}

impl Program {
    /// Prepares a procedure, for calls with or without recorded witness values.
    ///
    /// # Errors
    /// The cause for which calls of the procedure are logged by value.
    pub fn new(procedure: &Procedure, witnessed: Witnessed) -> Result<Self, ByValueCause> {
        if let Some(cause) = &procedure.by_value {
            return Err(cause.clone());
        }
        let mut inliner = Inliner { registers: 0, labels: 0, operations: Vec::new(), origins: Vec::new() };
        let (_, block) = inliner.body(procedure)?;
        let mut program = Self {
            procedure: procedure.id,
            name: procedure.name.clone(),
            inputs: procedure.inputs().map(|(position, _)| Some(Register(position as u32))).collect(),
            registers: inliner.registers as usize,
            unset: BTreeSet::new(),
            whole: false,
            body: vec![block],
            operations: inliner.operations,
            origins: inliner.origins,
            witnesses: BTreeMap::new(),
        };
        program.whole = procedure.uses_seed && !replace_draws(&mut program);
        Webs::split(&mut program);
        program.witnesses = program.witnesses_of(procedure, procedure.witnesses.of(witnessed));
        Ok(program)
    }

    /// Returns the operations whose results are recorded, from those of its procedure.
    pub(super) fn witnesses_of(
        &self,
        procedure: &Procedure,
        recorded: &[Vec<Register>],
    ) -> BTreeMap<OperationId, (usize, Vec<Register>)> {
        let witnesses = recorded.iter().enumerate().filter(|(_, registers)| !registers.is_empty());
        let placed = witnesses.enumerate().map(|(position, (index, registers))| {
            let original = OperationId(index as u32);
            let id = self.origins.iter().position(|origin| *origin == Some(original));
            let id = OperationId(id.expect("every operation of a procedure is in its program") as u32);
            let (from, to) = (&procedure.operations[original.0 as usize], &self.operations[id.0 as usize]);
            (id, (position, originals(registers, from, to)))
        });
        placed.collect()
    }

    /// Returns whether an operation belongs to a slice: it writes, or it is not free to run anywhere, and its
    /// results are not recorded.
    pub(super) fn is_sliced(&self, id: OperationId, free: &dyn Fn(OperationId) -> bool) -> bool {
        self.operations[id.0 as usize].writes() || !self.witnesses.contains_key(&id) && !free(id)
    }

    /// Returns its operations that write.
    pub(super) fn writes(&self) -> impl Iterator<Item = OperationId> {
        self.operation_ids().filter(|id| self.operations[id.0 as usize].writes())
    }
}

/// The number of a definition or use of a register.
type Occurrence = u32;

/// For each register, the definitions that may have set its value (reaching definitions).
type Reaching = Vec<BTreeSet<Occurrence>>;

/// The definitions that jumps carry: to the end of a loop or block, and to the next round of a loop.
#[derive(Default)]
struct Jumps {
    exits: HashMap<Label, Option<Reaching>>,
    continues: HashMap<Label, Option<Reaching>>,
}

/// Merges the definitions of two paths that meet; `None` is a path that control never takes. Returns whether
/// `into` has grown.
fn join(into: &mut Option<Reaching>, from: Option<Reaching>) -> bool {
    match (into.as_mut(), from) {
        (_, None) => false,
        (None, from) => {
            *into = from;
            true
        }
        (Some(into), Some(from)) => {
            let mut grown = false;
            for (into, from) in into.iter_mut().zip(from) {
                let before = into.len();
                into.extend(from);
                grown |= into.len() > before;
            }
            grown
        }
    }
}

struct Webs<'p> {
    operations: &'p mut [Operation],
    /// For each occurrence, its register in the procedure.
    registers: Vec<Register>,
    united: UnionFind<Occurrence>,
    jumps: Jumps,
    /// The loops and blocks around a statement. A loop over rows has its FOUND, which every end of the loop
    /// sets.
    around: Vec<(Label, Option<Register>)>,
}

impl Webs<'_> {
    /// Gives every web of a program a separate register. The registers of windows follow them.
    fn split(program: &mut Program) {
        let windows = window_registers(&program.operations);
        let mut registers: Vec<Register> = (0..program.registers as u32).map(Register).collect();
        let mut number = |_: Role, register: &mut Register| {
            if !windows.contains(register) {
                registers.push(*register);
                *register = Register(registers.len() as u32 - 1);
            }
        };
        // A window register keeps its number. As an occurrence, such a number is the value at the start.
        visit_all(&mut program.body, &mut program.operations, &mut number);
        let united = UnionFind::new(registers.len());
        let start: Reaching =
            (0..program.registers as u32).map(|register| BTreeSet::from([register])).collect();
        let (jumps, around) = (Jumps::default(), Vec::new());
        let mut webs = Webs { operations: &mut program.operations, registers, united, jumps, around };
        webs.flow(&mut program.body, Some(start));
        let mut numbers = HashMap::new();
        let roots = webs.united.into_labeling();
        let occurrences = program.registers..roots.len();
        for root in occurrences.clone().map(|occurrence| roots[occurrence]) {
            let next = Register(numbers.len() as u32);
            numbers.entry(root).or_insert(next);
        }
        let old_registers = program.registers;
        let windows: Vec<Register> = windows.into_iter().collect();
        let window = |register: Register| {
            // In their old order, so that the registers of a window stay adjacent.
            let index = windows.binary_search(&register).expect("only windows keep their numbers");
            Register((numbers.len() + index) as u32)
        };
        let mut rename = |_: Role, register: &mut Register| {
            *register = if (register.0 as usize) < old_registers {
                window(*register)
            } else {
                numbers[&roots[register.0 as usize]]
            };
        };
        visit_all(&mut program.body, &mut program.operations, &mut rename);
        for input in program.inputs.iter_mut() {
            *input = input.and_then(|register| numbers.get(&roots[register.0 as usize]).copied());
        }
        let at_start = (0..old_registers).filter_map(|register| numbers.get(&roots[register]));
        program.unset = at_start.copied().collect();
        program.registers = numbers.len() + windows.len();
    }

    /// Unites a use with the definitions that reach it.
    fn used(&mut self, occurrence: Occurrence, reaching: &Reaching) {
        let register = self.registers[occurrence as usize];
        for definition in reaching[register.0 as usize].clone() {
            self.united.union(occurrence, definition);
        }
    }

    fn visit(&mut self, reaching: &mut Reaching, role: Role, register: Register) {
        let occurrence = register.0;
        if (occurrence as usize) < reaching.len() {
            return;
        }
        match role {
            Role::Use => self.used(occurrence, reaching),
            Role::Define | Role::Window => {
                let defined = self.registers[occurrence as usize];
                reaching[defined.0 as usize] = BTreeSet::from([occurrence]);
            }
        }
    }

    fn operation(&mut self, id: OperationId, reaching: &mut Reaching) {
        self.rows_of(id, reaching);
        let found = self.operations[id.0 as usize].found;
        self.visit(reaching, Role::Define, found);
    }

    /// Visits all registers of an operation except FOUND.
    fn rows_of(&mut self, id: OperationId, reaching: &mut Reaching) {
        let mut operation = self.operations[id.0 as usize].clone();
        let found = operation.found;
        operation.visit_registers(&mut |role, register| {
            if *register != found {
                self.visit(reaching, role, *register);
            }
        });
    }

    /// Sets the FOUND of all loops over rows that a jump to a label leaves.
    fn leave(&mut self, to: Label, reaching: &mut Reaching) {
        let left = self.around.iter().rev().take_while(|(label, _)| *label != to);
        let left: Vec<Register> = left.filter_map(|(_, found)| *found).collect();
        left.into_iter().for_each(|found| self.visit(reaching, Role::Define, found));
    }

    /// Follows statements. Returns the definitions that reach their end; `None` if control never reaches it.
    fn flow(&mut self, statements: &mut [Step], mut reaching: Option<Reaching>) -> Option<Reaching> {
        for statement in statements {
            let mut now = reaching.take()?;
            statement.visit_uses(&mut |role, register| self.visit(&mut now, role, *register));
            reaching = match statement {
                Step::Assign { target, .. } => {
                    self.visit(&mut now, Role::Define, *target);
                    Some(now)
                }
                Step::AssignElement { array, .. } => {
                    self.used(array.0, &now);
                    self.visit(&mut now, Role::Define, *array);
                    Some(now)
                }
                Step::Execute(id) => {
                    self.operation(*id, &mut now);
                    Some(now)
                }
                Step::If { then, otherwise, .. } => {
                    let mut after = self.flow(then, Some(now.clone()));
                    let other = self.flow(otherwise, Some(now));
                    join(&mut after, other);
                    after
                }
                Step::ForRange { label, variable, body, .. }
                | Step::ForEach { label, variable, body, .. } => {
                    let (label, variable) = (*label, *variable);
                    self.repeat((label, None), now, body, |webs, now| webs.visit(now, Role::Define, variable))
                }
                Step::ForRows { label, operation, body } => {
                    let (label, operation) = (*label, *operation);
                    let found = self.operations[operation.0 as usize].found;
                    let begin = |webs: &mut Self, now: &mut Reaching| webs.rows_of(operation, now);
                    let mut after = self.repeat((label, Some(found)), now, body, begin)?;
                    self.visit(&mut after, Role::Define, found);
                    Some(after)
                }
                Step::While { label, condition, body } => {
                    let (label, condition) = (*label, condition.clone());
                    self.repeat((label, None), now, body, |webs, now| {
                        condition.clone().visit_registers(&mut |role, r| webs.visit(now, role, *r));
                    })
                }
                Step::Block { label, body } => {
                    let label = *label;
                    self.around.push((label, None));
                    let mut after = self.flow(body, Some(now));
                    self.around.pop();
                    let exits = self.jumps.exits.remove(&label).flatten();
                    join(&mut after, exits);
                    after
                }
                Step::Exit(label) => {
                    self.leave(*label, &mut now);
                    join(self.jumps.exits.entry(*label).or_default(), Some(now));
                    None
                }
                Step::Continue(label) => {
                    self.leave(*label, &mut now);
                    join(self.jumps.continues.entry(*label).or_default(), Some(now));
                    None
                }
                Step::Raise(raise) if raise.severity == crate::Severity::Exception => None,
                Step::Raise(_) => Some(now),
            };
        }
        reaching
    }

    /// Follows a loop until no new definition reaches its head. `begin` visits the registers that the loop
    /// itself uses and sets before every round.
    fn repeat(
        &mut self,
        (label, found): (Label, Option<Register>),
        entry: Reaching,
        body: &mut [Step],
        begin: impl Fn(&mut Self, &mut Reaching),
    ) -> Option<Reaching> {
        let mut head = Some(entry);
        loop {
            let mut round = head.clone()?;
            begin(self, &mut round);
            // The loop may end after the last `begin` or without it: definitions of both cases reach its end.
            let mut after = Some(round.clone());
            join(&mut after, head.clone());
            self.around.push((label, found));
            let mut end = self.flow(body, Some(round));
            self.around.pop();
            let continued = self.jumps.continues.remove(&label).flatten();
            join(&mut end, continued);
            if !join(&mut head, end) {
                let exits = self.jumps.exits.remove(&label).flatten();
                join(&mut after, exits);
                return after;
            }
        }
    }
}

fn window_registers(operations: &[Operation]) -> BTreeSet<Register> {
    let windows = operations.iter().flat_map(Operation::windows);
    windows.flat_map(|(first, count)| (first.0..first.0 + count as u32).map(Register)).collect()
}

/// Visits every occurrence of a register in a program once.
fn visit_all(
    statements: &mut [Step],
    operations: &mut [Operation],
    visit: &mut impl FnMut(Role, &mut Register),
) {
    operations.iter_mut().for_each(|operation| operation.visit_registers(visit));
    visit_statements(statements, visit);
}

fn visit_statements(statements: &mut [Step], visit: &mut impl FnMut(Role, &mut Register)) {
    for statement in statements {
        statement.visit_uses(visit);
        statement.visit_definitions(visit);
        statement.bodies_mut().into_iter().for_each(|body| visit_statements(body, visit));
    }
}

/// Returns the registers that an operation defines, in order.
pub(super) fn definitions(operation: &Operation) -> Vec<Register> {
    let mut defined = Vec::new();
    operation.clone().visit_registers(&mut |role, register| {
        if role == Role::Define {
            defined.push(*register);
        }
    });
    defined
}

/// Returns the registers of `other` at the positions that the given registers have in `of`. Both are forms of
/// one operation.
pub(super) fn originals(registers: &[Register], of: &Operation, other: &Operation) -> Vec<Register> {
    let (from, to) = (definitions(of), definitions(other));
    // If a register is defined twice, its last value counts.
    let position = |register: &Register| from.iter().rposition(|defined| defined == register);
    registers.iter().map(|register| to[position(register).expect("both forms define the register")]).collect()
}
