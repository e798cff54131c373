//! Numbers out of a page in the Prometheus or OpenMetrics text format.

use std::collections::BTreeMap;

/// One value of a metrics page.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) series: Series,
    pub(crate) value: f64,
}

/// A name with its labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
}

impl Series {
    /// Parses `name` or `name{label="value",...}`; `None` when it is neither.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (series, rest) = Self::parse_prefix(text)?;
        rest.trim().is_empty().then_some(series)
    }

    /// Whether `other` has this name and at least these labels.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        self.name == other.name
            && self
                .labels
                .iter()
                .all(|(label, value)| other.labels.get(label) == Some(value))
    }

    /// The series at the start of `text`, and what follows it.
    fn parse_prefix(text: &str) -> Option<(Self, &str)> {
        let end = text
            .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | ':'))
            .unwrap_or(text.len());
        let (name, mut rest) = text.split_at(end);
        let mut labels = BTreeMap::new();
        if let Some(inside) = rest.strip_prefix('{') {
            rest = inside;
            loop {
                rest = rest.trim_start_matches([',', ' ']);
                if let Some(after) = rest.strip_prefix('}') {
                    rest = after;
                    break;
                }
                let (label, quoted) = rest.split_once("=\"")?;
                let (value, after) = unquoted(quoted)?;
                labels.insert(label.trim().to_owned(), value);
                rest = after;
            }
        }
        (!name.is_empty()).then(|| {
            (
                Self {
                    name: name.to_owned(),
                    labels,
                },
                rest,
            )
        })
    }
}

/// Every sample of a page, in its order; comments, time stamps and exemplars are passed over.
/// # Panics
/// When a line is none of these: a page that only some readers understand is a fault.
#[track_caller]
pub(crate) fn samples(page: &str) -> Vec<Sample> {
    let lines = page
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| sample(line).unwrap_or_else(|| panic!("not a sample: {line:?}")))
        .collect()
}

/// The sum of all samples that `series` includes: of one when it has all their labels, of a whole
/// family when it has none; 0 when there is no such sample, since many counters first show when
/// they first count.
/// # Panics
/// When `series` or the page cannot be read.
#[track_caller]
pub(crate) fn sum(page: &str, series: &str) -> f64 {
    let wanted = Series::parse(series).unwrap_or_else(|| panic!("not a series: {series:?}"));
    let included = samples(page)
        .into_iter()
        .filter(|sample| wanted.includes(&sample.series));
    included.map(|sample| sample.value).sum()
}

fn sample(line: &str) -> Option<Sample> {
    let (series, rest) = Series::parse_prefix(line)?;
    let value = rest.split_whitespace().next()?.parse().ok()?; // also reads NaN, +Inf and -Inf
    Some(Sample { series, value })
}

/// The text up to the closing quote, and what follows the quote.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                escaped => value.push(escaped),
            },
            plain => value.push(plain),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"# HELP gate_answers Answers given.
# TYPE gate_answers counter
gate_answers_total{verdict="free",source="filter"} 40 # {trace="x"} 1
gate_answers_total{source="database",verdict="free"} 2 1700000000.5
gate_answers_total{verdict="taken",source="a \"}\" b"} 1
gate_fill_ratio 0.25
gate_bucket{le="+Inf"} +Inf
# EOF
"#;

    #[test]
    #[expect(
        clippy::float_cmp,
        reason = "small whole numbers and powers of two are exact"
    )]
    fn a_series_sums_up_every_sample_with_its_labels_in_any_order() {
        assert_eq!(sum(PAGE, "gate_answers_total"), 43.0);
        assert_eq!(sum(PAGE, r#"gate_answers_total{verdict="free"}"#), 42.0);
        assert_eq!(
            sum(
                PAGE,
                r#"gate_answers_total{verdict="free",source="database"}"#
            ),
            2.0
        );
        assert_eq!(sum(PAGE, r#"gate_answers_total{source="a \"}\" b"}"#), 1.0);
        assert_eq!(sum(PAGE, "gate_fill_ratio"), 0.25);
        assert_eq!(sum(PAGE, "gate_bucket"), f64::INFINITY);
        assert_eq!(sum(PAGE, "gate_answers"), 0.0);
    }

    #[test]
    #[should_panic(expected = "not a sample")]
    fn a_line_without_a_number_is_refused() {
        samples("gate_answers_total{verdict=\"free\"}");
    }
}
