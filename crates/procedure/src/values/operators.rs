//! The table of operators: one entry for each signature.
//!
//! The binder chooses an entry by the types of the operands, and `pg_operator` shows all entries. Operands of
//! two integer types, or of a date and a timestamp, have no entries: the shorter one is converted.
//! Source: PostgreSQL 15's documentation, "Functions and Operators", and its `pg_operator`.

use crate::values::functions::Kind;
use crate::{ArithmeticOperator, CompareOperator};
use std::collections::HashMap;
use std::sync::LazyLock;

/// One signature of an operator.
#[derive(Clone, Copy, Debug)]
pub struct Operator {
    /// The symbol of the operator.
    pub symbol: &'static str,
    /// The types of the operands: two, or the right one alone.
    pub operands: &'static [Kind],
    /// The type of the result.
    pub result: Kind,
    /// The way in which the result is evaluated.
    pub form: OperatorForm,
}

/// The way in which an operator is evaluated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperatorForm {
    /// By arithmetic. With one operand, `+` is the operand, and `-` is its negative.
    Arithmetic(ArithmeticOperator),
    /// By comparing the operands.
    Compare(CompareOperator),
    /// By the built-in function with this name.
    Function(&'static str),
}

const BOOL: Kind = Kind::BOOL;
const INT2: Kind = Kind::INT2;
const INT4: Kind = Kind::INT4;
const INT8: Kind = Kind::INT8;
const NUMERIC: Kind = Kind::NUMERIC;
const FLOAT4: Kind = Kind::FLOAT4;
const FLOAT8: Kind = Kind::FLOAT8;
const TEXT: Kind = Kind::TEXT;
const BYTEA: Kind = Kind::BYTEA;
const DATE: Kind = Kind::DATE;
const TIMESTAMP: Kind = Kind::TIMESTAMP;
const TIMESTAMPTZ: Kind = Kind::TIMESTAMPTZ;
const INTERVAL: Kind = Kind::INTERVAL;
const TIME: Kind = Kind::TIME;
const JSON: Kind = Kind::JSON;
const JSONB: Kind = Kind::JSONB;
const TEXTS: Kind = Kind::TEXTS;

const fn function(
    symbol: &'static str,
    operands: &'static [Kind],
    result: Kind,
    name: &'static str,
) -> Operator {
    Operator { symbol, operands, result, form: OperatorForm::Function(name) }
}

const fn arithmetic(operator: ArithmeticOperator, operands: &'static [Kind], result: Kind) -> Operator {
    Operator { symbol: operator.symbol(), operands, result, form: OperatorForm::Arithmetic(operator) }
}

/// The pairs of operands of arithmetic that have one type.
static NUMBERS: [&[Kind]; 6] =
    [&[INT2, INT2], &[INT4, INT4], &[INT8, INT8], &[NUMERIC, NUMERIC], &[FLOAT4, FLOAT4], &[FLOAT8, FLOAT8]];

/// The pairs of a REAL and a double. Beside another number, too, a REAL is taken as a double.
const FLOATS: [&[Kind]; 2] = [&[FLOAT4, FLOAT8], &[FLOAT8, FLOAT4]];

/// The pairs of operands that can be compared.
static COMPARED: [&[Kind]; 22] = [
    &[INT2, INT2],
    &[INT4, INT4],
    &[INT8, INT8],
    &[NUMERIC, NUMERIC],
    &[FLOAT4, FLOAT4],
    FLOATS[0],
    FLOATS[1],
    &[FLOAT8, FLOAT8],
    &[BOOL, BOOL],
    &[TEXT, TEXT],
    &[Kind::BPCHAR, Kind::BPCHAR],
    &[BYTEA, BYTEA],
    &[Kind::UUID, Kind::UUID],
    &[DATE, DATE],
    &[Kind::TIMESTAMP, Kind::TIMESTAMP],
    &[Kind::TIMESTAMPTZ, Kind::TIMESTAMPTZ],
    &[INTERVAL, INTERVAL],
    &[TIME, TIME],
    &[Kind::OID, Kind::OID],
    &[JSONB, JSONB],
    &[Kind::AnyArray, Kind::AnyArray],
    &[Kind::AnyEnum, Kind::AnyEnum],
];

