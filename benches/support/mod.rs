//! What both benchmark programs share: names, and the sets that are compared.
#![allow(dead_code, reason = "each program uses a part of it")]

pub(crate) mod names;
pub(crate) mod sets;
pub(crate) mod stopwatch;

/// A whole number, also in the form `1e8`.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of names"
)]
pub(crate) fn whole(text: &str) -> u64 {
    text.parse::<f64>().expect("a number such as 1e6").round() as u64
}

/// The middle one.
pub(crate) fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = figures.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

pub(crate) fn load_average() -> String {
    std::fs::read_to_string("/proc/loadavg").map_or_else(
        |_| "unknown".to_owned(),
        |text| text.split(' ').take(3).collect::<Vec<_>>().join(" "),
    )
}
