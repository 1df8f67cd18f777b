//! Translates statements and operations into Cranelift's intermediate representation.
//!
//! A register that only statements use is a pair of variables: the tag and the value of a datum. Cranelift
//! keeps them in machine registers. A register of a window, which the host reads or writes while an operation
//! runs, stands in the frame. Before the host reads further registers they are stored, and loaded again after
//! it has set them.

mod expressions;
mod keys;
mod loops;
mod operations;
mod rows;
mod statements;
mod values;

use crate::calls::{Call, FAILED};
use crate::code::{Native, NativeExpression, Unit};
use crate::context::{ELEMENTS, Parts, REGISTERS, RESULT};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, Block, InstBuilder, MemFlagsData, SigRef, Signature, StackSlot, StackSlotData, StackSlotKind,
    Type, UserFuncName, Value, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Module, ModuleError};
use loops::Scope;
use procedure::{Code, Expression, Operation, OperationId, Part, Refusal, Register, Source, Statement};
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};
use thiserror::Error;
use values::Val;

/// Maximum size of the code of one procedure or piece, in bytes. Larger code is dropped.
const MOST_BYTES: usize = 1 << 20;
/// Maximum number of statements and expressions of a procedure or piece that is compiled.
const MOST_PARTS: usize = 10_000;
/// Maximum number of statements and expressions of code that is optimized, and verified in builds with debug
/// assertions. The time that both take grows with the square of the size.
const MOST_OPTIMIZED: usize = 1_000;
/// Stack that one level of nesting leaves to the code below it, in bytes.
const STACK: usize = 128 << 10;
/// Number of datums in the frame of code that its calls take as arguments at most.
const MOST_ARGUMENTS: usize = 64;

/// The reason why a procedure or piece is interpreted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NotCompiled {
    /// It is too large.
    #[error("it has {parts} statements and expressions; at most {MOST_PARTS} are compiled")]
    Large {
        /// Number of its statements and expressions.
        parts: usize,
    },
    /// Its code is too large.
    #[error("its code takes {bytes} bytes; at most {MOST_BYTES} are kept")]
    LargeCode {
        /// Size of its code.
        bytes: usize,
    },
    /// There is no code for this processor.
    #[error("there is no code for this processor: {0}")]
    Processor(String),
    /// The code generator has failed.
    #[error("the code generator has failed: {0}")]
    Generator(Box<ModuleError>),
}

impl From<ModuleError> for NotCompiled {
    fn from(error: ModuleError) -> Self {
        Self::Generator(Box::new(error))
    }
}

/// Compiled code, and how it came about.
#[derive(Debug)]
pub struct Report {
    /// The code.
    pub code: Native,
    /// Size of the code in bytes.
    pub bytes: usize,
    /// The time that the compiler took.
    pub time: Duration,
    /// What the host interprets in the place of code, in the order of the statements.
    pub interpreted: Vec<String>,
}

/// Compiles a procedure or piece.
///
/// # Errors
/// The reason why it stays interpreted.
pub fn compile(source: Source<'_>) -> Result<Report, NotCompiled> {
    let began = Instant::now();
    let size = size_of_source(source);
    if size > MOST_PARTS {
        return Err(NotCompiled::Large { parts: size });
    }
    let mut module = module(size <= MOST_OPTIMIZED)?;
    let mut tables = Tables::default();
    let (run, run_bytes) = define(&mut module, source, &mut tables, |compiler| compiler.run())?;
    let (announce, announce_bytes) =
        define(&mut module, source, &mut tables, |compiler| compiler.announce())?;
    let bytes = run_bytes + announce_bytes;
    module.finalize_definitions()?;
    let addresses = [run, announce].map(|function| module.get_finalized_function(function));
    let Tables { parts, interpreted } = tables;
    // SAFETY: the functions were made from this source with these tables, and the module is finished.
    #[allow(unsafe_code)]
    let code = unsafe { Native::new(Unit::new(module, parts, bytes), addresses) };
    if bytes > MOST_BYTES {
        return Err(NotCompiled::LargeCode { bytes });
    }
    Ok(Report { code, bytes, time: began.elapsed(), interpreted })
}

