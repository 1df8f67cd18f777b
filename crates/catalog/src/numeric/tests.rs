//! Values of NUMERIC: their order, limits, arithmetic and stored bytes.

use super::*;

fn numeric(text: &str) -> Numeric {
    text.parse().unwrap()
}

/// Values of all kinds, in their order.
const VALUES: [&str; 13] = [
    "-Infinity",
    "-1e400",
    "-1e36",
    "-123456789012345678901234567890123456.7",
    "-1e-50",
    "0",
    "1e-16383",
    "1e-40",
    "1",
    "1.000000000000000000000000000000000000000000000000001",
    "1e131071",
    "Infinity",
    "NaN",
];

#[test]
fn a_value_is_as_small_as_a_decimal() {
    assert_eq!(size_of::<Numeric>(), size_of::<Decimal>());
    assert!(size_of::<crate::Value>() <= 48);
    assert_eq!(size_of::<crate::Datum>(), 16);
}

#[test]
fn values_have_one_order() {
    let values = VALUES.map(numeric);
    for (place, left) in values.iter().enumerate() {
        for (next, right) in values.iter().enumerate() {
            assert_eq!(left.compare(right), place.cmp(&next), "{place} {next}");
        }
    }
}

#[test]
fn stored_values_come_back() {
    for text in VALUES {
        let value = numeric(text);
        let bytes = value.stored();
        assert_eq!(bytes.len(), value.stored_length(), "{text}");
        match value.short() {
            Some(_) => assert_eq!(bytes, [0u8; 0]),
            None => {
                let back = Numeric::of_stored(&bytes).unwrap();
                assert_eq!(back, value, "{text}");
                assert_eq!(back.to_string(), value.to_string());
            }
        }
    }
    assert_eq!(Numeric::of_stored(&[0, 0, 0, 1]), None, "a decimal holds it");
}

#[test]
fn limits_are_postgresqls() {
    for text in ["1e131072", "1e-16384", "0e-16384", "1e1073741823", "1e99999999999"] {
        assert_eq!(text.parse::<Numeric>(), Err(DecimalError::Format), "{text}");
    }
    for text in ["", "+nan", "--inf", "infinit", "1e", "1.2.3"] {
        assert_eq!(text.parse::<Numeric>(), Err(DecimalError::Syntax), "{text}");
    }
    assert_eq!(numeric(" -inf "), Numeric::NegativeInfinity);
    assert_eq!(numeric("+Infinity"), Numeric::Infinity);
    let most = numeric("9e131071");
    assert_eq!(most.plus(&most), Err(DecimalError::Format));
    assert_eq!(most.times(&most), Err(DecimalError::Format));
}

#[test]
fn arithmetic_prints_as_postgresql_does() {
    // Right-hand sides are what PostgreSQL 15 prints.
    let (a, b) = (numeric("123456789012345678901234567890123456789.5"), numeric("3.25"));
    let cases = [
        (a.plus(&b), "123456789012345678901234567890123456792.75"),
        (a.minus(&b), "123456789012345678901234567890123456786.25"),
        (a.times(&b), "401234564290123456429012345642901234565.875"),
        (a.over(&b), "37986704311490978123456790120037986704.46"),
        (a.remainder(&b), "1.50"),
        (
            numeric("1e-40").over(&numeric("3")),
            "0.000000000000000000000000000000000000000033333333333333333333",
        ),
        (numeric("Infinity").minus(&numeric("Infinity")), "NaN"),
        (numeric("Infinity").times(&numeric("-2")), "-Infinity"),
        (numeric("Infinity").times(&numeric("0")), "NaN"),
        (numeric("5").over(&numeric("-Infinity")), "0"),
        (numeric("5.5").remainder(&numeric("Infinity")), "5.5"),
    ];
    for (result, expected) in cases {
        assert_eq!(result.unwrap().to_string(), expected);
    }
    assert_eq!(numeric("Infinity").over(&numeric("0")), Err(DecimalError::DivisionByZero));
    assert_eq!(numeric("NaN").over(&numeric("0")).unwrap().to_string(), "NaN");
}

#[test]
fn a_type_rounds_and_limits_its_values() {
    let fit = |text: &str, precision, scale| numeric(text).fit(precision, scale).map(|own| own.to_string());
    assert_eq!(fit("12345", 3, -2).as_deref(), Ok("12300"));
    assert_eq!(fit("99950", 3, -2), Err(DecimalError::Overflow));
    assert_eq!(fit("49", 3, -2).as_deref(), Ok("0"));
    assert_eq!(fit("0.00123", 2, 4).as_deref(), Ok("0.0012"));
    assert_eq!(fit("0.0123", 2, 5), Err(DecimalError::Overflow));
    assert_eq!(fit("NaN", 40, 2).as_deref(), Ok("NaN"));
    assert_eq!(fit("Infinity", 40, 2), Err(DecimalError::Overflow));
    assert_eq!(fit("1e-40", 40, 2).as_deref(), Ok("0.00"));
}
