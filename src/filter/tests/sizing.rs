//! The sizing arithmetic: golden values, edges, and the two properties that make it honest.

use proptest::prelude::*;

use crate::filter::sizing::{
    SizingError, blocks_for, closed_form, false_positive_rate, real, series,
};

/// Rows of (names, blocks at 1 %, at 1/256, at 0.1 %, at 0.01 %).
const GOLDEN: [(u64, [u64; 4]); 10] = [
    (1, [1, 1, 1, 1]),
    (2, [1, 1, 1, 1]),
    (10, [1, 1, 1, 1]),
    (100, [2, 3, 4, 5]),
    (1_000, [20, 24, 31, 46]),
    (100_000, [1_973, 2_380, 3_072, 4_611]),
    (1_000_000, [19_726, 23_795, 30_713, 46_107]),
    (10_000_000, [197_253, 237_943, 307_122, 461_071]),
    (100_000_000, [1_972_522, 2_379_424, 3_071_212, 4_610_703]),
    (
        1_000_000_000,
        [19_725_211, 23_794_231, 30_712_120, 46_107_023],
    ),
];

#[test]
fn block_counts_equal_the_golden_table() {
    for (names, row) in GOLDEN {
        for (fpr, want) in [0.01, 1.0 / 256.0, 0.001, 0.0001].into_iter().zip(row) {
            let blocks = blocks_for(names, fpr).expect("a plain size");
            assert!(
                blocks.abs_diff(want) <= 1,
                "{names} names at {fpr}: {blocks}, table says {want}"
            );
        }
    }
}

#[test]
fn rates_equal_those_of_sixty_digit_arithmetic() {
    // Rows of names, blocks, and the closed form in exact decimal arithmetic, done apart from this
    // code.
    let rows = [
        (1, 2, 1.776_356_839_400_250_5e-15),
        (1_000, 20, 0.009_269_931_885_012_38),
        (1_000_000, 19_726, 0.009_997_975_407_821_168),
        (1_000_000, 46_107, 9.999_891_290_437_765e-5),
        (1_000_000, 10_000, 0.159_592_616_076_964_62),
        (100_000, 1_000_000, 8.101_716_697_668_585e-15),
        (100, 1 << 40, 3.231_174_302_469_169e-25),
        (1_000_000_000_000, 8_000_000_000, 0.301_002_918_128_778_66),
    ];
    for (names, blocks, want) in rows {
        let rate = false_positive_rate(names, blocks);
        assert!(
            (rate / want - 1.0).abs() < 1e-12,
            "{names} names on {blocks} blocks: {rate}"
        );
    }
}

#[test]
fn overload_follows_the_published_curve() {
    let names = 10_000_000;
    let blocks = blocks_for(names, 0.001).expect("a plain size");
    // Names in percent of capacity; rate in percent.
    let curve = [
        (50, 0.001_870),
        (75, 0.019_823),
        (100, 0.099_998),
        (125, 0.330_736),
        (150, 0.833_505),
        (200, 3.160_678),
        (300, 14.799_878),
    ];
    for (load, want) in curve {
        let rate = 100.0 * false_positive_rate(names / 100 * load, blocks);
        assert!(
            (rate / want - 1.0).abs() < 1e-3,
            "{load} % of capacity: {rate} %, not {want}"
        );
    }
}

#[test]
fn series_and_closed_form_agree_where_both_keep_their_digits() {
    for (names, blocks) in [
        (1_000.0, 20.0),
        (1e6, 19_726.0),
        (1e9, 30_712_120.0),
        (1e9, 8e6),
        (1e12, 8e9),
        (200.0, 2.0),
    ] {
        let (a, b) = (series(names, blocks), closed_form(names, blocks));
        assert!(
            (a / b - 1.0).abs() < 1e-9,
            "{names} names on {blocks} blocks: {a} against {b}"
        );
    }
}

#[test]
fn small_rates_keep_their_digits() {
    // One name on N blocks: a question meets that block with 1/N, and then eight bits with
    // 64^-8, exactly.
    for blocks in [2_u64, 3, 1 << 20, (1 << 40) + 1] {
        let exact = 64_f64.powi(-8) / real(blocks.into());
        assert!(
            (false_positive_rate(1, blocks) / exact - 1.0).abs() < 1e-12,
            "{blocks} blocks"
        );
    }
    assert!((false_positive_rate(1, 1) / 64_f64.powi(-8) - 1.0).abs() < 1e-12);
}

#[test]
fn no_names_and_awkward_rates_still_give_a_block() {
    assert_eq!(blocks_for(0, 0.001), Ok(1));
    for names in 1..=3 {
        assert_eq!(blocks_for(names, 0.99), Ok(1));
    }
    assert_eq!(false_positive_rate(0, 1).to_bits(), 0);
    assert_eq!(
        false_positive_rate(5, 0).to_bits(),
        false_positive_rate(5, 1).to_bits()
    );
}

#[test]
fn impossible_rates_are_refused_with_the_allowed_range() {
    for fpr in [
        0.0,
        -0.0,
        -1.0,
        1.0,
        1.5,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        5e-324,
        1e-200,
    ] {
        let refusal = blocks_for(1_000, fpr).expect_err("not a rate");
        assert!(
            matches!(refusal, SizingError::Rate { .. }),
            "{fpr}: {refusal:?}"
        );
        assert!(
            refusal.to_string().ends_with("at least 1e-15, less than 1"),
            "{refusal}"
        );
    }
}

#[test]
fn sets_beyond_any_address_space_are_refused_with_the_bytes_they_need() {
    let refusal = blocks_for(u64::MAX, 0.001).expect_err("36 exabytes");
    assert!(matches!(
        refusal,
        SizingError::Ceiling {
            names: u64::MAX,
            bytes_needed: 36_000_000_000_000_000_000..,
            ..
        }
    ));
}

#[test]
fn sizes_never_shrink_as_names_double() {
    for fpr in [0.01, 0.001, 1e-6, 1e-12] {
        let sizes: Vec<u64> = (10..=40)
            .map(|power| blocks_for(1 << power, fpr).expect("fits"))
            .collect();
        assert!(sizes.is_sorted(), "{fpr}: {sizes:?}");
        assert!(sizes[30] > sizes[0] << 28, "{fpr}: {sizes:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn sizing_is_minimal_and_monotone(
        exponent in 0.0..12.0_f64,
        rate_exponent in -12.0..-0.01_f64,
        more in 0_u64..1_000,
        finer in 0.5..1.0_f64,
    ) {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 1 and 10^12"
        )]
        let names = 10_f64.powf(exponent) as u64;
        let fpr = 10_f64.powf(rate_exponent);
        let blocks = blocks_for(names, fpr).expect("within any address space");

        prop_assert!(false_positive_rate(names, blocks) <= fpr);
        prop_assert!(blocks == 1 || false_positive_rate(names, blocks - 1) > fpr);
        prop_assert!(blocks_for(names + more, fpr).expect("fits") >= blocks);
        prop_assert!(blocks_for(names, fpr * finer).expect("fits") >= blocks);
    }
}
