//! Many threads, one filter: nothing is lost.

use std::{sync::Barrier, thread};

use super::{
    super::{Hint, layout::Block},
    empty_filter, false_negatives, keys, words,
};

#[test]
fn four_threads_set_the_bits_that_one_would() {
    let names = 400_000;
    let shared = empty_filter(names, 0.001, 31);
    thread::scope(|scope| {
        for worker in 0..4 {
            let shared = &shared;
            // Each takes half of all names, so that every name is inserted by two threads at about
            // the same time.
            scope.spawn(move || {
                for i in (0..names).filter(|i| (i % 4 == worker) || (i % 4 == (worker + 1) % 4)) {
                    shared.insert(&keys::member(i));
                }
            });
        }
    });
    let mut alone = empty_filter(names, 0.001, 31);
    for i in 0..names {
        alone.insert_exclusive(&keys::member(i));
    }
    assert_eq!(false_negatives(&shared, names), 0);
    assert!(words(&shared).eq(words(&alone)));
}

#[test]
fn threads_that_meet_in_the_same_words_lose_no_bit() {
    // Both walk the same blocks in the same order, so that they meet again and again.
    let blocks: Vec<_> = (0..100_000).map(|_| Block::empty()).collect();
    let start = Barrier::new(2);
    for pass in 0..32 {
        thread::scope(|scope| {
            for bit in [2 * pass, 2 * pass + 1] {
                let (blocks, start) = (&blocks, &start);
                scope.spawn(move || {
                    start.wait();
                    for block in blocks {
                        block.set(&[1 << bit; 8]);
                    }
                });
            }
        });
    }
    assert!(blocks.iter().all(|block| block.words() == Block::FULL));
}

#[test]
fn a_thread_finds_what_another_said_it_had_inserted() {
    let filter = empty_filter(50_000, 0.001, 32);
    let (sender, receiver) = std::sync::mpsc::sync_channel(64);
    thread::scope(|scope| {
        let filter = &filter;
        scope.spawn(move || {
            for i in 0..50_000 {
                filter.insert(&keys::member(i));
                sender.send(i).expect("the other thread listens");
            }
        });
        for i in receiver {
            assert_eq!(filter.probe(&keys::member(i)), Hint::Maybe);
        }
    });
}
