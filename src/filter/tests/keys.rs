//! Keys for tests: who is inside, who is not, distinct by construction.

/// The `i`-th key that tests insert.
pub(super) fn member(i: u64) -> [u8; 9] {
    tagged(b'm', i)
}

/// The `i`-th key that tests never insert.
pub(super) fn stranger(i: u64) -> [u8; 9] {
    tagged(b's', i)
}

fn tagged(tag: u8, i: u64) -> [u8; 9] {
    let mut key = [tag; 9];
    key[1..].copy_from_slice(&i.to_le_bytes());
    key
}

/// What a family is called, and its `i`-th name.
type Family = (&'static str, fn(u64) -> Vec<u8>);

/// Families of names as people and machines make them; number `i` of a family is distinct from all
/// others in it.
pub(super) const STRUCTURED: [Family; 7] = [
    ("sequential", |i| format!("user{i:07}").into_bytes()),
    ("shared prefix", |i| {
        format!("a.very.long.and.common.prefix.of.a.company.{i}").into_bytes()
    }),
    ("shared suffix", |i| {
        format!("{i}.a.very.long.and.common.suffix@example.org").into_bytes()
    }),
    ("one letter apart", one_letter_apart),
    ("emoji", |i| {
        digits(i, 64)
            .map(|digit| char::from_u32(0x1F600 + digit).expect("an emoji"))
            .collect::<String>()
            .into_bytes()
    }),
    ("big-endian counter", |i| i.to_be_bytes().to_vec()),
    ("little-endian counter", |i| i.to_le_bytes().to_vec()),
];

/// Twenty letters, of which five differ from `a`: neighbours are one edit apart.
fn one_letter_apart(i: u64) -> Vec<u8> {
    let mut name = vec![b'a'; 20];
    for (place, digit) in digits(i, 26).enumerate() {
        name[place * 4] = b'a' + u8::try_from(digit).expect("below 26");
    }
    name
}

/// Five digits of `i`, lowest first.
fn digits(i: u64, base: u64) -> impl Iterator<Item = u32> {
    assert!(i < base.pow(5), "five digits are not enough for {i}");
    (0..5).map(move |place| u32::try_from(i / base.pow(place) % base).expect("below the base"))
}

#[test]
fn test_keys_are_distinct() {
    use std::collections::HashSet;
    for (family, key) in STRUCTURED {
        assert_eq!(
            (0..50_000).map(key).collect::<HashSet<_>>().len(),
            50_000,
            "{family}"
        );
    }
    let both = (0..50_000)
        .flat_map(|i| [member(i), stranger(i)])
        .collect::<HashSet<_>>();
    assert_eq!(both.len(), 100_000);
}
