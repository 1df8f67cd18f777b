//! Times and amounts of memory in settings: what clients write, and what SHOW displays.

/// The unit of a setting.
pub(super) enum Unit {
    None,
    /// This many bytes.
    Bytes(u64),
    /// This many microseconds.
    Microseconds(u64),
}

/// Units of time, in microseconds.
const TIMES: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];
/// Units of memory, in bytes.
const SIZES: [(&str, u64); 5] =
    [("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10), ("B", 1)];

impl Unit {
    /// Returns the unit of a name in `pg_settings`.
    pub(super) fn of(name: &str) -> Self {
        let time = TIMES.iter().find(|(known, _)| *known == name);
        match (name, time) {
            ("8kB", _) => Self::Bytes(8 << 10),
            (_, Some((_, unit))) => Self::Microseconds(*unit),
            _ => SIZES
                .iter()
                .find(|(known, _)| *known == name)
                .map_or(Self::None, |(_, unit)| Self::Bytes(*unit)),
        }
    }
}

/// Reads a number with one of the units; without one it counts `unit`.
fn amount(text: &str, unit: u64, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let name = text[end..].trim();
    let unit = match name {
        "" => unit,
        name => units.iter().find(|(known, _)| *known == name)?.1,
    };
    match text[..end].parse::<u64>() {
        Ok(number) => number.checked_mul(unit),
        Err(_) => text[..end].parse::<f64>().ok().map(|number| (number * unit as f64).round() as u64),
    }
}

/// Reads an amount of memory. Returns bytes.
pub(crate) fn memory_of(text: &str, unit: u64) -> Option<u64> {
    amount(text, unit, &SIZES)
}

/// Reads a time. Returns microseconds.
pub(crate) fn duration_of(text: &str, unit: u64) -> Option<u64> {
    amount(text, unit, &TIMES)
}

fn in_largest(number: u64, units: &[(&str, u64)]) -> String {
    match units.iter().find(|(_, unit)| number.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", number / unit),
        None => number.to_string(),
    }
}

/// Returns an amount of memory in the largest unit in which it is a whole number.
pub(crate) fn memory_text(bytes: u64) -> String {
    if bytes == 0 { "0".into() } else { in_largest(bytes, &SIZES) }
}

/// Returns a time in the largest unit in which it is a whole number.
pub(crate) fn time_text(microseconds: u64) -> String {
    if microseconds == 0 { "0".into() } else { in_largest(microseconds, &TIMES) }
}

/// Returns a value without its quotes.
pub(super) fn unquoted(text: &str) -> String {
    let text = text.trim();
    match text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        Some(inner) => inner.replace("''", "'"),
        None => text.into(),
    }
}
