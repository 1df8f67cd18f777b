//! The settings of `reprise serve`: a flag, else the environment, else the configuration file, else the
//! default. A setting has one name: `--log-io`, `REPRISE_LOG_IO`, `log-io = …`.

use anyhow::{Context as _, Result, bail};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

const SERVE: &str = "serve";
/// Flags that are no settings.
const ONLY_FLAGS: [&str; 3] = ["help", "config-check", "print-sample-config"];

/// Returns the name of the setting that an argument is; `None` when it is no setting.
fn setting(argument: &Arg) -> Option<&str> {
    argument.get_long().filter(|long| !ONLY_FLAGS.contains(long))
}

fn variable(setting: &str) -> String {
    format!("REPRISE_{}", setting.replace('-', "_").to_uppercase())
}

fn with_environment(command: Command) -> Command {
    command.mut_subcommand(SERVE, |serve| {
        serve.mut_args(|argument| match setting(&argument).map(variable) {
            Some(name) => argument.env(name).hide_env_values(true),
            None => argument,
        })
    })
}

/// Reads the command line, the environment, and the configuration file that one of them names. Ends the
/// program with a message when a flag is wrong.
///
/// # Errors
/// The file cannot be read, is not TOML, or has an unknown or malformed setting.
pub fn read<Arguments: FromArgMatches>(command: Command) -> Result<Arguments> {
    let command = with_environment(command);
    let mut given: Vec<OsString> = std::env::args_os().collect();
    let mut matches = command.clone().get_matches_from(&given);
    if let Some((SERVE, serve)) = matches.subcommand()
        && let Some(path) = serve.get_one::<PathBuf>("config")
    {
        let arguments = file_arguments(path, &command, serve);
        let arguments = arguments.with_context(|| path.display().to_string())?;
        given.extend(arguments.into_iter().map(OsString::from));
        matches = match command.try_get_matches_from(given) {
            Ok(matches) => matches,
            // Everything but the file's settings has been parsed before.
            Err(error) => bail!("{}: {}", path.display(), error.to_string().trim_start_matches("error: ")),
        };
    }
    Arguments::from_arg_matches(&matches).map_err(|error| error.exit())
}

/// Returns the settings of a file as flags, without those that a flag or the environment overrides.
fn file_arguments(path: &Path, command: &Command, given: &ArgMatches) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(path)?;
    let table: Table = text.parse()?;
    let known: Vec<&Arg> =
        command.find_subcommand(SERVE).into_iter().flat_map(Command::get_arguments).collect();
    let mut flags = Vec::new();
    for (name, value) in &table {
        let argument = known.iter().find(|known| setting(known) == Some(name) && name != "config");
        let Some(argument) = argument else {
            bail!("\"{name}\" is no setting: `reprise serve --print-sample-config` shows all of them");
        };
        if matches!(
            given.value_source(argument.get_id().as_str()),
            Some(ValueSource::CommandLine | ValueSource::EnvVariable)
        ) {
            continue;
        }
        let is_switch = matches!(argument.get_action(), ArgAction::SetTrue);
        match value {
            Value::Boolean(on) if is_switch => flags.extend(on.then(|| format!("--{name}"))),
            _ if is_switch => bail!("{name} is true or false, not {value}"),
            Value::Array(values) if matches!(argument.get_action(), ArgAction::Append) => {
                for value in values {
                    flags.push(format!("--{name}={}", scalar(name, value)?));
                }
            }
            value => flags.push(format!("--{name}={}", scalar(name, value)?)),
        }
    }
    Ok(flags)
}

fn scalar(name: &str, value: &Value) -> Result<String> {
    Ok(match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(on) => if *on { "on" } else { "off" }.into(),
        list => bail!("{name} is one value, not {list}"),
    })
}

/// Returns a configuration file with every setting and its default.
pub fn sample(command: &Command) -> String {
    let mut sample = String::from(
        "# The configuration of `reprise serve --config FILE`. A flag (--listen) overrides the environment\n\
         # (REPRISE_LISTEN), and the environment overrides this file (listen). The defaults stand here.\n",
    );
    for argument in command.find_subcommand(SERVE).into_iter().flat_map(Command::get_arguments) {
        let Some(name) = setting(argument).filter(|name| *name != "config") else { continue };
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let default = argument.get_default_values().first().map(|value| value.to_string_lossy());
        let value_name =
            argument.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
        let value = match (argument.get_action(), default) {
            (ArgAction::SetTrue, _) => "false".to_owned(),
            (ArgAction::Append, _) => format!("[\"{value_name}\"]"),
            (_, Some(default)) if default.parse::<f64>().is_ok() => default.into_owned(),
            (_, Some(default)) => format!("\"{default}\""),
            (_, None) => format!("\"{value_name}\""),
        };
        let _ = writeln!(sample, "\n# {help}\n# {name} = {value}");
    }
    sample
}
