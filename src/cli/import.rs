//! `namegate import`: loads names into the sample table, one a line, plain or gzip.
//!
//! Batches are transactions of their own, and names already there are left alone: an import that broke off is simply
//! run again.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Context;
use flate2::read::MultiGzDecoder;
use tokio::sync::mpsc;

use crate::cli::{Exit, Failure, open};
use crate::config::{ImportArgs, TableArgs};
use crate::gate::{Store, StoreError};
use crate::names::{Canonical, Policy};
use crate::store::postgres::{Connections, Deadlines};
use crate::telemetry::Progress;

const BATCH: usize = 10_000;
/// What a btree index can hold of one value, compressed or not.
const LONGEST: usize = 2_600;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// What became of the lines of a file.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Imported {
    /// Lines that hold anything.
    pub(super) lines: u64,
    /// New rows.
    pub(super) inserted: u64,
    /// Lines that were left out: refused by the rules, or not storable.
    pub(super) refused: u64,
    /// The first line left out, counted from 1.
    pub(super) first_refused: Option<u64>,
}

type Row = (String, String);

pub(super) async fn run(args: ImportArgs) -> Result<Exit, Failure> {
    let policy = open::policy(&args.policy)?;
    let chosen = open::database(&args.database)?;
    let is_ours = chosen.is_embedded_default;
    let store = open::store(
        chosen,
        &TableArgs::sample(),
        Deadlines::default(),
        Connections::default(),
    )?;
    let place = store.describe();
    let (source, size_bytes, position) = open_source(&args.file)?;
    if is_ours {
        open::make_data_dir(&args.database)?;
        store
            .migrate()
            .await
            .map_err(|error| Failure::store(error, format!("could not prepare {place}")))?;
    }
    store
        .probe()
        .await
        .map_err(|error| Failure::store(error, format!("could not import into {place}")))?;

    let began = Instant::now();
    let progress = Progress::of_bytes("importing", size_bytes);
    let rules = args.validate.then_some(policy);
    let imported = import(&store, source, rules, |done| {
        progress.reached_bytes(position.load(Ordering::Relaxed), done);
    })
    .await;
    progress.finish();
    store.close().await;
    let Imported { lines, inserted, refused, first_refused } = imported.map_err(|failed| match failed {
        ImportError::Store(error, inserted) => Failure::store(
            error,
            format!("the import into {place} broke off after {inserted} new names; run it again to go on"),
        ),
        ImportError::Read(error) => Failure::new(
            Exit::File,
            anyhow::Error::from(error).context(format!("could not read {}", args.file.display())),
        ),
    })?;

    let seconds = began.elapsed().as_secs_f64();
    #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = lines as f64 / seconds.max(1e-9);
    println!("{inserted} names imported into {place} in {seconds:.1} s ({rate:.0} rows/s)");
    let present = lines - inserted - refused;
    if present > 0 {
        println!("{present} were there already");
    }
    if let Some(line) = first_refused {
        println!(
            "{refused} were left out: refused by the rules, or not storable (the first in line {line})"
        );
    }
    Ok(Exit::Done)
}

#[derive(Debug)]
pub(super) enum ImportError {
    /// The database failed, after so many new rows.
    Store(StoreError, u64),
    Read(std::io::Error),
}

/// Loads all names from `source`. With `rules`, only those a sign-up would allow. `reached` is told the lines done.
pub(super) async fn import(
    store: &Arc<dyn Store>,
    source: Box<dyn Read + Send>,
    rules: Option<Policy>,
    reached: impl Fn(u64),
) -> Result<Imported, ImportError> {
    // Two batches in hand: one is read and judged while the other is on its way to the database.
    let (sender, mut batches) = mpsc::channel::<Vec<Row>>(2);
    let reader = tokio::task::spawn_blocking(move || read(source, rules.as_ref(), &sender));
    let mut inserted = 0;
    let mut rows = 0;
    while let Some(batch) = batches.recv().await {
        inserted += store
            .import(&batch)
            .await
            .map_err(|error| ImportError::Store(error, inserted))?;
        rows += batch.len() as u64;
        reached(rows);
    }
    let mut imported = reader
        .await
        .map_err(std::io::Error::other)
        .and_then(|read| read)
        .map_err(ImportError::Read)?;
    imported.inserted = inserted;
    Ok(imported)
}

