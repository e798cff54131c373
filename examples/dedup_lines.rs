//! Passes on each line of a stream at its first sight, in a fixed amount of memory.
//!
//! One line in a million may be dropped by mistake; a line is never passed on twice.
//!
//! ```text
//! seq 1 1000 | sed p | cargo run --release --example dedup_lines
//! cargo run --release --example dedup_lines -- 50000000 < access.log
//! ```

use std::{
    env,
    error::Error,
    io::{self, BufRead, BufWriter, Write},
};

use namegate::filter::{BlockedBloom, HashSecret, Sizing};

fn main() -> Result<(), Box<dyn Error>> {
    let distinct_lines = env::args().nth(1).map_or(Ok(1_000_000), |it| it.parse())?;
    let sizing = Sizing::plan(distinct_lines, 1e-6, 8 << 30)?;
    let mut seen = BlockedBloom::new(sizing, HashSecret::random()?)?;

    let (mut input, mut output) = (io::stdin().lock(), BufWriter::new(io::stdout().lock()));
    let (mut line, mut lines, mut passed) = (Vec::new(), 0_u64, 0_u64);
    while input.read_until(b'\n', &mut line)? > 0 {
        lines += 1;
        if seen.insert_exclusive(line.trim_ascii_end()) {
            passed += 1;
            output.write_all(&line)?;
        }
        line.clear();
    }
    output.flush()?;
    eprintln!("{passed} of {lines} lines, {sizing:?}");
    Ok(())
}
