//! Dates and timestamps as text and as numbers.

use super::*;

#[test]
fn values_of_time_zone_have_the_names_that_show_displays() {
    for (text, name, is_utc) in [
        ("utc", "UTC", true),
        ("etc/utc", "Etc/UTC", true),
        ("GMT", "GMT", false),
        ("europe/berlin", "Europe/Berlin", false),
        ("-3.5", "<-03:30>+03:30", false),
        ("interval '-08:00:00'", "<-08>+08", false),
        ("foo3", "FOO3", false),
    ] {
        let zone = SessionZone::of_setting(text).unwrap();
        assert_eq!((zone.name(), zone.is_utc()), (name, is_utc), "{text}");
    }
    for text in ["", "Nowhere", "PST", "168", "nan", "interval '1 day'", "<+05:30:15>-5:30:15"] {
        assert!(SessionZone::of_setting(text).is_err(), "{text}");
    }
}

#[test]
fn text_and_back() {
    for text in [
        "2026-11-21 12:13:14",
        "1999-12-31 23:59:59.5",
        "2000-01-01 00:00:00.000001",
        "4714-11-24 00:00:00 BC",
        "0001-12-31 23:59:59 BC",
        "294276-12-31 23:59:59.999999",
        "infinity",
        "-infinity",
    ] {
        assert_eq!(format_timestamp(parse_timestamp(text).unwrap()), text);
    }
    assert_eq!(parse_timestamptz("2000-01-01T01:00:00+01:00", None).unwrap(), 0);
    assert_eq!(parse_timestamp("2000-01-01T01:00:00+01:00").unwrap(), 3_600_000_000);
    assert_eq!(
        format_timestamptz(parse_timestamptz("0044-03-15 12:00:00+05 BC", None).unwrap(), None),
        "0044-03-15 07:00:00+00 BC"
    );
    assert_eq!(parse_date("2000-03-01").unwrap(), 60);
    assert_eq!(format_date(-1), "1999-12-31");
    assert_eq!(parse_date("5874897-12-31").unwrap(), 2_145_031_948);
    assert_eq!(parse_date("4714-11-24 BC").unwrap(), -2_451_545);
}

#[test]
fn the_short_way_reads_what_the_long_one_does() {
    for text in [
        "2020-02-29",
        "0001-01-01 00:00:00",
        "2020-02-29 23:59:59",
        "2020-02-29T23:59:59.5",
        "9999-12-31 23:59:59.000001",
        "2020-02-29 00:00:00.123456",
    ] {
        let moment = canonical::read(text).unwrap();
        // The general reader skips a leading blank; the short form does not allow it.
        let blank = format!(" {text}");
        assert_eq!(canonical::read(&blank), None);
        assert_eq!(moment.timestamp(), parse_timestamptz(&blank, None), "{text}");
    }
    for text in [
        "2021-02-29",
        "2020-02-29 24:00:00",
        "2020-02-29 12:00",
        "2020-02-29 12:00:00+01",
        "2020-02-29 12:00:00.",
        "ä020-02-29",
        "2020-02-2ä",
    ] {
        assert_eq!(canonical::read(text), None, "{text}");
    }
}

