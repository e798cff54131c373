//! How values are written on the command line: rates, durations, bytes, switches.

use std::net::IpAddr;
use std::time::Duration;

use clap::ValueEnum;
use ipnet::IpNet;

use crate::filter::SMALLEST_RATE;

/// A switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnOff {
    /// Yes.
    On,
    /// No.
    Off,
}

pub(super) fn parse<T>(text: &str) -> Result<T, String>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error: T::Err| error.to_string())
}

pub(super) fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text
        .parse()
        .map_err(|_| "expected a number such as 0.001".to_owned())?;
    if (SMALLEST_RATE..1.0).contains(&rate) {
        Ok(rate)
    } else {
        Err(format!(
            "a false-positive rate lies between {SMALLEST_RATE:e} and 1, 1 excluded"
        ))
    }
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match duration_or_zero(text)? {
        Duration::ZERO => Err("it must be longer than nothing".into()),
        duration => Ok(duration),
    }
}

pub(super) fn duration_or_zero(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text)
        .map_err(|_| "expected a duration such as 100ms, 2s or 1m".to_owned())?;
    if duration > Duration::from_hours(24) {
        return Err("more than a day is certainly a slip".into());
    }
    Ok(duration)
}

/// A place in the outbox that nobody confirms for an hour is forgotten, and two copies are kept.
pub(super) fn save_interval(text: &str) -> Result<Duration, String> {
    let interval = duration_or_zero(text)?;
    if interval > Duration::from_mins(20) {
        return Err("copies older than 20m would lose their place in the outbox".into());
    }
    Ok(interval)
}

pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit: u64 = match &text[digits.len()..] {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err("expected bytes such as 1073741824, 512MiB or 8GiB".into()),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "expected bytes such as 1073741824, 512MiB or 8GiB".to_owned())?;
    number
        .checked_mul(unit)
        .ok_or_else(|| "more bytes than any machine has".into())
}

pub(super) fn per_second(text: &str) -> Result<f64, String> {
    let rate: f64 = text
        .parse()
        .map_err(|_| "expected a number such as 4 or 0.5".to_owned())?;
    if (0.001..=1e6).contains(&rate) {
        Ok(rate)
    } else {
        Err("a budget fills up with 0.001 to 1000000 units a second".into())
    }
}

/// A network, or one address, which is a network of its own.
pub(super) fn network(text: &str) -> Result<IpNet, String> {
    let text = text.trim();
    let network: Option<IpNet> = match text.parse::<IpAddr>() {
        Ok(address) => Some(address.into()),
        Err(_) => text.parse().ok(),
    };
    network.ok_or_else(|| "expected a network such as 10.0.0.0/8, or an address".into())
}

/// What a browser sends in its `Origin` header: scheme, host, and the port where it is not the usual one.
pub(super) fn origin(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text == "*" {
        return Ok(text.to_owned());
    }
    let written_so = url::Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"))
        .map(|url| url.origin().ascii_serialization());
    match written_so {
        Some(origin) if origin == text => Ok(origin),
        Some(origin) => Err(format!("a browser writes this origin {origin}")),
        None => Err("expected an origin such as https://signup.example, or *".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        assert_eq!(bytes("64"), Ok(64));
        assert_eq!(bytes("8GiB"), Ok(8 << 30));
        assert!(bytes("8GB").is_err());
        assert!(bytes("GiB").is_err());
        assert!(bytes("99999999999GiB").is_err());
    }

    #[test]
    fn a_rate_is_a_probability() {
        assert_eq!(rate("0.001"), Ok(0.001));
        for wrong in ["0", "1", "-0.1", "5", "NaN", "inf", "5e-324", "1%", ""] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_network_may_be_one_address() {
        assert_eq!(network("10.1.2.3"), Ok("10.1.2.3/32".parse().expect("one")));
        assert_eq!(network(" ::1 "), Ok("::1/128".parse().expect("one")));
        assert!(network("10.0.0.0/8").is_ok());
        for wrong in ["", "10.0.0.0/33", "10.0.0", "proxy.example", "::1/129"] {
            assert!(network(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_origin_is_written_as_browsers_write_it() {
        for right in ["https://signup.example", "http://localhost:8081", "*"] {
            assert_eq!(origin(right).as_deref(), Ok(right));
        }
        for wrong in [
            "https://signup.example/",
            "https://signup.example:443",
            "HTTPS://signup.example",
            "https://signup.example/form",
            "signup.example",
            "ftp://signup.example",
            "null",
            "",
        ] {
            assert!(origin(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_budget_fills_up_at_a_sensible_rate() {
        assert_eq!(per_second("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "NaN", "inf", "1e9", "often"] {
            assert!(per_second(wrong).is_err(), "{wrong}");
        }
    }
}
