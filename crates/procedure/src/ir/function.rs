//! Calls of functions in expressions: built-in functions by their entry in the table, and the forms that the
//! IR itself knows.

use super::compare::compare;
use crate::values::functions::{BuiltIn, Call, Form};
use crate::values::live::{LiveFunction, LiveValue};
use crate::values::row_parts::row_part;
use crate::values::subscripts::{with_element, with_slice};
use crate::{Cast, CompareClass, Draw, Evaluated, Expression, Machine, SqlError};
use catalog::{
    Arena, Datum, Decimal, Interval, ScalarType, SessionZone, TableId, array_datum, canonical_jsonb,
    push_json_string,
};
use std::cmp::Ordering;
use std::sync::Arc;

/// Maximum number of arguments that are evaluated only up to the first NULL. A function with more arguments
/// evaluates all of them.
const MOST_VALUES: usize = 4;

/// A function that an expression calls.
///
/// `now()`, `random()` and `gen_random_uuid()` follow from the call's timestamp and seed, so a replayed call
/// gets the values that the first one got.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Function {
    /// A function of its arguments.
    BuiltIn {
        /// The entry in the table. Its form is `Form::Values` or `Form::Elements`.
        built_in: &'static BuiltIn,
        /// The type for which the polymorphic types of the entry stand.
        element: ScalarType,
    },
    /// `now()`, `current_timestamp`, …: the call's time.
    Now,
    /// The next random value of the call.
    Next(Draw),
    /// The random value that the call draws after a number of random words, which is the argument. The
    /// analysis replaces `Next` by it.
    Nth(Draw),
    /// `nextval` of a sequence.
    NextNumber(TableId),
    /// `currval` of a sequence.
    CurrentNumber(TableId),
    /// `lastval()`.
    LastNumber,
    /// `setval(sequence, number, is called)`.
    SetNumber(TableId),
    /// `last_value` of a sequence.
    LastValue(TableId),
    /// `is_called` of a sequence.
    IsCalled(TableId),
    /// Fails with 42P01: no relation has the name that the argument is.
    MissingRelation,
    /// A function of the moment.
    Live(LiveFunction),
    /// ROW_COUNT of GET DIAGNOSTICS.
    RowCount,
    /// The text that all equal values of a JSONB share.
    CanonicalJson,
    /// The microseconds that all equal values of an INTERVAL share, as a decimal.
    TotalOfInterval,
    /// A row as JSON: alternating keys and values, which are JSON.
    RowJson,
    /// A row as text: its values, as the output of their types shows them.
    RowText,
    /// A field of a row that is a text.
    RowPart {
        /// The position of the field.
        position: u16,
        /// The number of fields.
        count: u16,
    },
    /// A cast of the elements of an array.
    CastElements(Cast),
    /// A text as an array of elements of a type.
    ReadArray(ScalarType),
    /// The elements of an array from one index up to another, or up to its end.
    Slice,
    /// An array with another element: the array, the subscript, the element.
    WithElement,
    /// An array with another slice: the array, the given subscripts, the source.
    WithSlice {
        /// Whether the slice's first subscript is given.
        has_from: bool,
        /// Whether its last one is.
        has_to: bool,
    },
    /// `greatest(…)`; NULLs are left out.
    Greatest(CompareClass),
    /// `least(…)`; NULLs are left out.
    Least(CompareClass),
}

/// Returns a row as JSON, in the form that `row_to_json` has.
fn row_json(members: &[Datum], machine: &mut Machine) -> Evaluated {
    let arena = &machine.frame.arena;
    let text = |datum: Datum| String::from_utf8_lossy(arena.datum_bytes(datum));
    let mut out = String::from("{");
    for (index, member) in members.chunks(2).enumerate() {
        out.push_str(if index > 0 { "," } else { "" });
        push_json_string(&text(member[0]), &mut out);
        out.push(':');
        out.push_str(&if member[1].is_null() { "null".into() } else { text(member[1]) });
    }
    out.push('}');
    machine.ask_text(out.len())?;
    Ok(machine.frame.arena.push_bytes(out.as_bytes()))
}