/// Compiles an expression.
///
/// # Errors
/// The reason why it stays interpreted.
pub fn compile_expression(expression: &Expression) -> Result<NativeExpression, NotCompiled> {
    let (mut parts, mut registers) = (0, 0);
    expression.walk(&mut |part| {
        parts += 1;
        if let Expression::Register(register) = part {
            registers = registers.max(register.0 as usize + 1);
        }
    });
    if parts > MOST_PARTS {
        return Err(NotCompiled::Large { parts });
    }
    let code = Code { body: &[], operations: &[], ahead: &[], sent: &[], compiled: None };
    let source = Source { code, registers, outputs: &[], part: &|_| Part::Run };
    let mut module = module(parts <= MOST_OPTIMIZED)?;
    let mut tables = Tables::default();
    let (evaluate, bytes) = define(&mut module, source, &mut tables, |own| own.evaluate(expression))?;
    module.finalize_definitions()?;
    let address = module.get_finalized_function(evaluate);
    // SAFETY: as for `compile`; the greatest register is counted above.
    #[allow(unsafe_code)]
    Ok(unsafe { NativeExpression::new(Unit::new(module, tables.parts, bytes), address, registers) })
}

/// Runs a part of the compiler, which recurses for what is nested, with more stack if there is little left.
fn with_stack<R>(act: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(STACK, 8 * STACK, act)
}

/// Returns the number of statements and expressions of a source.
fn size_of_source(source: Source<'_>) -> usize {
    let mut parts = 0;
    Statement::walk(source.code.body, &mut |_| parts += 1);
    source.code.operations.iter().for_each(|operation| {
        operation.visit_expressions(&mut |expression| expression.walk(&mut |_| parts += 1));
    });
    parts
}

/// Returns an empty module for this machine.
fn module(is_small: bool) -> Result<JITModule, NotCompiled> {
    let mut flags = settings::builder();
    let level = if is_small { "speed" } else { "none" };
    for (name, value) in [("opt_level", level), ("is_pic", "false"), ("use_colocated_libcalls", "false")] {
        flags.set(name, value).expect("the settings of the code generator have these names and values");
    }
    if !(cfg!(debug_assertions) && is_small) {
        flags.set("enable_verifier", "false").expect("the verifier can be turned off");
    }
    let host = cranelift_native::builder().map_err(|reason| NotCompiled::Processor(reason.into()))?;
    let isa = host
        .finish(settings::Flags::new(flags))
        .map_err(|error| NotCompiled::Processor(error.to_string()))?;
    Ok(JITModule::new(JITBuilder::with_isa(isa, cranelift_module::default_libcall_names())))
}

/// Defines a function of a module. Returns it with its size in bytes.
fn define(
    module: &mut JITModule,
    source: Source<'_>,
    tables: &mut Tables,
    fill: impl FnOnce(&mut Compiler<'_, '_>),
) -> Result<(FuncId, usize), NotCompiled> {
    let mut context = module.make_context();
    let convention = module.isa().default_call_conv();
    context.func.signature = signature(1, convention);
    let function = module.declare_anonymous_function(&context.func.signature)?;
    context.func.name = UserFuncName::user(0, function.as_u32());
    let mut builder_context = FunctionBuilderContext::new();
    let mut compiler = Compiler::new(
        FunctionBuilder::new(&mut context.func, &mut builder_context),
        source,
        tables,
        convention,
    );
    fill(&mut compiler);
    compiler.builder.seal_all_blocks();
    compiler.builder.finalize(module.isa().frontend_config());
    module.define_function(function, &mut context)?;
    let bytes = context.compiled_code().map_or(0, |code| code.code_info().total_size as usize);
    module.clear_context(&mut context);
    Ok((function, bytes))
}

/// Returns the signature of a function of words.
fn signature(words: usize, convention: CallConv) -> Signature {
    let mut signature = Signature::new(convention);
    signature.params = vec![AbiParam::new(types::I64); words];
    signature.returns = vec![AbiParam::new(types::I64)];
    signature
}

/// What a function leaves to the host.
#[derive(Default)]
struct Tables {
    parts: Parts,
    /// What the parts that are interpreted are called.
    interpreted: Vec<String>,
}

/// The function that is being compiled.
struct Compiler<'c, 's> {
    builder: FunctionBuilder<'c>,
    source: Source<'s>,
    tables: &'c mut Tables,
    convention: CallConv,
    /// The context.
    context: Value,
    /// The signatures of calls, by number of words.
    signatures: HashMap<usize, SigRef>,
    /// The variables of each register; `None` for registers that stand in the frame.
    variables: Vec<Option<[Variable; 2]>>,
    /// The tags of registers in the frame that are known while an operation runs.
    tags: HashMap<Register, u32>,
    /// The arguments of calls.
    arguments: StackSlot,
    /// The results of calls that are datums.
    result: StackSlot,
    /// The loops and blocks around the statement, outermost first.
    scopes: Vec<Scope>,
    /// The block that returns 0.
    end: Block,
    /// The block that returns `FAILED`.
    failed: Block,
    /// The operation that is being compiled.
    operation: Option<OperationId>,
    /// The block of its failures.
    operation_failed: Option<Block>,
    /// The blocks of failures of operations, which are filled at the end.
    failures: Vec<(Block, OperationId)>,
}

