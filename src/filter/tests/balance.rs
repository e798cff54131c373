//! Evenness: every block, every word, every bit is used alike, and none depends on another.

use super::{
    super::{
        HashSecret, LANE_BALANCE_ALARM,
        hash::{NameHash, NameHasher},
        layout::{LANES, block_of, pattern_of},
        sizing::real,
    },
    filled_filter, keys,
};

const KEYS: u64 = 1_000_000;

fn hashes() -> impl Iterator<Item = NameHash> {
    let hasher = NameHasher::new(&HashSecret::from_bytes([21; 16]));
    (0..KEYS).map(move |i| hasher.hash(&keys::member(i)))
}

fn chosen_bits(hash: NameHash) -> [usize; LANES] {
    pattern_of(hash.pattern).map(|word| word.trailing_zeros() as usize)
}

/// Panics unless the counts vary as even chance does: chi-square inside its 99.9 % range, by the
/// Wilson-Hilferty approximation (exact enough from 30 degrees of freedom on).
fn assert_even(counts: &[u64], what: &str) {
    let expected = real(counts.iter().sum::<u64>().into()) / real(counts.len() as u128);
    let chi_square: f64 = counts
        .iter()
        .map(|&count| (real(count.into()) - expected).powi(2) / expected)
        .sum();
    let freedom = real(counts.len() as u128 - 1);
    let spread = 2.0 / (9.0 * freedom);
    let off = ((chi_square / freedom).cbrt() - (1.0 - spread)) / spread.sqrt();
    assert!(
        off.abs() < 3.29,
        "{what}: chi-square {chi_square:.1} with {freedom} degrees of freedom, {off:+.2} sd"
    );
}

#[test]
fn blocks_are_chosen_evenly_whatever_their_number() {
    for blocks in [
        1_000,
        30_713,
        3 << 20,
        (3 << 20) + 1,
        1 << 24,
        (1 << 33) + 9,
        30_712_120,
    ] {
        let mut bins = [0; 1_000];
        for hash in hashes() {
            let bin = u128::from(block_of(hash.place, blocks)) * 1_000 / u128::from(blocks);
            bins[usize::try_from(bin).expect("below 1,000")] += 1;
        }
        // A bin of 1,000 holds 30 or 31 of 30,713 blocks: only counts that are evenly divisible are
        // judged as bins.
        if blocks == 30_713 {
            assert!(bins.iter().all(|&bin| bin > 0));
        } else {
            assert_even(&bins, &format!("{blocks} blocks"));
        }
    }
}

#[test]
fn huge_filters_use_all_their_blocks() {
    // 2^36 blocks are 4 TiB: only the arithmetic is asked. The low bits of the index must vary as
    // well as the high ones.
    let blocks = 1 << 36;
    let (mut high, mut low) = ([0; 256], [0; 256]);
    for hash in hashes() {
        let block = block_of(hash.place, blocks);
        high[usize::try_from(block >> 28).expect("8 bits")] += 1;
        low[usize::try_from(block & 255).expect("8 bits")] += 1;
    }
    assert_even(&high, "high bits of the block");
    assert_even(&low, "low bits of the block");
}

#[test]
fn bits_in_each_word_are_chosen_evenly() {
    let mut lanes = [[0; 64]; LANES];
    for hash in hashes() {
        for (lane, bit) in chosen_bits(hash).into_iter().enumerate() {
            lanes[lane][bit] += 1;
        }
    }
    for (lane, counts) in lanes.iter().enumerate() {
        assert_even(counts, &format!("bits of word {lane}"));
    }
}

#[test]
fn bits_in_different_words_are_independent() {
    let mut pairs = vec![vec![0; 64 * 64]; LANES * LANES];
    for hash in hashes() {
        let bits = chosen_bits(hash);
        for (one, other) in
            (0..LANES).flat_map(|one| (one + 1..LANES).map(move |other| (one, other)))
        {
            pairs[one * LANES + other][bits[one] * 64 + bits[other]] += 1;
        }
    }
    for (one, other) in (0..LANES).flat_map(|one| (one + 1..LANES).map(move |other| (one, other))) {
        assert_even(
            &pairs[one * LANES + other],
            &format!("words {one} and {other}"),
        );
    }
}

#[test]
fn bits_in_the_block_are_independent_of_the_block() {
    // Many blocks, so that the index reaches deep into its half of the hash.
    let blocks = 1 << 24;
    for (part, shift) in [("high", 18), ("low", 0)] {
        let mut pairs = vec![vec![0; 64 * 64]; LANES];
        for hash in hashes() {
            let of_block =
                usize::try_from(block_of(hash.place, blocks) >> shift & 63).expect("6 bits");
            for (lane, bit) in chosen_bits(hash).into_iter().enumerate() {
                pairs[lane][of_block * 64 + bit] += 1;
            }
        }
        for (lane, counts) in pairs.iter().enumerate() {
            assert_even(counts, &format!("{part} bits of the block and word {lane}"));
        }
    }
}

#[test]
fn the_words_of_a_filter_are_filled_alike() {
    for (seed, names) in [(22, 10_000), (23, 100_000), (24, 1_000_000)] {
        let balance = filled_filter(names, 0.001, seed)
            .census()
            .lane_balance()
            .expect("enough names to judge");
        assert!(balance < LANE_BALANCE_ALARM, "{names} names: {balance}");
        assert!(
            balance > 0.5,
            "{names} names: {balance} is too even to be chance"
        );
    }
}

#[test]
fn a_handful_of_names_is_not_judged() {
    assert_eq!(filled_filter(10, 0.001, 25).census().lane_balance(), None);
}

#[test]
fn the_lane_balance_is_distributed_as_chi_square() {
    // 200 filters: their mean must be 7, with a standard deviation of sqrt(14 / 200) = 0.26.
    let balances: Vec<f64> = (0..200)
        .map(|seed| {
            filled_filter(3_000, 0.001, seed)
                .census()
                .lane_balance()
                .expect("enough names to judge")
        })
        .collect();
    let mean = balances.iter().sum::<f64>() / 200.0;
    assert!((mean - 7.0).abs() < 4.0 * 0.26, "{mean}");
}
