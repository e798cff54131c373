//! Other names for somebody whose first choice is taken.
//!
//! Candidates are made from the asked name alone, with digits, separators and short words; nothing else
//! is known about the person, and nothing else is used. Each passes the same policy *after* it has been
//! joined, so that neither cutting nor joining can make a bad name. Whether a candidate is free is not
//! known here: the caller keeps those that the filter calls absent, which costs no query.

use std::collections::BTreeSet;

use super::canonical::Canonical;
use super::policy::Policy;
use super::profile::MAX_CHARACTERS;
use super::shape::SEPARATORS;

/// Candidates tried before the well runs dry.
const MAX_TRIES: u32 = 64;

const WORDS: [&str; 20] = [
    "hey", "hello", "hi", "its", "just", "oak", "elm", "fox", "owl", "sea", "sky", "sun", "river",
    "meadow", "amber", "blue", "green", "silver", "north", "south",
];

/// Numbers that mean more to some people than a number.
const SHUNNED: [u64; 6] = [14, 18, 69, 88, 420, 666];

/// An endless-looking but bounded source of allowed names like a given one.
///
/// No name comes twice, none is the asked one, and the whole sequence follows from the seed. May come
/// back empty: for a name that is not allowed, and under rules that leave no room.
///
/// ```
/// use namegate::names::{Policy, Profile, Reserved, Suggestions};
/// let policy = Policy::new(Profile::Ascii, Reserved::built_in());
/// let is_absent = |name: &str| name.len() < 12; // the filter's word
/// let names: Vec<_> = Suggestions::new(&policy, "Alice", 7)
///     .filter(|name| is_absent(name.as_str()))
///     .take(3)
///     .collect();
/// assert_eq!(names.len(), 3);
/// assert!(names.iter().all(|name| name.as_str().contains("alice")));
/// ```
#[derive(Debug, Clone)]
pub struct Suggestions<'a> {
    policy: &'a Policy,
    stem: Canonical,
    used: BTreeSet<Canonical>,
    tries_left: u32,
    dice: Dice,
}

impl<'a> Suggestions<'a> {
    /// Names like `asked`, as typed. `seed`: random for people, fixed for tests.
    #[must_use]
    pub fn new(policy: &'a Policy, asked: &str, seed: u64) -> Self {
        let (stem, tries_left) = match policy.judge(asked) {
            Ok(canonical) => (canonical, MAX_TRIES),
            Err(_) => (Canonical::stored(""), 0),
        };
        let used = BTreeSet::from([stem.clone()]);
        Self {
            policy,
            stem,
            used,
            tries_left,
            dice: Dice(seed),
        }
    }

    /// The next candidate, not yet judged.
    fn candidate(&mut self) -> String {
        let number = self.dice.number();
        let separator = self.dice.pick(&["-", "_", "."]);
        let word = self.dice.pick(&WORDS);
        // Latin words beside letters of another script would be refused anyway.
        let forms = if self.stem.as_str().is_ascii() { 4 } else { 2 };
        match self.dice.below(forms) {
            0 => self.joined("", &format!("{number}")),
            1 => self.joined("", &format!("{separator}{number}")),
            2 => self.joined("", &format!("{separator}{word}")),
            _ => self.joined(&format!("{word}{separator}"), ""),
        }
    }

    /// The stem between two pieces, cut so that all fits, and never cut at a separator.
    fn joined(&self, before: &str, after: &str) -> String {
        let room = MAX_CHARACTERS.saturating_sub(before.len() + after.len());
        let stem = self.stem.as_str();
        let cut = stem
            .char_indices()
            .nth(room)
            .map_or(stem, |(at, _)| &stem[..at]);
        format!("{before}{}{after}", cut.trim_end_matches(SEPARATORS))
    }
}

impl Iterator for Suggestions<'_> {
    type Item = Canonical;

    fn next(&mut self) -> Option<Canonical> {
        while self.tries_left > 0 {
            self.tries_left -= 1;
            let candidate = self.candidate();
            if let Ok(name) = self.policy.judge(&candidate)
                && self.used.insert(name.clone())
            {
                return Some(name);
            }
        }
        None
    }
}

/// `SplitMix64`: small, seedable, and nothing here needs to be unguessable.
///
/// Source: Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators".
#[derive(Debug, Clone)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`, which is small: the bias is beyond notice.
    fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }

    fn pick<'w>(&mut self, words: &[&'w str]) -> &'w str {
        let at = usize::try_from(self.below(words.len() as u64)).unwrap_or_default();
        words[at]
    }

    /// Two or three digits: too few to look like a year of birth in full.
    fn number(&mut self) -> u64 {
        let number = 10 + self.below(990);
        if SHUNNED.contains(&number) {
            number + 1
        } else {
            number
        }
    }
}
