//! A block list that fits in memory: most addresses are let through without a look at the list.
//!
//! A filter says *absent* or *maybe*. What it calls *maybe* is looked up in the list itself, which
//! may be slow and far away (here a set stands in for it): one harmless address in a thousand.
//!
//! ```text
//! cargo run --release --example url_block_list
//! ```

use std::{collections::HashSet, error::Error};

use namegate::filter::{BlockedBloom, HashSecret, Hint, Sizing};

struct BlockList {
    filter: BlockedBloom,
    listed: HashSet<String>,
    lookups: u32,
}

impl BlockList {
    fn new(listed: HashSet<String>) -> Result<Self, Box<dyn Error>> {
        let sizing = Sizing::plan(listed.len() as u64, 0.001, 1 << 30)?;
        let mut filter = BlockedBloom::new(sizing, HashSecret::random()?)?;
        let urls: Vec<&str> = listed.iter().map(String::as_str).collect();
        filter.insert_batch_exclusive(&urls);
        Ok(Self {
            filter,
            listed,
            lookups: 0,
        })
    }

    fn is_blocked(&mut self, url: &str) -> bool {
        if self.filter.probe(url.as_bytes()) == Hint::Absent {
            return false;
        }
        self.lookups += 1;
        self.listed.contains(url)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let bad = |i: u32| format!("https://bad-{i}.example/login");
    let good = |i: u32| format!("https://good-{i}.example/");
    let mut list = BlockList::new((0..100_000).map(bad).collect())?;

    let blocked = (0..100_000).filter(|&i| list.is_blocked(&bad(i))).count();
    println!("{blocked} of 100000 listed addresses blocked");

    list.lookups = 0;
    let blocked = (0..100_000).filter(|&i| list.is_blocked(&good(i))).count();
    let lookups = list.lookups;
    println!("{blocked} of 100000 others blocked, {lookups} of them looked up");
    Ok(())
}