static FURTHER: &[Operator] = &[
    arithmetic(ArithmeticOperator::Add, &[DATE, INT4], DATE),
    arithmetic(ArithmeticOperator::Add, &[INT4, DATE], DATE),
    arithmetic(ArithmeticOperator::Subtract, &[DATE, INT4], DATE),
    arithmetic(ArithmeticOperator::Subtract, &[DATE, DATE], INT4),
    function("+", &[DATE, INTERVAL], TIMESTAMP, "date_pl_interval"),
    function("+", &[INTERVAL, DATE], TIMESTAMP, "interval_pl_date"),
    function("+", &[INTERVAL, INTERVAL], INTERVAL, "interval_pl"),
    function("+", &[INTERVAL, TIMESTAMP], TIMESTAMP, "interval_pl_timestamp"),
    function("+", &[INTERVAL, TIMESTAMPTZ], TIMESTAMPTZ, "interval_pl_timestamptz"),
    function("+", &[TIMESTAMP, INTERVAL], TIMESTAMP, "timestamp_pl_interval"),
    function("+", &[TIMESTAMPTZ, INTERVAL], TIMESTAMPTZ, "timestamptz_pl_interval"),
    function("+", &[DATE, TIME], TIMESTAMP, "datetime_pl"),
    function("+", &[TIME, DATE], TIMESTAMP, "timedate_pl"),
    function("+", &[INTERVAL, TIME], TIME, "interval_pl_time"),
    function("+", &[TIME, INTERVAL], TIME, "time_pl_interval"),
    function("-", &[TIME, INTERVAL], TIME, "time_mi_interval"),
    function("-", &[TIME, TIME], INTERVAL, "time_mi_time"),
    function("-", &[DATE, INTERVAL], TIMESTAMP, "date_mi_interval"),
    function("-", &[INTERVAL, INTERVAL], INTERVAL, "interval_mi"),
    function("-", &[TIMESTAMP, INTERVAL], TIMESTAMP, "timestamp_mi_interval"),
    function("-", &[TIMESTAMP, TIMESTAMP], INTERVAL, "timestamp_mi"),
    function("-", &[TIMESTAMPTZ, INTERVAL], TIMESTAMPTZ, "timestamptz_mi_interval"),
    function("-", &[TIMESTAMPTZ, TIMESTAMPTZ], INTERVAL, "timestamptz_mi"),
    function("-", &[INTERVAL], INTERVAL, "interval_um"),
    function("*", &[FLOAT8, INTERVAL], INTERVAL, "mul_d_interval"),
    function("*", &[INTERVAL, FLOAT8], INTERVAL, "interval_mul"),
    function("/", &[INTERVAL, FLOAT8], INTERVAL, "interval_div"),
    function("#", &[INT2, INT2], INT2, "int2xor"),
    function("#", &[INT4, INT4], INT4, "int4xor"),
    function("#", &[INT8, INT8], INT8, "int8xor"),
    function("&", &[INT2, INT2], INT2, "int2and"),
    function("&", &[INT4, INT4], INT4, "int4and"),
    function("&", &[INT8, INT8], INT8, "int8and"),
    function("|", &[INT2, INT2], INT2, "int2or"),
    function("|", &[INT4, INT4], INT4, "int4or"),
    function("|", &[INT8, INT8], INT8, "int8or"),
    function("~", &[INT2], INT2, "int2not"),
    function("~", &[INT4], INT4, "int4not"),
    function("~", &[INT8], INT8, "int8not"),
    function("<<", &[INT2, INT4], INT2, "int2shl"),
    function("<<", &[INT4, INT4], INT4, "int4shl"),
    function("<<", &[INT8, INT4], INT8, "int8shl"),
    function(">>", &[INT2, INT4], INT2, "int2shr"),
    function(">>", &[INT4, INT4], INT4, "int4shr"),
    function(">>", &[INT8, INT4], INT8, "int8shr"),
    function("^", &[NUMERIC, NUMERIC], NUMERIC, "power"),
    function("^", &[FLOAT8, FLOAT8], FLOAT8, "power"),
    function("@", &[INT2], INT2, "abs"),
    function("@", &[INT4], INT4, "abs"),
    function("@", &[INT8], INT8, "abs"),
    function("@", &[NUMERIC], NUMERIC, "abs"),
    function("@", &[FLOAT4], FLOAT4, "abs"),
    function("@", &[FLOAT8], FLOAT8, "abs"),
    function("|/", &[FLOAT8], FLOAT8, "sqrt"),
    function("||/", &[FLOAT8], FLOAT8, "cbrt"),
    function("||", &[TEXT, TEXT], TEXT, "textcat"),
    function("||", &[TEXT, Kind::AnyNonArray], TEXT, "textanycat"),
    function("||", &[Kind::AnyNonArray, TEXT], TEXT, "anytextcat"),
    function("||", &[BYTEA, BYTEA], BYTEA, "byteacat"),
    function(
        "||",
        &[Kind::AnyCompatibleArray, Kind::AnyCompatible],
        Kind::AnyCompatibleArray,
        "array_append",
    ),
    function(
        "||",
        &[Kind::AnyCompatible, Kind::AnyCompatibleArray],
        Kind::AnyCompatibleArray,
        "array_prepend",
    ),
    function(
        "||",
        &[Kind::AnyCompatibleArray, Kind::AnyCompatibleArray],
        Kind::AnyCompatibleArray,
        "array_cat",
    ),
    function("@>", &[Kind::AnyArray, Kind::AnyArray], BOOL, "arraycontains"),
    function("<@", &[Kind::AnyArray, Kind::AnyArray], BOOL, "arraycontained"),
    function("&&", &[Kind::AnyArray, Kind::AnyArray], BOOL, "arrayoverlap"),
    function("->", &[JSON, TEXT], JSON, "json_object_field"),
    function("->", &[JSON, INT4], JSON, "json_array_element"),
    function("->", &[JSONB, TEXT], JSONB, "jsonb_object_field"),
    function("->", &[JSONB, INT4], JSONB, "jsonb_array_element"),
    function("->>", &[JSON, TEXT], TEXT, "json_object_field_text"),
    function("->>", &[JSON, INT4], TEXT, "json_array_element_text"),
    function("->>", &[JSONB, TEXT], TEXT, "jsonb_object_field_text"),
    function("->>", &[JSONB, INT4], TEXT, "jsonb_array_element_text"),
    function("#>", &[JSON, TEXTS], JSON, "json_extract_path"),
    function("#>", &[JSONB, TEXTS], JSONB, "jsonb_extract_path"),
    function("#>>", &[JSON, TEXTS], TEXT, "json_extract_path_text"),
    function("#>>", &[JSONB, TEXTS], TEXT, "jsonb_extract_path_text"),
    function("@>", &[JSONB, JSONB], BOOL, "jsonb_contains"),
    function("<@", &[JSONB, JSONB], BOOL, "jsonb_contained"),
    function("?", &[JSONB, TEXT], BOOL, "jsonb_exists"),
    function("?|", &[JSONB, TEXTS], BOOL, "jsonb_exists_any"),
    function("?&", &[JSONB, TEXTS], BOOL, "jsonb_exists_all"),
    function("||", &[JSONB, JSONB], JSONB, "jsonb_concat"),
    function("-", &[JSONB, TEXT], JSONB, "jsonb_delete"),
    function("-", &[JSONB, INT4], JSONB, "jsonb_delete"),
    function("-", &[JSONB, TEXTS], JSONB, "jsonb_delete"),
    function("#-", &[JSONB, TEXTS], JSONB, "jsonb_delete_path"),
    function("^@", &[TEXT, TEXT], BOOL, "starts_with"),
    function("~", &[Kind::BPCHAR, TEXT], BOOL, "bpcharregexeq"),
    function("!~", &[Kind::BPCHAR, TEXT], BOOL, "bpcharregexne"),
    function("~*", &[Kind::BPCHAR, TEXT], BOOL, "bpcharicregexeq"),
    function("!~*", &[Kind::BPCHAR, TEXT], BOOL, "bpcharicregexne"),
    function("~~", &[Kind::BPCHAR, TEXT], BOOL, "bpcharlike"),
    function("!~~", &[Kind::BPCHAR, TEXT], BOOL, "bpcharnlike"),
    function("~~*", &[Kind::BPCHAR, TEXT], BOOL, "bpchariclike"),
    function("!~~*", &[Kind::BPCHAR, TEXT], BOOL, "bpcharicnlike"),
    function("~", &[TEXT, TEXT], BOOL, "textregexeq"),
    function("!~", &[TEXT, TEXT], BOOL, "textregexne"),
    function("~*", &[TEXT, TEXT], BOOL, "texticregexeq"),
    function("!~*", &[TEXT, TEXT], BOOL, "texticregexne"),
    function("~~", &[TEXT, TEXT], BOOL, "textlike"),
    function("!~~", &[TEXT, TEXT], BOOL, "textnlike"),
    function("~~", &[BYTEA, BYTEA], BOOL, "bytealike"),
    function("!~~", &[BYTEA, BYTEA], BOOL, "byteanlike"),
    function("~~*", &[TEXT, TEXT], BOOL, "texticlike"),
    function("!~~*", &[TEXT, TEXT], BOOL, "texticnlike"),
];

