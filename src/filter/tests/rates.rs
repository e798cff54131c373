//! Measured false-positive rates against the designed one and against the one read from the bits.

use super::{
    super::{BlockedBloom, CountEstimate, Hint, false_positive_rate},
    empty_filter, false_negatives, filled_filter, keys, measured_rate,
};
use crate::filter::sizing::real;

/// Panics unless `measured` is within four standard deviations of the rate by design.
///
/// The relative deviation has two parts: which blocks happened to be crowded (`1.3 / N`), and which
/// questions happened to be asked (`1 / (Q eps)`).
fn assert_as_designed(
    filter: &BlockedBloom,
    names: u64,
    measured: f64,
    questions: u64,
    what: &str,
) {
    let designed = false_positive_rate(names, filter.blocks());
    let deviation =
        (1.3 / real(filter.blocks().into()) + 1.0 / (real(questions.into()) * designed)).sqrt();
    let off = (measured / designed - 1.0) / deviation;
    assert!(
        off.abs() < 4.0,
        "{what}: measured {measured:.3e}, designed {designed:.3e}, {off:+.1} sd"
    );
}

/// Panics unless `measured` is within four standard deviations of the rate read from the bits.
///
/// The crowding is known here, so only the questions vary. This is the test that sees bits of one
/// name depend on each other: popcounts are blind to it.
fn assert_as_read_from_the_bits(filter: &BlockedBloom, measured: f64, questions: u64, what: &str) {
    let live = filter.live_fpr();
    let off = (measured / live - 1.0) * (real(questions.into()) * live).sqrt();
    assert!(
        off.abs() < 4.0,
        "{what}: measured {measured:.3e}, from the bits {live:.3e}, {off:+.1} sd"
    );
}

#[test]
fn a_million_names_are_all_found_and_strangers_pass_at_the_promised_rate() {
    let names = 1_000_000;
    for (seed, fpr, questions) in [
        (1, 0.01, 1_000_000),
        (2, 1.0 / 256.0, 1_000_000),
        (3, 0.001, 4_000_000),
    ] {
        let filter = filled_filter(names, fpr, seed);
        assert_eq!(false_negatives(&filter, names), 0);
        let measured = measured_rate(&filter, questions);
        assert_as_designed(&filter, names, measured, questions, &format!("{fpr}"));
        assert_as_read_from_the_bits(&filter, measured, questions, &format!("{fpr}"));
    }
}

#[test]
fn small_rates_are_kept() {
    let names = 100_000;
    for (seed, fpr, questions) in [(4, 1e-4, 4_000_000), (5, 1e-5, 10_000_000)] {
        let filter = filled_filter(names, fpr, seed);
        let measured = measured_rate(&filter, questions);
        assert_as_designed(&filter, names, measured, questions, &format!("{fpr}"));
        assert_as_read_from_the_bits(&filter, measured, questions, &format!("{fpr}"));
    }
}

#[test]
fn the_rate_stays_flat_as_sets_double() {
    for power in 10..=19 {
        let names = 1 << power;
        let filter = filled_filter(names, 0.01, 6);
        assert_as_designed(
            &filter,
            names,
            measured_rate(&filter, 200_000),
            200_000,
            &format!("2^{power} names"),
        );
    }
}

#[test]
fn structured_names_pass_at_the_promised_rate() {
    let (names, questions) = (100_000, 500_000);
    for (family, key) in keys::STRUCTURED {
        let filter = empty_filter(names, 0.01, 7);
        for i in 0..names {
            filter.insert(&key(i));
        }
        assert!(
            (0..names).all(|i| filter.probe(&key(i)) == Hint::Maybe),
            "{family}: a name is denied"
        );
        let maybes = (names..names + questions)
            .filter(|&i| filter.probe(&key(i)) == Hint::Maybe)
            .count();
        let measured = real(maybes as u128) / real(questions.into());
        assert_as_designed(&filter, names, measured, questions, family);
        assert_as_read_from_the_bits(&filter, measured, questions, family);
    }
}

