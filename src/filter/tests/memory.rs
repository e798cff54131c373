//! A filter takes the memory it says, and no more.

use super::{super::BlockedBloom, empty_filter, keys};
use crate::filter::layout::BLOCK_BYTES;

const MEBIBYTE: u64 = 1 << 20;

#[test]
fn a_filter_is_charged_for_its_blocks_alone() {
    for names in [0, 1, 1_000, 1_000_000] {
        let filter = empty_filter(names, 0.001, 71);
        assert_eq!(filter.size_bytes(), filter.blocks() * BLOCK_BYTES);
    }
}

/// Read from the kernel's account of the filter's own mapping: other tests in this process may
/// allocate what they like.
#[test]
fn a_filter_occupies_its_size_and_little_more() {
    let mut filter = empty_filter(64_000_000, 0.001, 72); // 120 MiB
    let size = filter.size_bytes();
    assert!((118..122).contains(&(size / MEBIBYTE)), "{size} bytes");
    let untouched = occupied(&filter);
    assert!(untouched.mapped_bytes - size <= 2 * MEBIBYTE);
    assert!(untouched.resident_bytes <= 16 * MEBIBYTE);
    // Enough names to touch every page many times.
    for i in 0..2_000_000 {
        filter.insert_exclusive(&keys::member(i));
    }
    let filled = occupied(&filter);
    assert_eq!(filled.mapped_bytes, untouched.mapped_bytes);
    assert!(
        filled.resident_bytes.abs_diff(size) <= 16 * MEBIBYTE,
        "{} bytes resident for {size}",
        filled.resident_bytes
    );
}

struct Occupied {
    mapped_bytes: u64,
    resident_bytes: u64,
}

/// What `/proc/self/smaps` says of the pages that hold the filter.
///
/// The kernel may show a mapping in parts, or joined with a neighbour of the same kind; of a part
/// that reaches beyond the filter, no more is counted than it shares with it, and with the huge
/// page that completes the last.
fn occupied(filter: &BlockedBloom) -> Occupied {
    let first = filter.blocks.as_ptr().addr() as u64;
    let last = first + filter.size_bytes().next_multiple_of(2 * MEBIBYTE);
    let smaps = std::fs::read_to_string("/proc/self/smaps").expect("this is Linux");
    let mut sum = Occupied {
        mapped_bytes: 0,
        resident_bytes: 0,
    };
    let mut shared_bytes = 0;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (key, value) = (words.next().unwrap_or(""), words.next());
        if let Some((start, end)) = key.split_once('-') {
            let address = |text| u64::from_str_radix(text, 16).expect("an address");
            let (start, end) = (address(start).max(first), address(end).min(last));
            shared_bytes = end.saturating_sub(start);
            sum.mapped_bytes += shared_bytes;
        } else if key == "Rss:" {
            let kibibytes: u64 = value.and_then(|it| it.parse().ok()).expect("a number");
            sum.resident_bytes += shared_bytes.min(kibibytes * 1024);
        }
    }
    sum
}
