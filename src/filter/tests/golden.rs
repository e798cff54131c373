//! The stored format of a name: under a given key, exactly these bits. The rows were computed apart
//! from this code.

use super::super::{
    BlockedBloom, HashSecret, Hint, Sizing,
    hash::NameHasher,
    layout::{block_of, pattern_of},
};

/// Key 00 01 .. 0f.
fn secret() -> HashSecret {
    HashSecret::from_bytes(std::array::from_fn(|i| u8::try_from(i).expect("small")))
}

const LONG: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// Rows of: name; its block of 30,713, of 3 x 2^20 + 1 and of 2^40 + 3; its bit in each word.
const ROWS: [(&str, [u64; 3], [u32; 8]); 7] = [
    (
        "",
        [22_872, 2_342_666, 818_820_949_940],
        [61, 11, 54, 54, 42, 53, 13, 12],
    ),
    (
        "alice",
        [12_435, 1_273_712, 445_194_583_855],
        [6, 14, 35, 46, 15, 54, 8, 17],
    ),
    (
        "bob_77",
        [4_812, 492_947, 172_297_542_911],
        [51, 26, 10, 52, 12, 22, 0, 51],
    ),
    (
        "müller",
        [16_587, 1_698_910, 593_812_093_000],
        [18, 58, 0, 60, 41, 44, 3, 14],
    ),
    (
        "日本語",
        [23_808, 2_438_564, 852_339_858_642],
        [21, 44, 34, 0, 57, 63, 6, 20],
    ),
    (
        "🦀",
        [4_671, 478_519, 167_254_608_428],
        [23, 30, 29, 58, 29, 45, 4, 2],
    ),
    (
        LONG,
        [23_444, 2_401_308, 839_317_916_520],
        [2, 38, 38, 34, 41, 17, 16, 3],
    ),
];

#[test]
fn names_land_where_the_golden_rows_say() {
    let hasher = NameHasher::new(&secret());
    for (name, blocks, bits) in ROWS {
        let hash = hasher.hash(name.as_bytes());
        let found = [30_713, (3 << 20) + 1, (1 << 40) + 3].map(|count| block_of(hash.place, count));
        assert_eq!(found, blocks, "{name}");
        assert_eq!(
            pattern_of(hash.pattern).map(u64::trailing_zeros),
            bits,
            "{name}"
        );
        assert_eq!(
            pattern_of(hash.pattern).map(u64::count_ones),
            [1; 8],
            "{name}"
        );
    }
}

#[test]
fn inserting_sets_exactly_the_golden_bits() {
    let sizing = Sizing {
        capacity: 1_000_000,
        target_fpr: 0.001,
        blocks: 30_713,
    };
    for (name, blocks, bits) in ROWS {
        let filter = BlockedBloom::new(sizing, secret()).expect("two megabytes");
        assert!(filter.insert(name.as_bytes()));
        for (index, block) in filter.blocks.iter().enumerate() {
            let want = if index as u64 == blocks[0] {
                bits.map(|bit| 1 << bit)
            } else {
                [0; 8]
            };
            assert_eq!(block.words(), want, "{name}, block {index}");
        }
        assert_eq!(filter.probe(name.as_bytes()), Hint::Maybe);
    }
}