fn read(
    source: Box<dyn Read + Send>,
    rules: Option<&Policy>,
    batches: &mpsc::Sender<Vec<Row>>,
) -> std::io::Result<Imported> {
    let mut source = BufReader::with_capacity(1 << 20, source);
    let mut imported = Imported::default();
    let mut batch = Vec::with_capacity(BATCH);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if source.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if text.is_empty() {
            continue;
        }
        imported.lines += 1;
        if let Some(row) = row(text, rules) {
            batch.push(row);
        } else {
            imported.refused += 1;
            imported.first_refused.get_or_insert(number);
        }
        if batch.len() == BATCH
            && batches
                .blocking_send(std::mem::replace(&mut batch, Vec::with_capacity(BATCH)))
                .is_err()
        {
            return Ok(imported); // the receiver failed, and has its own error to tell
        }
    }
    if !batch.is_empty() {
        drop(batches.blocking_send(batch)); // as above
    }
    Ok(imported)
}

/// A line as a row; `None` when it is left out.
fn row(text: &[u8], rules: Option<&Policy>) -> Option<Row> {
    let text = std::str::from_utf8(text).ok()?;
    let name = text.trim();
    if name.is_empty() || name.contains('\0') || name.len() > LONGEST {
        return None;
    }
    let canonical = match rules {
        Some(rules) => rules.judge(name).ok()?,
        None => Canonical::unjudged(name),
    };
    let canonical = canonical.as_str();
    // Normalising can make a text many times as long, or leave nothing of it.
    let is_storable = !canonical.is_empty() && canonical.len() <= LONGEST;
    is_storable.then(|| (text.to_owned(), canonical.to_owned()))
}

type Source = (Box<dyn Read + Send>, Option<u64>, Arc<AtomicU64>);

/// Opens a file or standard input, unpacks gzip. Returns the size, when known, and a counter of bytes read.
fn open_source(path: &Path) -> Result<Source, Failure> {
    let position = Arc::new(AtomicU64::new(0));
    let open = || -> std::io::Result<(Box<dyn Read + Send>, Option<u64>)> {
        let (raw, size): (Box<dyn Read + Send>, Option<u64>) = if path == Path::new("-") {
            (Box::new(std::io::stdin()), None)
        } else {
            let file = File::open(path)?;
            let size = file.metadata()?.len();
            (Box::new(file), Some(size))
        };
        let mut counted = BufReader::new(Counting {
            inner: raw,
            read: Arc::clone(&position),
        });
        let is_gzip = counted.fill_buf()?.starts_with(&GZIP_MAGIC);
        Ok(if is_gzip {
            (Box::new(MultiGzDecoder::new(counted)), size)
        } else {
            (Box::new(counted), size)
        })
    };
    let (source, size) = open()
        .with_context(|| format!("could not read {}", path.display()))
        .map_err(|error| Failure::new(Exit::File, error))?;
    Ok((source, size, position))
}

struct Counting {
    inner: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
}

impl Read for Counting {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed); // a progress bar's business only
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Profile, Reserved};

    #[test]
    fn without_rules_whatever_can_be_stored_is_kept_as_it_is() {
        assert_eq!(
            row(b" Odd Name ", None),
            Some((" Odd Name ".into(), "odd name".into()))
        );
        assert_eq!(row(b"a\0b", None), None);
        assert_eq!(row(b"caf\xe9", None), None);
        assert_eq!(row(b"   ", None), None);
        assert_eq!(
            row("STRA\u{1E9E}E".as_bytes(), None),
            Some(("STRA\u{1E9E}E".into(), "strasse".into()))
        );
        assert_eq!(row("\u{FDFA}".repeat(400).as_bytes(), None), None);
        assert_eq!(row(&[b'a'; LONGEST + 1], None), None);
    }

    #[test]
    fn with_rules_only_what_a_sign_up_allows_is_kept() {
        let policy = Policy::new(Profile::Ascii, Reserved::built_in());
        assert_eq!(
            row(b"Alice", Some(&policy)),
            Some(("Alice".into(), "alice".into()))
        );
        for refused in ["ab", "a b c", "admin", "a..b"] {
            assert_eq!(row(refused.as_bytes(), Some(&policy)), None, "{refused}");
        }
    }
}
