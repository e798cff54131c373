//! A cache that admits a key only when it is asked for a second time.
//!
//! In many streams most keys come once and never again; stored, they would push out those that
//! return. A filter remembers first sights at two bytes a key. When it is full it is replaced by an
//! empty one, which costs a returning key one more miss.
//!
//! ```text
//! cargo run --release --example second_sight_cache
//! ```

use std::{collections::HashMap, error::Error};

use namegate::filter::{BlockedBloom, HashSecret, Sizing};

struct Cache {
    stored: HashMap<u64, String>,
    seen_once: BlockedBloom,
    first_sights: u64,
    hits: u32,
}

impl Cache {
    fn new(first_sights: u64) -> Result<Self, Box<dyn Error>> {
        let sizing = Sizing::plan(first_sights, 0.001, 1 << 30)?;
        Ok(Self {
            stored: HashMap::new(),
            seen_once: BlockedBloom::new(sizing, HashSecret::random()?)?,
            first_sights: 0,
            hits: 0,
        })
    }

    fn value(&mut self, key: u64) -> Result<String, Box<dyn Error>> {
        if let Some(value) = self.stored.get(&key) {
            self.hits += 1;
            return Ok(value.clone());
        }
        let value = format!("the costly answer for {key}");
        if !self.seen_once.insert(&key.to_le_bytes()) {
            self.stored.insert(key, value.clone()); // seen before
        } else if self.first_sights < self.seen_once.sizing().capacity {
            self.first_sights += 1;
        } else {
            let sizing = *self.seen_once.sizing();
            self.seen_once = BlockedBloom::new(sizing, HashSecret::random()?)?;
            self.first_sights = 0;
        }
        Ok(value)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut cache = Cache::new(100_000)?;
    for question in 0..400_000_u64 {
        // Every other question is for one of a thousand popular keys, the rest come once.
        let key = if question % 2 == 0 {
            question / 2 % 1_000
        } else {
            question + 1_000_000
        };
        cache.value(key)?;
    }
    println!(
        "{} hits in 400000 questions with {} values stored",
        cache.hits,
        cache.stored.len()
    );
    Ok(())
}