/// Memory of the frame, of the context and of the stack: aligned, and always there.
const PLAIN: MemFlagsData = MemFlagsData::trusted();

impl<'c, 's> Compiler<'c, 's> {
    fn new(
        mut builder: FunctionBuilder<'c>,
        source: Source<'s>,
        tables: &'c mut Tables,
        convention: CallConv,
    ) -> Self {
        let entry = builder.create_block();
        builder.append_block_params_for_function_params(entry);
        builder.switch_to_block(entry);
        let context = builder.block_params(entry)[0];
        let (end, failed) = (builder.create_block(), builder.create_block());
        let datums = |count: usize| StackSlotData::new(StackSlotKind::ExplicitSlot, 16 * count as u32, 4);
        let arguments = builder.create_sized_stack_slot(datums(MOST_ARGUMENTS));
        let result = builder.create_sized_stack_slot(datums(1));
        let mut compiler = Self {
            builder,
            source,
            tables,
            convention,
            context,
            signatures: HashMap::new(),
            variables: Vec::new(),
            tags: HashMap::new(),
            arguments,
            result,
            scopes: Vec::new(),
            end,
            failed,
            operation: None,
            operation_failed: None,
            failures: Vec::new(),
        };
        compiler.declare_registers();
        compiler
    }

    /// Loads the registers that code reads or sets and that are no windows. All further registers stand in
    /// the frame, so that a statement which the host interprets finds them there.
    fn declare_registers(&mut self) {
        let touched = self.touched_registers();
        let windows: BTreeSet<u32> = self
            .source
            .code
            .operations
            .iter()
            .flat_map(Operation::windows)
            .flat_map(|(first, count)| first.0..first.0 + count as u32)
            .collect();
        for register in 0..self.source.registers as u32 {
            self.variables.push(None);
            if windows.contains(&register) || !touched.contains(&Register(register)) {
                continue;
            }
            let variables = [self.builder.declare_var(types::I32), self.builder.declare_var(types::I64)];
            self.variables[register as usize] = Some(variables);
            self.reload(Register(register));
        }
    }

    /// Compiles the statements.
    fn run(&mut self) {
        let body = self.source.code.body;
        self.statements(body);
        let end = self.end;
        self.builder.ins().jump(end, &[]);
        self.builder.switch_to_block(end);
        for output in self.source.outputs {
            self.store(*output);
        }
        self.finish();
    }

    /// Compiles the announcement of the rows that are known at the start.
    fn announce(&mut self) {
        let ahead = self.source.code.ahead;
        self.expect_rows(ahead);
        let end = self.end;
        self.builder.ins().jump(end, &[]);
        self.builder.switch_to_block(end);
        self.finish();
    }

    /// Compiles an expression, whose registers stand in the frame.
    fn evaluate(&mut self, expression: &Expression) {
        let val = self.expression(expression);
        let context = self.context;
        self.store_datum(val, context, RESULT);
        let end = self.end;
        self.builder.ins().jump(end, &[]);
        self.builder.switch_to_block(end);
        self.finish();
    }

    /// Returns 0 here, and `FAILED` from the block of failures.
    fn finish(&mut self) {
        let done = self.word(0);
        self.builder.ins().return_(&[done]);
        let failed = self.failed;
        for (block, id) in std::mem::take(&mut self.failures) {
            self.builder.set_cold_block(block);
            self.builder.switch_to_block(block);
            let id = self.word(id.0.into());
            self.call(Call::FailedAt, &[id]);
            self.builder.ins().jump(failed, &[]);
        }
        self.builder.switch_to_block(failed);
        let word = self.builder.ins().iconst(types::I64, FAILED as i64);
        self.builder.ins().return_(&[word]);
    }

    /// Returns a constant.
    fn word(&mut self, word: u64) -> Value {
        self.builder.ins().iconst(types::I64, word as i64)
    }

    fn load(&mut self, ty: Type, base: Value, offset: i32) -> Value {
        self.builder.ins().load(ty, PLAIN, base, offset)
    }

    fn store_at(&mut self, value: Value, base: Value, offset: i32) {
        self.builder.ins().store(PLAIN, value, base, offset);
    }

    /// Makes a call that can't fail.
    fn call(&mut self, call: Call, arguments: &[Value]) -> Value {
        assert_eq!(call.words(), arguments.len() + 1, "{call:?}");
        let convention = self.convention;
        let signature = match self.signatures.get(&call.words()) {
            Some(signature) => *signature,
            None => {
                let signature = self.builder.import_signature(signature(call.words(), convention));
                self.signatures.insert(call.words(), signature);
                signature
            }
        };
        let address = self.word(call.address() as u64);
        let arguments: Vec<Value> = [self.context].into_iter().chain(arguments.iter().copied()).collect();
        let made = self.builder.ins().call_indirect(signature, address, &arguments);
        self.builder.inst_results(made)[0]
    }