#[test]
fn texts_of_other_forms_are_read_or_refused_as_postgresql_does() {
    let days = [
        ("2020-01-02 +00", "2020-01-02"),
        ("2020-1-2", "2020-01-02"),
        ("20200102", "2020-01-02"),
        ("200102", "2020-01-02"),
        ("January 8, 1999", "1999-01-08"),
        ("8-Jan-1999", "1999-01-08"),
        ("jan-08-99", "1999-01-08"),
        ("1/8/1999", "1999-01-08"),
        ("Thu Jan 08 04:05:06 1998 PST", "1998-01-08"),
        ("2020.366", "2020-12-31"),
        ("epoch", "1970-01-01"),
        ("J2451187", "1999-01-08"),
        ("mon julian 2451187.5 BC", "1999-01-08"),
        ("mon jan 8 1999", "1999-01-08"),
        ("EST 1999-01-08", "1999-01-08"),
    ];
    for (text, day) in days {
        assert_eq!(parse_date(text).map(format_date).as_deref(), Ok(day), "{text}");
    }
    let refused = [
        ("2000-13-01", "22008"),
        ("2000-02-30", "22008"),
        ("0000-01-01", "22008"),
        ("2000-01-01 25:00", "22008"),
        ("2000-01-01 12:60", "22008"),
        ("5874898-01-01", "22008"),
        ("4714-11-23 BC", "22008"),
        ("99999999999-01-01", "22008"),
        ("2000-01-01 12:00+16", "22009"),
        ("soon", "22007"),
        ("", "22007"),
        ("2000-01", "22007"),
        ("mon 1999-01-08", "22007"),
        ("pm1999-01-08", "22007"),
        ("EDT 1999-01-08", "22007"),
        ("10:00 1999-01-08", "22007"),
        ("J2451187 2451187", "22007"),
        ("J2147483494", "22008"),
        ("12:00", "22007"),
        ("2000-01-01 2000-01-01", "22007"),
        ("2000-01-01 12:00 +", "22007"),
        ("today", "0A000"),
    ];
    for (text, sqlstate) in refused {
        assert_eq!(parse_date(text).map_err(|error| error.sqlstate()), Err(sqlstate), "{text}");
    }
}

#[test]
fn values_out_of_range_are_refused() {
    for days in [FIRST_DATE, LAST_DATE, DATE_BEFORE_ALL.into(), DATE_AFTER_ALL.into()] {
        assert_eq!(checked_date(days).map(i64::from), Ok(days));
    }
    for days in [FIRST_DATE - 1, LAST_DATE + 1, i64::from(i32::MAX) - 1, i64::MAX] {
        assert_eq!(checked_date(days), Err(TemporalError::Range("date")));
    }
    for us in [FIRST_TIMESTAMP, END_OF_TIMESTAMPS - 1, TIMESTAMP_BEFORE_ALL, TIMESTAMP_AFTER_ALL] {
        assert_eq!(checked_timestamp(us), Ok(us));
    }
    for us in [FIRST_TIMESTAMP - 1, END_OF_TIMESTAMPS, i64::MIN + 1, i64::MAX - 1] {
        assert_eq!(checked_timestamp(us), Err(TemporalError::Range("timestamp")));
    }
    assert!(date_plus(0, i64::MAX).is_err() && date_plus(0, i32::MAX.into()).is_err());
    assert!(timestamp_plus(1, i64::MAX - 1).is_err());
    assert!(midnight_of(LAST_DATE).is_err());
    // A damaged row's date outside the range is still formatted.
    assert!([i32::MIN + 1, i32::MAX - 1].map(format_date).iter().all(|text| !text.is_empty()));
    assert!([i64::MIN + 1, i64::MAX - 1].map(format_timestamp).iter().all(|text| !text.is_empty()));
}

#[test]
fn days_are_counted_without_gaps() {
    let mut last = day_of(FIRST_DATE);
    assert_eq!(last, Day { year: -4713, month: 11, day: 24 });
    for days in FIRST_DATE + 1..400_000 {
        let day = day_of(days);
        assert_eq!(day.days(), days);
        let follows =
            day.day == last.day + 1 || day.day == 1 && last.day == Day::in_month(last.year, last.month);
        assert!(follows, "{last:?} before {day:?}");
        last = day;
    }
    assert_eq!(day_of(LAST_DATE), Day { year: 5_874_897, month: 12, day: 31 });
    assert_eq!(day_of(0).weekday(), 6);
    assert_eq!(Day { year: 2026, month: 3, day: 7 }.iso_week(), (2026, 10));
    assert_eq!(Day { year: 2021, month: 1, day: 3 }.iso_week(), (2020, 53));
}