/// Returns a row as text, with the quotes that PostgreSQL would write. NULL is left out.
/// Source: PostgreSQL 15, `record_out`.
fn row_text(values: &[Datum], machine: &mut Machine) -> Evaluated {
    let arena = &machine.frame.arena;
    let is_special = |c: char| matches!(c, '(' | ')' | ',' | '"' | '\\' | ' ' | '\t'..='\r');
    let mut out = String::from("(");
    for (position, value) in values.iter().enumerate() {
        out.push_str(if position > 0 { "," } else { "" });
        if value.is_null() {
            continue;
        }
        let text = String::from_utf8_lossy(arena.datum_bytes(*value));
        if text.is_empty() || text.contains(is_special) {
            out.push('"');
            out.push_str(&text.replace('\\', "\\\\").replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(&text);
        }
    }
    out.push(')');
    machine.ask_text(out.len())?;
    Ok(machine.frame.arena.push_bytes(out.as_bytes()))
}

/// Takes over the time zone that `set_config` has set: the statements of the running routine that follow see
/// it. The call is logged by value, as the function is one of the moment.
fn take_zone(arguments: &[LiveValue], value: &LiveValue, arena: &mut Arena) {
    if let ([LiveValue::Text(name), ..], LiveValue::Text(value)) = (arguments, value)
        && name.eq_ignore_ascii_case("timezone")
        && let Ok(zone) = SessionZone::of_setting(value)
    {
        arena.set_zone(Some(zone).filter(|zone| !zone.is_utc()).map(Arc::new));
    }
}

fn part_of_row(row: Datum, position: u16, count: u16, machine: &mut Machine) -> Evaluated {
    let arena = &mut machine.frame.arena;
    let part = row_part(&String::from_utf8_lossy(arena.datum_bytes(row)), position.into(), count.into())?;
    Ok(part.map_or(Datum::Null, |part| arena.push_bytes(part.as_bytes())))
}

/// Returns the value of a function of the moment.
fn of_the_moment(function: LiveFunction, values: &[Datum], machine: &mut Machine) -> Evaluated {
    let arena = &mut machine.frame.arena;
    let values: Vec<_> = values.iter().map(|value| LiveValue::of(*value, arena)).collect();
    if function == LiveFunction::SetConfig {
        machine.services.keep_settings(arena.shared_zone());
    }
    let value = machine.services.live_value(function, &values)?;
    if function == LiveFunction::SetConfig {
        take_zone(&values, &value, arena);
    }
    Ok(value.datum(arena))
}

impl Function {
    /// Returns whether the value depends on the call, and not on the arguments alone.
    pub fn depends_on_call(self) -> bool {
        matches!(
            self,
            Self::Now
                | Self::Next(_)
                | Self::NextNumber(_)
                | Self::CurrentNumber(_)
                | Self::LastNumber
                | Self::LastValue(_)
                | Self::IsCalled(_)
                | Self::Live(_)
                | Self::RowCount
                | Self::SetNumber(_)
        )
    }

    /// Returns whether the value depends on the zone of the session.
    pub fn depends_on_zone(self) -> bool {
        match self {
            Self::BuiltIn { built_in, element } => built_in.depends_on_zone(element),
            Self::CastElements(cast) => cast.depends_on_zone(),
            Self::ReadArray(element) => element.is_zoned(),
            _ => false,
        }
    }

    /// Returns whether the function is the built-in one with a name.
    pub fn is(self, name: &str) -> bool {
        matches!(self, Self::BuiltIn { built_in, .. } if built_in.name == name)
    }

    fn takes_null(self) -> bool {
        match self {
            Self::BuiltIn { built_in, .. } => built_in.takes_null,
            _ => matches!(
                self,
                Self::Greatest(_)
                    | Self::Least(_)
                    | Self::RowJson
                    | Self::RowText
                    | Self::WithElement
                    | Self::WithSlice { .. }
                    | Self::Live(LiveFunction::SetConfig | LiveFunction::Notify)
            ),
        }
    }

    /// Returns whether the function, with this number of arguments, is applied even if one is NULL.
    pub fn is_applied_to_null(self, arguments: usize) -> bool {
        arguments > MOST_VALUES || self.takes_null()
    }

    pub(crate) fn evaluate(self, arguments: &[Expression], machine: &mut Machine) -> Evaluated {
        machine.check_memory()?;
        let mut few = [Datum::Null; MOST_VALUES];
        if arguments.len() > few.len() {
            let values = arguments.iter().map(|argument| argument.evaluate(machine));
            return self.of(&values.collect::<Result<Vec<_>, _>>()?, machine);
        }
        // All arguments are evaluated, because one after a NULL may fail.
        for (value, argument) in few.iter_mut().zip(arguments) {
            *value = argument.evaluate(machine)?;
        }
        let values = &few[..arguments.len()];
        if !self.takes_null() && values.iter().any(|value| value.is_null()) {
            return Ok(Datum::Null);
        }
        self.of(values, machine)
    }

    /// Applies the function to its arguments. None is NULL, unless `is_applied_to_null` is true.
    pub(crate) fn apply(self, values: &[Datum], machine: &mut Machine) -> Evaluated {
        machine.check_memory()?;
        self.of(values, machine)
    }

    fn of(self, values: &[Datum], machine: &mut Machine) -> Evaluated {
        if values.len() > MOST_VALUES && !self.takes_null() && values.iter().any(|value| value.is_null()) {
            return Ok(Datum::Null);
        }
        match (self, values) {
            (Self::BuiltIn { built_in, element }, _) => match built_in.form {
                Form::Values(evaluate) | Form::Elements(evaluate) => {
                    evaluate(Call { machine, values, element })
                }
                _ => unreachable!("{built_in:?} is not computed from its arguments"),
            },
            (Self::Greatest(class), _) => Ok(extreme(class, Ordering::Greater, values, machine)),
            (Self::Least(class), _) => Ok(extreme(class, Ordering::Less, values, machine)),
            (Self::CanonicalJson, [json]) => {
                let text = String::from_utf8_lossy(machine.frame.arena.datum_bytes(*json));
                let text = canonical_jsonb(&text);
                Ok(machine.frame.arena.push_bytes(text.as_bytes()))
            }
            (Self::MissingRelation, [name]) => {
                let name = String::from_utf8_lossy(machine.frame.arena.datum_bytes(*name));
                Err(SqlError::new("42P01", format!("relation \"{name}\" does not exist")).into())
            }
            (Self::TotalOfInterval, [interval]) => {
                let total = Interval::from_bytes(machine.frame.arena.datum_bytes(*interval)).total();
                Ok(machine.frame.arena.push_numeric(Decimal { mantissa: total, scale: 0 }))
            }
            (Self::RowJson, members) => row_json(members, machine),
            (Self::RowText, values) => row_text(values, machine),
            (Self::RowPart { position, count }, [row]) => part_of_row(*row, position, count, machine),
            (Self::CastElements(cast), [Datum::Array(span)]) => {
                let arena = &mut machine.frame.arena;
                let elements = arena.elements(*span).to_vec();
                let elements = elements.into_iter().map(|element| cast.apply(element, arena));
                let elements = elements.collect::<Result<Vec<_>, _>>()?;
                Ok(arena.push_array(&elements))
            }
            (Self::ReadArray(element), [text]) => {
                let arena = &mut machine.frame.arena;
                let text = String::from_utf8_lossy(arena.datum_bytes(*text)).into_owned();
                Ok(array_datum(&text, element, arena)?)
            }
            (Self::Slice, [Datum::Array(span), Datum::Int(from), to @ ..]) => {
                let arena = &mut machine.frame.arena;
                let elements = arena.elements(*span);
                let clamped = |index: i64| usize::try_from(index).unwrap_or(0).min(elements.len());
                let to = if let [Datum::Int(to)] = to { clamped(*to) } else { elements.len() };
                let slice = elements.get(clamped(from.saturating_sub(1))..to).unwrap_or_default().to_vec();
                Ok(arena.push_array(&slice))
            }
            (Self::WithElement, [array, index, value]) => with_element(*array, *index, *value, machine),
            (Self::WithSlice { has_from, has_to }, [array, ends @ .., source]) => {
                let mut ends = ends.iter().copied();
                let from = has_from.then(|| ends.next()).flatten();
                let to = has_to.then(|| ends.next()).flatten();
                with_slice(*array, [from, to], *source, machine)
            }
            (Self::Nth(draw), [Datum::Int(words)]) => {
                let mut drawn = *words as u64;
                Ok(draw.value(machine, |machine| {
                    drawn += 1;
                    machine.frame.random_word(drawn)
                }))
            }
            (Self::SetNumber(sequence), [Datum::Int(number), called]) => {
                Ok(machine.services.set_number(sequence, *number, called.is_true())?)
            }
            (Self::Live(function), values) => of_the_moment(function, values, machine),
            _ => self.of_the_call(machine),
        }
    }

    fn of_the_call(self, machine: &mut Machine) -> Evaluated {
        Ok(match self {
            Self::NextNumber(sequence) => machine.services.next_number(sequence)?,
            Self::CurrentNumber(sequence) => machine.services.current_number(Some(sequence))?,
            Self::LastNumber => machine.services.current_number(None)?,
            Self::LastValue(sequence) => Datum::Int(machine.services.sequence_place(sequence)?.number),
            Self::IsCalled(sequence) => Datum::boolean(machine.services.sequence_place(sequence)?.is_given),
            Self::RowCount => Datum::Int(machine.frame.row_count),
            Self::Next(draw) => draw.value(machine, |machine| machine.frame.next_random()),
            Self::Now => Datum::Int(machine.frame.timestamp_us),
            _ => unreachable!("{self:?} has other arguments"),
        })
    }
}

/// Returns the value that compares as `wanted` with all other values; NULLs are left out.
fn extreme(class: CompareClass, wanted: Ordering, values: &[Datum], machine: &Machine) -> Datum {
    let mut best = Datum::Null;
    for value in values.iter().filter(|value| !value.is_null()) {
        if best.is_null() || compare(class, *value, best, &machine.frame.arena) == wanted {
            best = *value;
        }
    }
    best
}
