//! Batches answer and insert exactly as single calls do.

use super::{super::Hint, empty_filter, filled_filter, keys, words};

#[test]
fn batches_of_any_length_answer_as_single_questions_do() {
    let filter = filled_filter(1_000, 0.2, 51);
    for length in [0, 1, 15, 16, 17, 32, 33, 1_000] {
        let asked: Vec<_> = (0..length)
            .flat_map(|i| [keys::member(i), keys::stranger(i)])
            .collect();
        let single: Vec<Hint> = asked.iter().map(|key| filter.probe(key)).collect();
        assert_eq!(filter.probe_batch(&asked), single);
    }
}

#[test]
fn batches_insert_the_same_bits_as_single_inserts() {
    let (single, batched, mut owned) = (
        empty_filter(10_000, 0.01, 52),
        empty_filter(10_000, 0.01, 52),
        empty_filter(10_000, 0.01, 52),
    );
    let members: Vec<_> = (0..9_999).map(keys::member).collect();
    let new = members.iter().filter(|key| single.insert(*key)).count();
    assert_eq!(batched.insert_batch(&members), new);
    assert_eq!(owned.insert_batch_exclusive(&members), new);
    assert!(words(&single).eq(words(&batched)) && words(&single).eq(words(&owned)));
    assert_eq!(batched.insert_batch(&members), 0);
    assert!(
        batched
            .probe_batch(&members)
            .iter()
            .all(|&hint| hint == Hint::Maybe)
    );
}
