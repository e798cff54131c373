//! Every interleaving of two threads, explored by the model checker on the real code.
//!
//! Run with `cargo test --lib --features loom loom_`. Blocks have two words here where the search
//! must be complete; the whole filter, with eight, is searched with at most two preemptions.

use loom::{
    model::Builder,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use super::super::{BlockedBloom, HashSecret, Hint, Sizing, layout::Block};

type SmallBlock = Block<2>;

/// Runs `model` with at most two switches away from a thread that could go on.
fn with_two_preemptions(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

fn one_block_filter() -> BlockedBloom {
    let sizing = Sizing {
        capacity: 2,
        target_fpr: 0.01,
        blocks: 1,
    };
    BlockedBloom::new(sizing, HashSecret::from_bytes([61; 16])).expect("64 bytes")
}

#[test]
fn loom_no_bit_is_lost_when_two_threads_insert() {
    loom::model(|| {
        let block = Arc::new(SmallBlock::empty());
        let other = {
            let block = Arc::clone(&block);
            thread::spawn(move || block.set(&[1 << 3, 1 << 7]))
        };
        block.set(&[1 << 3, 1 << 9]); // one bit in common, one in the same word
        other.join().expect("no panic");
        assert_eq!(block.words(), [1 << 3, 1 << 7 | 1 << 9]);
    });
}

#[test]
fn loom_of_two_threads_that_insert_a_new_name_at_least_one_is_told_so() {
    loom::model(|| {
        let block = Arc::new(SmallBlock::empty());
        let other = {
            let block = Arc::clone(&block);
            thread::spawn(move || block.set(&[1, 2]))
        };
        let here = block.set(&[1, 2]);
        let there = other.join().expect("no panic");
        assert!(here || there);
        assert!(block.holds(1 << 6) && !block.set(&[1, 2]));
    });
}

#[test]
fn loom_a_question_after_an_insert_finds_the_name() {
    loom::model(|| {
        let shared = Arc::new((SmallBlock::empty(), AtomicBool::new(false)));
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.0.set(&[4, 8]);
                shared.1.store(true, Ordering::Release); // Release: the insert happens before this
            })
        };
        shared.0.set(&[4, 16]);
        // Acquire: pairs with the release above.
        let was_told = shared.1.load(Ordering::Acquire);
        assert!(shared.0.holds(2 | 3 << 6) || !was_told);
        other.join().expect("no panic");
        assert!(shared.0.holds(2 | 3 << 6) && shared.0.holds(2 | 4 << 6));
    });
}

#[test]
fn loom_joining_blocks_beside_an_insert_loses_nothing() {
    loom::model(|| {
        let block = Arc::new(SmallBlock::empty());
        let other = {
            let block = Arc::clone(&block);
            thread::spawn(move || block.absorb(&[0b1010, 0b0001]))
        };
        block.set(&[0b0100, 0b1000]);
        other.join().expect("no panic");
        assert_eq!(block.words(), [0b1110, 0b1001]);
    });
}

#[test]
fn loom_a_whole_filter_keeps_what_two_threads_insert() {
    with_two_preemptions(|| {
        let filter = Arc::new(one_block_filter());
        let other = {
            let filter = Arc::clone(&filter);
            thread::spawn(move || filter.insert(b"alice"))
        };
        filter.insert(b"bob");
        assert_eq!(filter.probe(b"bob"), Hint::Maybe);
        other.join().expect("no panic");
        assert_eq!(filter.probe(b"alice"), Hint::Maybe);
        assert_eq!(filter.probe(b"bob"), Hint::Maybe);
    });
}

#[test]
fn loom_doubling_beside_an_insert_into_both_loses_nothing() {
    with_two_preemptions(|| {
        let old = one_block_filter();
        old.insert(b"alice");
        let both = Arc::new((old.doubled().expect("small"), old));
        let other = {
            let both = Arc::clone(&both);
            thread::spawn(move || {
                both.1.insert(b"bob");
                both.0.insert(b"bob");
            })
        };
        both.0.absorb_half(&both.1).expect("its double");
        other.join().expect("no panic");
        assert_eq!(both.0.probe(b"alice"), Hint::Maybe);
        assert_eq!(both.0.probe(b"bob"), Hint::Maybe);
    });
}