/// All entries: those for each pair of numbers, those for each pair of comparable types, and the rest.
static OPERATORS: LazyLock<Vec<Operator>> = LazyLock::new(|| {
    use ArithmeticOperator::{Add, Divide, Multiply, Remainder, Subtract};
    use CompareOperator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let mut all = FURTHER.to_vec();
    for operands in NUMBERS {
        let has_remainder = operands[0] != FLOAT4 && operands[0] != FLOAT8;
        let operators =
            [Add, Subtract, Multiply, Divide].into_iter().chain(has_remainder.then_some(Remainder));
        all.extend(operators.map(|operator| arithmetic(operator, operands, operands[0])));
        all.push(arithmetic(Subtract, &operands[1..], operands[0]));
        all.push(arithmetic(Add, &operands[1..], operands[0]));
    }
    for operands in FLOATS {
        all.extend([Add, Subtract, Multiply, Divide].map(|operator| arithmetic(operator, operands, FLOAT8)));
    }
    for operator in [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual] {
        let (symbol, form) = (operator.symbol(), OperatorForm::Compare(operator));
        all.extend(COMPARED.map(|operands| Operator { symbol, operands, result: BOOL, form }));
    }
    all
});

/// Returns all entries.
pub fn operators() -> &'static [Operator] {
    &OPERATORS
}

/// Returns the entries with a symbol and a number of operands.
pub fn operators_named(symbol: &str, operands: usize) -> impl Iterator<Item = &'static Operator> + Clone {
    static SYMBOLS: LazyLock<HashMap<&str, Vec<&Operator>>> = LazyLock::new(|| {
        let mut symbols: HashMap<_, Vec<_>> = HashMap::new();
        operators().iter().for_each(|operator| symbols.entry(operator.symbol).or_default().push(operator));
        symbols
    });
    let named = SYMBOLS.get(symbol).map_or(&[][..], Vec::as_slice);
    named.iter().copied().filter(move |operator| operator.operands.len() == operands)
}
