//! Finished code: its memory, its functions, and the parts that its host interprets.
#![allow(unsafe_code)]

use crate::calls::FAILED;
use crate::context::{Context, Parts, RunsIn};
use catalog::Datum;
use cranelift_jit::JITModule;
use procedure::{Compiled, CompiledExpression, Evaluated, Failure, Host, Machine};
use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A function of compiled code. It returns 0, or `FAILED`.
type Function = extern "C" fn(&mut Context<'_>) -> u64;

/// The code of a procedure or piece.
#[derive(Debug)]
pub struct Native {
    run: Function,
    announce: Function,
    pub(crate) unit: Unit,
}

/// The code of an expression.
#[derive(Debug)]
pub struct NativeExpression {
    evaluate: Function,
    /// Number of registers that a frame must have.
    registers: usize,
    pub(crate) unit: Unit,
}

/// Functions that were compiled together: their memory, and the parts that their host interprets.
pub(crate) struct Unit {
    parts: Parts,
    /// Size of the code in bytes.
    pub(crate) bytes: usize,
    /// The memory of the functions; `None` once it is freed.
    memory: Mutex<Option<JITModule>>,
    /// The part of the limit of its compiler that the code takes.
    pub(crate) charge: Option<Charge>,
}

/// A part of a limit on the size of code.
#[derive(Debug)]
pub(crate) struct Charge {
    bytes: usize,
    used: Arc<AtomicUsize>,
}

impl Charge {
    /// Takes a number of bytes; `None` if more than `most` would be used.
    pub(crate) fn of(bytes: usize, most: usize, used: &Arc<AtomicUsize>) -> Option<Self> {
        let more = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= most);
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Self { bytes, used: Arc::clone(used) })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Unit {
    pub(crate) fn new(module: JITModule, parts: Parts, bytes: usize) -> Self {
        Self { parts, bytes, memory: Mutex::new(Some(module)), charge: None }
    }

    /// Calls a function, and returns the value of an expression.
    #[inline]
    fn call<'a>(&'a self, function: Function, runs_in: RunsIn<'a>) -> Result<Datum, Failure> {
        let mut context = Context::new(runs_in, &self.parts);
        let result = function(&mut context);
        if let Some(panic) = context.panic {
            resume_unwind(panic);
        }
        match context.failure {
            Some(failure) if result == FAILED => Err(failure),
            _ => Ok(context.result),
        }
    }
}

/// Returns the function at an address.
///
/// # Safety
/// The address is a function that the compiler made with this signature, and its module's definitions are
/// final.
unsafe fn function_at(address: *const u8) -> Function {
    // SAFETY: by the contract.
    unsafe { std::mem::transmute::<*const u8, Function>(address) }
}

impl Native {
    /// Returns finished code.
    ///
    /// # Safety
    /// Both addresses are functions of the unit, made by the compiler for its parts, and the definitions of
    /// its module are final.
    pub(crate) unsafe fn new(unit: Unit, [run, announce]: [*const u8; 2]) -> Self {
        // SAFETY: by the contract.
        let [run, announce] = unsafe { [function_at(run), function_at(announce)] };
        Self { run, announce, unit }
    }
}

impl Compiled for Native {
    #[inline]
    fn run(&self, host: &mut dyn Host) -> Result<(), Failure> {
        self.unit.call(self.run, RunsIn::Host(host)).map(|_| ())
    }

    #[inline]
    fn announce(&self, host: &mut dyn Host) {
        // A key that can't be evaluated announces nothing.
        let _ = self.unit.call(self.announce, RunsIn::Host(host));
    }
}

impl NativeExpression {
    /// Returns finished code, which reads the first registers of a frame.
    ///
    /// # Safety
    /// As `Native::new`. The code reads no further registers.
    pub(crate) unsafe fn new(unit: Unit, evaluate: *const u8, registers: usize) -> Self {
        // SAFETY: by the contract.
        Self { evaluate: unsafe { function_at(evaluate) }, registers, unit }
    }
}

impl CompiledExpression for NativeExpression {
    #[inline]
    fn evaluate(&self, machine: &mut Machine) -> Evaluated {
        assert!(self.registers <= machine.frame.registers().len(), "an expression runs in its own frame");
        match self.unit.call(self.evaluate, RunsIn::Machine(machine)) {
            Ok(value) => Ok(value),
            Err(Failure::Error(error)) => Err(error),
            Err(failure) => unreachable!("an expression reads no table: {failure}"),
        }
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        let memory = self.memory.get_mut().ok().and_then(Option::take);
        if let Some(module) = memory {
            // SAFETY: the functions are called through the owner of this value only, which nothing uses any
            // more.
            unsafe { module.free_memory() };
        }
    }
}

impl fmt::Debug for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unit").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use procedure::{Code, CompiledExpression, Expression, Machine, Part, Register, Source};

    #[test]
    #[should_panic(expected = "in its own frame")]
    fn an_expression_leaves_no_frame() {
        let code = crate::compile_expression(&Expression::Register(Register(3))).unwrap();
        let mut machine = Machine::default();
        machine.begin_piece(4, 0, 0);
        assert!(code.evaluate(&mut machine).unwrap().is_null());
        machine.begin_piece(3, 0, 0);
        let _ = code.evaluate(&mut machine);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn code_is_not_writable() {
        let code = Code { body: &[], operations: &[], ahead: &[], sent: &[], compiled: None };
        let source = Source { code, registers: 0, outputs: &[], part: &|_| Part::Run };
        let native = crate::compile(source).expect("no statements are compiled").code;
        let address = native.run as usize;
        let maps = std::fs::read_to_string("/proc/self/maps").expect("the system lists memory");
        let mut flags = maps.lines().filter_map(|line| {
            let (range, after) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let bound = |text| usize::from_str_radix(text, 16).ok();
            (bound(from)?..bound(to)?).contains(&address).then(|| after.get(..3))?
        });
        assert_eq!(flags.next(), Some("r-x"));
        assert!(!maps.contains(" rwx"), "{maps}");
    }
}
