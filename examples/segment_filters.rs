//! Sorted segment files, each with a filter beside it that is asked before the file is opened.
//!
//! Storage engines do this: a key may be in any of many files, and reading one is slow. Filters are
//! written once with their segment and read back at start; one that is damaged or missing only
//! means that its segment is always opened.
//!
//! ```text
//! cargo run --release --example segment_filters
//! ```

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process,
};

use namegate::filter::{
    BlockedBloom, HashSecret, Hint, Sizing,
    snapshot::{Expected, Label, Slot, SnapshotDirectory},
};

const CEILING_BYTES: u64 = 1 << 30;

struct Segment {
    file: PathBuf,
    filter: Option<BlockedBloom>,
}

/// Writes the keys, and beside them a directory with their filter and its secret.
fn write_segment(file: &Path, keys: &[String]) -> Result<(), Box<dyn Error>> {
    fs::write(file, keys.join("\n"))?;
    let sizing = Sizing::plan(keys.len() as u64, 0.001, CEILING_BYTES)?;
    let mut filter = BlockedBloom::new(sizing, HashSecret::random()?)?;
    filter.insert_batch_exclusive(keys);
    let label = Label {
        source: segment_identity(file),
        ..Label::default()
    };
    SnapshotDirectory::open(file.with_extension("filter"))?.save(&filter, &label)?;
    Ok(())
}

fn open_segment(file: PathBuf) -> Result<Segment, Box<dyn Error>> {
    let expected = Expected {
        fold_fingerprint: 0,
        source: &segment_identity(&file),
        ceiling_bytes: CEILING_BYTES,
    };
    let directory = SnapshotDirectory::open(file.with_extension("filter"))?;
    let filter = match directory.restore(Slot::Current, &expected) {
        Ok(restored) => Some(restored.filter),
        Err(refusal) => {
            eprintln!("{}: {refusal}", file.display());
            None
        }
    };
    Ok(Segment { file, filter })
}

/// A filter is only good for the segment it was made from.
fn segment_identity(file: &Path) -> Vec<u8> {
    let name = file.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned().into_bytes()
}

impl Segment {
    fn may_hold(&self, key: &str) -> bool {
        let filter = self.filter.as_ref();
        filter.is_none_or(|filter| filter.probe(key.as_bytes()) == Hint::Maybe)
    }

    fn holds(&self, key: &str) -> Result<bool, Box<dyn Error>> {
        Ok(fs::read_to_string(&self.file)?
            .lines()
            .any(|line| line == key))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = env::temp_dir().join(format!("segments-{}", process::id()));
    fs::create_dir_all(&directory)?;
    let key = |segment: u32, i: u32| format!("key-{segment}-{i}");
    let mut segments = Vec::new();
    for segment in 0..20 {
        let file = directory.join(format!("{segment:03}.keys"));
        let keys: Vec<String> = (0..2_000).map(|i| key(segment, i)).collect();
        write_segment(&file, &keys)?;
        segments.push(open_segment(file)?);
    }

    let (mut opened, mut found) = (0, 0);
    for i in 0..500 {
        let wanted = key(i % 25, i); // one in five is in no segment
        for segment in segments.iter().filter(|segment| segment.may_hold(&wanted)) {
            opened += 1;
            found += u32::from(segment.holds(&wanted)?);
        }
    }
    println!("{found} of 500 keys found, {opened} files opened instead of 10000");
    fs::remove_dir_all(directory)?;
    Ok(())
}