#[test]
fn past_capacity_the_rate_follows_the_predicted_curve() {
    let mut filter = empty_filter(100_000, 0.001, 8);
    for i in 0..500_000 {
        filter.insert_exclusive(&keys::member(i));
        if [50_000, 75_000, 125_000, 200_000, 300_000, 500_000].contains(&(i + 1)) {
            assert_as_designed(
                &filter,
                i + 1,
                measured_rate(&filter, 500_000),
                500_000,
                &format!("{} names", i + 1),
            );
        }
    }
    assert_eq!(false_negatives(&filter, 500_000), 0);
}

#[test]
fn the_overall_fill_hides_a_third_of_the_rate_and_the_census_does_not() {
    let filter = filled_filter(1_000_000, 0.001, 9);
    let from_fill = filter.fill().powi(8);
    assert!((0.60e-3..0.68e-3).contains(&from_fill), "{from_fill}");
    assert!(
        (filter.live_fpr() / 0.001 - 1.0).abs() < 4.0 * (1.3 / real(filter.blocks().into())).sqrt()
    );
}

#[test]
fn a_filter_measures_its_own_rate_with_keys_no_name_can_be() {
    let filter = filled_filter(1_000_000, 0.01, 10);
    assert_as_read_from_the_bits(
        &filter,
        filter.measured_fpr(100_000),
        100_000,
        "self-measurement",
    );
    assert_eq!(empty_filter(0, 0.01, 10).measured_fpr(1_000).to_bits(), 0);
    assert_eq!(empty_filter(0, 0.01, 10).measured_fpr(0).to_bits(), 0);
}

#[test]
fn the_count_is_read_from_the_bits_within_four_standard_errors() {
    for (seed, names, percent) in [
        (11, 1, 0.0),
        (12, 100, 0.0),
        (13, 100_000, 0.064),
        (14, 1_000_000, 0.020),
    ] {
        let filter = filled_filter(names, 0.001, seed);
        let CountEstimate::About {
            names: estimate,
            standard_error,
        } = filter.estimated_count()
        else {
            panic!("{names} names do not fill the filter");
        };
        let off = real(estimate.abs_diff(names).into());
        assert!(
            off <= 4.0 * standard_error + 0.5,
            "{names} names: {}",
            filter.estimated_count()
        );
        if percent > 0.0 {
            let stated = 100.0 * standard_error / real(names.into());
            assert!(
                (stated - percent).abs() < 0.001,
                "{names} names: {stated} %"
            );
        }
    }
}

#[test]
fn duplicates_do_not_count_and_nothing_counts_as_nothing() {
    let filter = empty_filter(1_000, 0.001, 15);
    assert_eq!(
        filter.estimated_count(),
        CountEstimate::About {
            names: 0,
            standard_error: 0.0
        }
    );
    for _ in 0..50 {
        filter.insert(b"alice");
    }
    assert_eq!(filter.estimated_count().names(), 1);
}

#[test]
fn a_saturated_filter_says_at_least() {
    let mut filter = empty_filter(1, 0.001, 16);
    for i in 0..10_000 {
        filter.insert_exclusive(&keys::member(i));
    }
    assert_eq!(
        filter.estimated_count(),
        CountEstimate::AtLeast { names: 396 }
    );
    assert_eq!(filter.estimated_count().to_string(), "at least 396");
    assert!((filter.live_fpr() - 1.0).abs() < 1e-12 && (filter.fill() - 1.0).abs() < 1e-12);
    assert_eq!(filter.census().lane_balance(), None);
}

#[test]
fn a_census_in_pieces_equals_a_census_at_once() {
    let filter = filled_filter(50_000, 0.01, 17);
    let mut pieces = crate::filter::Census::default();
    for first in (0..filter.families()).step_by(100) {
        pieces.merge(&filter.census_of(first..first + 100));
    }
    let whole = filter.census();
    assert_eq!(pieces.estimated_count(), whole.estimated_count());
    assert!((pieces.live_fpr() - whole.live_fpr()).abs() < 1e-12);
}
