//! Numbers on the command line and their ranges.
//!
//! Invariant: every flag that is a number has a range in which no computation of the program overflows. Only
//! a seed may be any number.
//! Held by: `every_number_has_a_range`.

use std::fmt::Display;
use std::str::FromStr;

/// Returns a parser of numbers from `least` to `most`.
pub fn from<N>(least: N, most: N) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static
where
    N: FromStr + PartialOrd + Display + Copy + Send + Sync + 'static,
{
    move |text| {
        let number = text.trim().parse::<N>().ok();
        // No range contains NaN.
        let number = number.filter(|number| *number >= least && *number <= most);
        number.ok_or_else(|| format!("expected a number from {least} to {most}"))
    }
}

/// Returns a parser of durations, in seconds.
pub fn seconds() -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    from(0.001, 10_000_000.0)
}

/// Returns a parser of time limits, in seconds; 0 is no limit. The maximum is PostgreSQL's, 32 bits of
/// milliseconds.
pub fn timeout() -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    from(0.0, 2_147_483.0)
}

/// Returns a parser of numbers of threads.
pub fn threads() -> impl Fn(&str) -> Result<usize, String> + Clone + Send + Sync + 'static {
    from(1, 128)
}

/// Returns a parser of gibibytes, which may be a fraction, into bytes.
pub fn memory_gib() -> impl Fn(&str) -> Result<usize, String> + Clone + Send + Sync + 'static {
    const GIBIBYTE: f64 = (1u64 << 30) as f64;
    let gibibytes = from(0.03, 16_384.0);
    move |text| gibibytes(text).map(|number: f64| (number * GIBIBYTE) as usize)
}

/// Returns a parser of megabytes a second.
pub fn device_rate() -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    from(0.001, 1_000_000.0)
}

/// The size of a workload: with more, numbers of customers do not fit 32 bits.
pub fn scale() -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync + 'static {
    from(1, 10_000)
}

#[cfg(test)]
mod tests {
    use crate::Arguments;
    use clap::builder::ValueParser;
    use clap::error::ErrorKind;
    use clap::{Arg, Command, CommandFactory as _};
    use std::any::TypeId;

    /// Flags whose type is a number.
    fn numbers(command: &Command) -> Vec<&Arg> {
        let types = [
            TypeId::of::<f64>(),
            TypeId::of::<u8>(),
            TypeId::of::<u16>(),
            TypeId::of::<u32>(),
            TypeId::of::<u64>(),
            TypeId::of::<usize>(),
            TypeId::of::<i32>(),
            TypeId::of::<i64>(),
        ];
        let is_number = |parser: &ValueParser| types.iter().any(|ty| parser.type_id() == *ty);
        command.get_arguments().filter(|argument| is_number(argument.get_value_parser())).collect()
    }

    /// Collects all commands with the words that name each.
    fn commands<'c>(command: &'c Command, words: &[&'c str], all: &mut Vec<(Vec<&'c str>, &'c Command)>) {
        let words = [words, &[command.get_name()]].concat();
        all.push((words.clone(), command));
        command.get_subcommands().for_each(|command| commands(command, &words, all));
    }

    #[test]
    fn every_number_has_a_range() {
        let program = Arguments::command();
        let mut all = Vec::new();
        commands(&program, &[], &mut all);
        let mut checked = 0;
        for (words, command) in all {
            for argument in numbers(command) {
                let flag = argument.get_long().expect("a number has a long flag");
                let parse = |value: &str| {
                    let flag = format!("--{flag}={value}");
                    program.clone().try_get_matches_from(words.iter().copied().chain([flag.as_str()]))
                };
                let says_range = |value: &str| {
                    let error =
                        parse(value).err().unwrap_or_else(|| panic!("{words:?} --{flag} takes {value}"));
                    assert_eq!(
                        error.kind(),
                        ErrorKind::ValueValidation,
                        "{words:?} --{flag}={value}: {error}"
                    );
                    error.to_string()
                };
                for wrong in ["nan", "inf", "1e300", "-1", "-0.5", "99999999999999999999", "word", ""] {
                    let said = says_range(wrong);
                    assert!(said.contains(" to ") || flag == "seed", "{words:?} --{flag}={wrong}: {said}");
                }
                if flag != "seed" {
                    says_range("18446744073709551615");
                }
                let may_be_0 = [
                    "ad-hoc",
                    "batch-wait",
                    "flush-floor-us",
                    "idle-in-transaction-session-timeout",
                    "max-connections",
                    "memory-ahead-mib",
                    "seed",
                    "skew",
                    "statement-timeout",
                ];
                let takes_0 = parse("0").err().is_none_or(|error| error.kind() != ErrorKind::ValueValidation);
                assert_eq!(takes_0, may_be_0.contains(&flag), "{words:?} --{flag}=0");
                checked += 1;
            }
        }
        assert!(checked >= 40, "{checked} numbers");
    }
}
