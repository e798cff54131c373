//! When a message says it happened: RFC 3339, or a number of seconds or milliseconds since 1970.
//!
//! Numbers below 100,000,000,000 are seconds (up to the year 5138), others milliseconds (from 1973 on). What cannot be
//! read, and what lies before 1970, is no time.

const MILLISECONDS_FROM: f64 = 1e11;
/// The year 9999 ends before; nothing later is a time.
const MOST_MS: i64 = 253_402_300_800_000;

/// Milliseconds since 1970 from a JSON value's text.
pub(super) fn milliseconds(json: &str) -> Option<u64> {
    let ms = if let Some(inner) = json.strip_prefix('"') {
        rfc_3339(inner.strip_suffix('"')?.as_bytes())?
    } else {
        let number: f64 = json.parse().ok()?;
        let ms = if number < MILLISECONDS_FROM {
            number * 1000.0
        } else {
            number
        };
        #[allow(
            clippy::cast_possible_truncation,
            reason = "a float beyond the range becomes its end"
        )]
        let ms = ms as i64;
        ms
    };
    u64::try_from(ms).ok().filter(|_| ms < MOST_MS)
}

/// `2026-11-30T17:36:55.123+01:00`; `T` may be a space or small, as may `Z`; a leap second is the second after it.
fn rfc_3339(text: &[u8]) -> Option<i64> {
    let (date_and_time, rest) = text.split_at_checked(19)?;
    let mut digits = date_and_time.iter().zip(b"dddd-dd-ddTdd:dd:dd");
    let is_shaped = digits.all(|(byte, shape)| match shape {
        b'd' => byte.is_ascii_digit(),
        b'T' => matches!(byte, b'T' | b't' | b' '),
        _ => byte == shape,
    });
    if !is_shaped {
        return None;
    }
    let number = |from: usize, to: usize| decimal(&date_and_time[from..to]);
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    let (hour, minute, second) = (number(11, 13), number(14, 16), number(17, 19));
    let is_sound = (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !is_sound {
        return None;
    }
    let (fraction_ms, zone) = fraction(rest)?;
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    Some((seconds - offset_seconds(zone)?) * 1000 + fraction_ms)
}

/// Milliseconds from `.123456`, if there, and what follows.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some(digits) = text.strip_prefix(b".") else {
        return Some((0, text));
    };
    let length = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if length == 0 {
        return None;
    }
    let ms = (0..3).fold(0, |ms, place| {
        ms * 10
            + if place < length {
                i64::from(digits[place] - b'0')
            } else {
                0
            }
    });
    Some((ms, &digits[length..]))
}

fn offset_seconds(zone: &[u8]) -> Option<i64> {
    match zone {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2]
            if [h1, h2, m1, m2].iter().all(|byte| byte.is_ascii_digit()) =>
        {
            let (hours, minutes) = (decimal(&[*h1, *h2]), decimal(&[*m1, *m2]));
            let seconds = hours * 3600 + minutes * 60;
            (hours < 24 && minutes < 60).then_some(if *sign == b'+' { seconds } else { -seconds })
        }
        _ => None,
    }
}

fn decimal(digits: &[u8]) -> i64 {
    digits
        .iter()
        .fold(0, |value, digit| value * 10 + i64::from(digit - b'0'))
}

fn days_in(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days in the proleptic Gregorian calendar. Years are counted from March, so that the leap day comes last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days_before_month = (153 * month + 2) / 5;
    365 * year + leap_days + days_before_month + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_way_to_write_a_moment_is_the_same_moment() {
        for json in [
            "\"2026-11-30T17:36:55.120Z\"",
            "\"2026-11-30t17:36:55.12z\"",
            "\"2026-11-30 18:36:55.1209999+01:00\"",
            "\"2026-11-30T13:06:55.120-04:30\"",
            "1796060215.12",
            "1796060215120",
            "1.79606021512e12",
        ] {
            assert_eq!(milliseconds(json), Some(1_796_060_215_120), "{json}");
        }
        assert_eq!(milliseconds("0"), Some(0));
        assert_eq!(milliseconds("99999999999"), Some(99_999_999_999_000));
        assert_eq!(milliseconds("100000000000"), Some(100_000_000_000));
        assert_eq!(
            milliseconds("\"2016-12-31T23:59:60Z\""),
            milliseconds("\"2017-01-01T00:00:00Z\"")
        );
    }

    #[test]
    fn what_is_no_time_is_none() {
        for json in [
            "null",
            "true",
            "{}",
            "[1]",
            "-1",
            "1e300",
            "\"\"",
            "\"now\"",
            "\"1796060215\"",
            "\"2026-02-29T00:00:00Z\"",
            "\"2026-13-01T00:00:00Z\"",
            "\"2026-00-01T00:00:00Z\"",
            "\"2026-01-00T00:00:00Z\"",
            "\"2026-01-01T24:00:00Z\"",
            "\"2026-01-01T00:60:00Z\"",
            "\"2026-01-01T00:00:61Z\"",
            "\"2026-01-01T00:00:00\"",
            "\"2026-01-01T00:00:00.Z\"",
            "\"2026-01-01T00:00:00+1:00\"",
            "\"2026-01-01T00:00:00+24:00\"",
            "\"2026-01-01T00:00:00Z \"",
            "\"1969-12-31T23:59:59Z\"",
            "\"2026-01-01\"",
            "\"\u{663}026-01-01T00:00:00Z\"",
        ] {
            assert_eq!(milliseconds(json), None, "{json}");
        }
    }

    proptest! {
        #[test]
        fn another_library_writes_what_is_read_here(seconds in 0..253_402_300_800_u64) {
            let moment = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            let text = format!("\"{}\"", humantime::format_rfc3339(moment));
            prop_assert_eq!(milliseconds(&text), Some(seconds * 1000));
        }

        #[test]
        fn no_text_is_a_panic(text in "\"\\PC{0,40}\"?|[0-9:TZ.+-]{0,40}") {
            let _ = milliseconds(&text);
        }
    }
}
