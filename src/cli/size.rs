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
        ours.capacity,
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
        "blocks of 64 bytes", ours.blocks, "-"
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
            names,
            percent(rate)
        );
    }
    println!();
    println!(
        "One name's eight bits lie in one 64-byte block, so a question costs one cache miss. The price is memory: a\n\
         textbook filter's bits, laid out in blocks, would give {} instead of {}.",
        percent(textbook.rate_on_blocks()),
        percent(ours.target_fpr),
    );
}

fn bits_per_name(textbook: &Textbook) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "two decimals are shown")]
    let share = textbook.bits as f64 / textbook.names as f64;
    share
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 || percent >= 0.0001 {
        let text = format!("{percent:.4}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        format!("{text} %")
    } else {
        format!("{percent:.2e} %")
    }
}

fn memory(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
    let value = bytes as f64;
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{:.1} kB", value / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", value / 1e6),
        _ => format!("{:.1} GB", value / 1e9),
    }
}
