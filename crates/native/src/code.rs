//! Finished code: its memory, its two functions, and the parts that its host interprets.
#![allow(unsafe_code)]

use crate::calls::FAILED;
use crate::context::{Context, Parts};
use cranelift_jit::JITModule;
use procedure::{Compiled, Failure, Host};
use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A function of compiled code. It returns 0, or `FAILED`.
type Function = extern "C" fn(&mut Context<'_>) -> u64;

/// The code of a procedure or piece.
pub struct Native {
    run: Function,
    announce: Function,
    parts: Parts,
    /// Size of the code in bytes.
    bytes: usize,
    /// The memory of the functions; `None` once it is freed.
    memory: Mutex<Option<JITModule>>,
    /// The part of the limit of its compiler that the code takes.
    charge: Option<Charge>,
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

impl Native {
    /// Returns finished code.
    ///
    /// # Safety
    /// Both addresses are functions of the module, made by the compiler for these parts,
    /// and the module's definitions are final.
    pub(crate) unsafe fn new(
        module: JITModule,
        [run, announce]: [*const u8; 2],
        parts: Parts,
        bytes: usize,
    ) -> Self {
        // SAFETY: the compiler gives both functions this signature.
        let function = |address| unsafe { std::mem::transmute::<*const u8, Function>(address) };
        Self {
            run: function(run),
            announce: function(announce),
            parts,
            bytes,
            memory: Mutex::new(Some(module)),
            charge: None,
        }
    }

    /// Returns the code with the part of a limit that it takes.
    pub(crate) fn charged(self, charge: Charge) -> Self {
        let mut code = self;
        code.charge = Some(charge);
        code
    }

    /// Calls a function.
    #[inline]
    fn call(&self, function: Function, host: &mut dyn Host) -> Result<(), Failure> {
        let mut context = Context::new(host, &self.parts);
        let result = function(&mut context);
        if let Some(panic) = context.panic {
            resume_unwind(panic);
        }
        match context.failure {
            Some(failure) if result == FAILED => Err(failure),
            _ => Ok(()),
        }
    }
}

impl Compiled for Native {
    #[inline]
    fn run(&self, host: &mut dyn Host) -> Result<(), Failure> {
        self.call(self.run, host)
    }

    #[inline]
    fn announce(&self, host: &mut dyn Host) {
        // A key that can't be evaluated announces nothing.
        let _ = self.call(self.announce, host);
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        let memory = self.memory.get_mut().ok().and_then(Option::take);
        if let Some(module) = memory {
            // SAFETY: the functions are called through this value only, which nothing uses any more.
            unsafe { module.free_memory() };
        }
    }
}

impl fmt::Debug for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Native").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use procedure::{Code, Part, Source};

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
