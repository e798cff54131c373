//! Filters made from filters: no name is lost, and rates and counts stay what they were.

use std::{
    sync::{Mutex, mpsc::sync_channel},
    thread,
};

use proptest::prelude::*;

use super::{
    super::{BlockedBloom, CombineError, Hint, Sizing, false_positive_rate},
    empty_filter, false_negatives, filled_filter, keys, measured_rate, words,
};
use crate::filter::HashSecret;

#[test]
fn expanding_loses_no_name_and_keeps_the_rate() {
    let names = 200_000;
    let filter = filled_filter(names, 0.001, 41);
    let double = filter.expand().expect("small");
    assert_eq!(double.blocks(), 2 * filter.blocks());
    assert_eq!(false_negatives(&double, names), 0);
    // Both halves of a pair are equal, so even the answers to strangers are the same ones.
    let same_answer = |&i: &u64| {
        let key = keys::stranger(i);
        filter.probe(&key) == double.probe(&key)
    };
    assert!((0..500_000).all(|i| same_answer(&i)));
    assert!((double.live_fpr() - filter.live_fpr()).abs() < 1e-12);
    assert!((double.fill() - filter.fill()).abs() < 1e-12);
}

#[test]
fn after_expansions_names_still_count_once() {
    let mut filter = filled_filter(100_000, 0.001, 42);
    for expansion in 1..=2 {
        filter = filter.expand().expect("small");
        let more = 100_000 * expansion..100_000 * (expansion + 1);
        for i in more.clone() {
            filter.insert_exclusive(&keys::member(i));
        }
        assert_eq!(false_negatives(&filter, more.end), 0);
        let count = filter.estimated_count();
        let off = count.names().abs_diff(more.end);
        assert!(off < more.end / 100, "{} names: {count}", more.end);
        assert!(filter.census().lane_balance().expect("enough") < 24.5);
    }
    // An unexpanded filter of the first size would be at 14.8 % now.
    assert!((measured_rate(&filter, 200_000) / filter.live_fpr() - 1.0).abs() < 0.1);
    assert!(filter.live_fpr() < 0.02, "{}", filter.live_fpr());
}

#[test]
fn folding_undoes_expanding() {
    let filter = filled_filter(50_000, 0.001, 43);
    let back = filter
        .expand()
        .and_then(|double| double.expand())
        .expect("small");
    let back = back.fold().and_then(|double| double.fold()).expect("even");
    assert!(words(&back).eq(words(&filter)));
    assert_eq!((back.expansions(), back.sizing()), (0, filter.sizing()));
}

#[test]
fn folding_any_even_filter_loses_no_name() {
    let names = 50_000;
    let sizing = Sizing {
        capacity: names,
        target_fpr: 0.001,
        blocks: 1_536,
    };
    let mut filter = BlockedBloom::new(sizing, HashSecret::from_bytes([44; 16])).expect("small");
    for i in 0..names {
        filter.insert_exclusive(&keys::member(i));
    }
    let folded = filter.fold().expect("even");
    assert_eq!(false_negatives(&folded, names), 0);
    let designed = false_positive_rate(names, 768);
    assert!((measured_rate(&folded, 200_000) / designed - 1.0).abs() < 0.1);
    assert!(matches!(
        folded.fold().and_then(|f| f.fold()).and_then(|f| f.fold()).and_then(|f| f.fold()),
        Ok(ref f) if f.blocks() == 48
    ));
    assert!(matches!(
        empty_filter(1, 0.001, 44).fold(),
        Err(CombineError::Odd { blocks: 1 })
    ));
}

#[test]
fn a_union_holds_both_and_counts_both() {
    let (one, other) = (
        empty_filter(100_000, 0.001, 45),
        empty_filter(100_000, 0.001, 45),
    );
    for i in 0..60_000 {
        one.insert(&keys::member(i));
        other.insert(&keys::member(40_000 + i));
    }
    let union = one.union(&other).expect("alike");
    assert_eq!(false_negatives(&union, 100_000), 0);
    assert!(words(&union).eq(words(&filled_filter(100_000, 0.001, 45))));
    assert!(union.estimated_count().names().abs_diff(100_000) < 400);
}

#[test]
fn filters_that_are_not_alike_are_not_combined() {
    let filter = empty_filter(1_000, 0.001, 46);
    let rekeyed = empty_filter(1_000, 0.001, 47);
    let resized = empty_filter(2_000, 0.001, 46);
    assert!(matches!(
        filter.union(&rekeyed),
        Err(CombineError::Key { .. })
    ));
    assert!(matches!(
        filter.union(&resized),
        Err(CombineError::Blocks {
            wanted: 31,
            found: 62
        })
    ));
    let double = filter.doubled().expect("small");
    assert!(matches!(
        double.absorb_half(&rekeyed),
        Err(CombineError::Key { .. })
    ));
    assert!(matches!(
        double.absorb_half(&resized),
        Err(CombineError::Blocks {
            wanted: 31,
            found: 62
        })
    ));
    let shown = filter.union(&rekeyed).expect_err("other key").to_string();
    assert!(
        shown.contains(&format!("{:016x}", filter.secret().fingerprint())),
        "{shown}"
    );
}

#[test]
fn doubling_beside_inserts_into_both_loses_none() {
    let old = empty_filter(100_000, 0.001, 48);
    let double = old.doubled().expect("small");
    // Guards the switch: an insert that found it off was in the old filter before it was turned on.
    let is_dual = Mutex::new(false);
    let (halfway, begin) = sync_channel(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..300_000 {
                if i == 50_000 {
                    halfway.send(()).expect("the other thread waits");
                }
                old.insert(&keys::member(i));
                if *is_dual.lock().expect("no panic") {
                    double.insert(&keys::member(i));
                }
            }
        });
        begin.recv().expect("the other thread sends");
        *is_dual.lock().expect("no panic") = true;
        double.absorb_half(&old).expect("its double");
    });
    assert_eq!(false_negatives(&double, 300_000), 0);
}

proptest! {
    #[test]
    fn no_name_is_lost_whatever_becomes_of_the_filter(
        names in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..200),
        blocks in 1_u64..50,
        steps in prop::collection::vec(0_u8..3, 0..5),
    ) {
        let sizing = Sizing { capacity: 100, target_fpr: 0.01, blocks };
        let secret = HashSecret::from_bytes([49; 16]);
        let mut filter = BlockedBloom::new(sizing, secret).expect("small");
        let (early, late) = names.split_at(names.len() / 2);
        filter.insert_batch(early);
        for step in steps {
            filter = match step {
                0 => filter.expand().expect("small"),
                1 => filter.fold().unwrap_or(filter),
                _ => filter.union(&filter).expect("alike"),
            };
        }
        filter.insert_batch(late);
        for name in &names {
            prop_assert_eq!(filter.probe(name), Hint::Maybe);
        }
    }
}
