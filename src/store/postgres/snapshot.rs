//! A position in the change feed: a `pg_snapshot`, the set of transactions whose changes are in the filter.
//!
//! Not a number: a transaction with a smaller id may commit later than one with a greater. A snapshot names those that
//! were still running, and the next poll asks for exactly them and for everything newer.

use std::str::FromStr;

/// The text form of PostgreSQL's `pg_snapshot`: `xmin:xmax:xip,xip,...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// Every transaction below this had ended.
    pub(super) xmin: u64,
    /// No transaction from this on had begun to be visible.
    pub(super) xmax: u64,
    /// Those in between that were running.
    pub(super) running: Vec<u64>,
}

impl Snapshot {
    /// The bounds as a poll takes them: `xid8` values as text.
    #[must_use]
    pub(super) fn poll_arguments(&self) -> (String, Vec<String>) {
        (
            self.xmax.to_string(),
            self.running.iter().map(u64::to_string).collect(),
        )
    }

    /// Back to PostgreSQL's text form.
    #[must_use]
    pub(super) fn to_text(&self) -> String {
        let running: Vec<String> = self.running.iter().map(u64::to_string).collect();
        format!("{}:{}:{}", self.xmin, self.xmax, running.join(","))
    }
}

impl FromStr for Snapshot {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.splitn(3, ':');
        let mut number = || parts.next().unwrap_or_default().parse();
        let (xmin, xmax) = (number()?, number()?);
        let running = parts.next().unwrap_or_default();
        let running = running
            .split(',')
            .filter(|id| !id.is_empty())
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            xmin,
            xmax,
            running,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_is_read_and_written() {
        for text in ["745:745:", "745:751:745,748", "3:18446744073709551615:3"] {
            let snapshot: Snapshot = text.parse().expect("a snapshot");
            assert_eq!(snapshot.to_text(), text);
        }
        let snapshot: Snapshot = "745:751:745,748".parse().expect("a snapshot");
        assert_eq!(
            snapshot.poll_arguments(),
            ("751".into(), vec!["745".into(), "748".into()])
        );
    }

    #[test]
    fn what_is_no_snapshot_is_refused() {
        for text in ["", "745", "a:b:c", "1:2:x", "-1:2:"] {
            assert!(text.parse::<Snapshot>().is_err(), "{text}");
        }
    }
}
