//! `namegate size`: the sizing arithmetic for people, ours beside the textbook's.

use serde_json::json;

use crate::cli::{Exit, Failure};
use crate::config::SizeArgs;
use crate::filter::{Sizing, Textbook, textbook};

/// Names in the filter, as shares of its capacity.
const LOADS: [f64; 7] = [0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0];

pub(super) fn run(args: &SizeArgs) -> Result<Exit, Failure> {
    let ours = Sizing::plan(args.names, args.fpr, u64::MAX)
        .map_err(|error| Failure::new(Exit::Usage, error))?;
    let textbook =
        textbook(args.names, args.fpr).map_err(|error| Failure::new(Exit::Usage, error))?;
    if args.json {
        println!("{}", as_json(&ours, &textbook));
    } else {
        print(&ours, &textbook);
    }
    Ok(Exit::Done)
}

fn rates(ours: &Sizing) -> impl Iterator<Item = (f64, u64, f64)> + '_ {
    LOADS.into_iter().map(|load| {
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a load is for people, not exact"
        )]
        let names = (ours.capacity as f64 * load) as u64;
        (load, names, ours.rate_at(names))
    })
}

fn as_json(ours: &Sizing, textbook: &Textbook) -> serde_json::Value {
    let loads: Vec<_> = rates(ours)
        .map(|(load, names, fpr)| json!({"load": load, "names": names, "fpr": fpr}))
        .collect();
    json!({
        "names": ours.capacity,
        "target_fpr": ours.target_fpr,
        "blocks": ours.blocks,
        "size_bytes": ours.size_bytes(),
        "bits_per_name": ours.bits_per_name(),
        "hashes": 8,
        "designed_fpr": ours.rate_at(ours.capacity),
        "loads": loads,
        "textbook": {
            "bits": textbook.bits,
            "size_bytes": textbook.size_bytes(),
            "hashes": textbook.hashes,
            "fpr_of_our_layout_at_this_size": textbook.rate_on_blocks(),
        },
    })
}

fn print(ours: &Sizing, textbook: &Textbook) {
    println!(
        "{} names at a false-positive rate of {}",
        grouped(ours.capacity),
        percent(ours.target_fpr)
    );
    println!();
    println!("  {:<24} {:>18} {:>18}", "", "namegate", "textbook");
    println!(
        "  {:<24} {:>18} {:>18}",
        "memory",
        memory(ours.size_bytes()),
        memory(textbook.size_bytes())
    );
    println!(
        "  {:<24} {:>18.2} {:>18.2}",
        "bits a name",
        ours.bits_per_name(),
        bits_per_name(textbook)
    );
    println!(
        "  {:<24} {:>18} {:>18}",
        "bits set a name", 8, textbook.hashes
    );
    println!(
        "  {:<24} {:>18} {:>18}",
        "cache lines a question",
        1,
        format!("2 to {}", textbook.hashes)
    );
    println!(
        "  {:<24} {:>18} {:>18}",
        "blocks of 64 bytes",
        grouped(ours.blocks),
        "-"
    );
    println!();
    println!(
        "  {:<12} {:>16} {:>24}",
        "load", "names", "false-positive rate"
    );
    for (load, names, rate) in rates(ours) {
        println!(
            "  {:<12} {:>16} {:>24}",
            percent(load),
            grouped(names),
            percent(rate)
        );
    }
    println!();
    println!(
        "One name's eight bits lie in one 64-byte block, so a question costs one cache miss. The price is memory."
    );
    if textbook.rate_on_blocks() > ours.target_fpr {
        println!(
            "A textbook filter's bits, laid out in blocks, would give {} instead of {}.",
            percent(textbook.rate_on_blocks()),
            percent(ours.target_fpr),
        );
    }
}

fn bits_per_name(textbook: &Textbook) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "two decimals are shown")]
    let share = textbook.bits as f64 / textbook.names as f64;
    share
}

pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 || percent >= 0.0001 {
        let text = format!("{percent:.4}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        format!("{text} %")
    } else {
        format!("{percent:.2e} %")
    }
}

/// Decimal units, three to five digits.
pub(super) fn memory(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    #[allow(clippy::cast_precision_loss, reason = "five digits are shown")]
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 10_000.0 {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0);
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// With a comma between groups of three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [0, 9999, 10_000, 196_557_568].map(memory),
            ["0 B", "9999 B", "10.0 kB", "196.6 MB"]
        );
        assert_eq!(memory(u64::MAX), "18.4 EB");
        assert_eq!(
            [0.001, 0.5, 1e-15].map(percent),
            ["0.1 %", "50 %", "1.00e-13 %"]
        );
    }
}