    /// Makes a call, and goes to the block of failures if it has failed.
    fn try_call(&mut self, call: Call, arguments: &[Value]) -> Value {
        let result = self.call(call, arguments);
        let has_failed = self.builder.ins().icmp_imm_s(IntCC::Equal, result, FAILED as i64);
        let failed = self.failure_block();
        self.branch_to(has_failed, failed);
        result
    }

    /// Goes to a block if a condition holds, and on otherwise.
    fn branch_to(&mut self, condition: Value, block: Block) {
        let next = self.builder.create_block();
        self.builder.ins().brif(condition, block, &[], next, &[]);
        self.builder.switch_to_block(next);
    }

    /// Returns the block of the failures of what is being compiled.
    fn failure_block(&mut self) -> Block {
        let Some(id) = self.operation else { return self.failed };
        if let Some(block) = self.operation_failed {
            return block;
        }
        let block = self.builder.create_block();
        self.failures.push((block, id));
        self.operation_failed = Some(block);
        block
    }

    /// Fails with an error if a condition holds.
    fn refuse_if(&mut self, condition: Value, refusal: Refusal) {
        let refusal = self.word(refusal.number());
        self.fail_if(condition, Call::Refused, &[refusal]);
    }

    /// Fails by a call if a condition holds.
    fn fail_if(&mut self, condition: Value, call: Call, arguments: &[Value]) {
        let (block, next) = (self.builder.create_block(), self.builder.create_block());
        self.builder.set_cold_block(block);
        self.builder.ins().brif(condition, block, &[], next, &[]);
        self.builder.switch_to_block(block);
        self.call(call, arguments);
        let failed = self.failure_block();
        self.builder.ins().jump(failed, &[]);
        self.builder.switch_to_block(next);
    }

    /// Fails by a call. What follows is never reached.
    fn fail(&mut self, call: Call, arguments: &[Value]) {
        self.call(call, arguments);
        let failed = self.failure_block();
        self.builder.ins().jump(failed, &[]);
        let unreachable = self.builder.create_block();
        self.builder.switch_to_block(unreachable);
    }

    /// Returns the address of the running procedure's registers.
    fn registers(&mut self) -> Value {
        let context = self.context;
        self.load(types::I64, context, REGISTERS)
    }

    /// Returns the address of the elements of all arrays.
    fn elements(&mut self) -> Value {
        let context = self.context;
        self.load(types::I64, context, ELEMENTS)
    }

    /// Stores a register in the frame, if it does not stand there.
    fn store(&mut self, register: Register) {
        let Some([tag, value]) = self.variables[register.0 as usize] else { return };
        let val = Val::of(self.builder.use_var(tag), self.builder.use_var(value));
        self.store_in_frame(register, val);
    }

    fn store_in_frame(&mut self, register: Register, val: Val) {
        let base = self.registers();
        self.store_datum(val, base, register.0 as i32 * 16);
    }

    /// Loads a register from the frame, if it does not stand there.
    fn reload(&mut self, register: Register) {
        let Some([tag, value]) = self.variables[register.0 as usize] else { return };
        let base = self.registers();
        let offset = register.0 as i32 * 16;
        let (loaded_tag, loaded) =
            (self.load(types::I32, base, offset), self.load(types::I64, base, offset + 8));
        self.builder.def_var(tag, loaded_tag);
        self.builder.def_var(value, loaded);
    }

    /// Returns the value of a register.
    fn get(&mut self, register: Register) -> Val {
        if let Some([tag, value]) = self.variables[register.0 as usize] {
            return Val::of(self.builder.use_var(tag), self.builder.use_var(value));
        }
        let base = self.registers();
        let offset = register.0 as i32 * 16;
        let value = self.load(types::I64, base, offset + 8);
        match self.tags.get(&register) {
            Some(tag) => Val::known(*tag, value),
            None => Val::of(self.load(types::I32, base, offset), value),
        }
    }

    /// Sets a register.
    fn set(&mut self, register: Register, val: Val) {
        let Some([tag, value]) = self.variables[register.0 as usize] else {
            self.store_in_frame(register, val);
            return;
        };
        let own_tag = self.tag(val);
        self.builder.def_var(tag, own_tag);
        self.builder.def_var(value, val.value);
    }

    /// Sets a register to a boolean constant.
    fn set_boolean(&mut self, register: Register, is_true: bool) {
        let word = self.word(is_true.into());
        self.set(register, Val::known(values::INT, word));
    }
}
