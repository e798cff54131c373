//! Reads the one text column of a binary COPY stream, however the stream is cut into chunks.
//!
//! Binary, not text: text COPY escapes backslashes, and a name keyed with an escape in it would be a false negative.
//! Binary also has an end marker, so that a stream which breaks off never looks complete.
//!
//! ```text
//! header   "PGCOPY\n\xff\r\n\0"   flags: i32   extension length: i32, then that many bytes
//! row      field count: i16 = 1   length: i32 (-1: NULL), then that many bytes
//! end      field count: i16 = -1
//! ```
//! All integers are big-endian. Source: PostgreSQL manual, COPY, "Binary Format".

use crate::gate::StoreError;

const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// Bit 16 of the flags: rows carry OIDs. No server since PostgreSQL 12 sends them.
const HAS_OIDS: u32 = 1 << 16;

/// A reader fed with chunks. Call [`finish`](Self::finish) at the end of the stream: it demands the end marker.
#[derive(Debug, Default)]
pub struct OneColumn {
    state: State,
    /// Bytes of an item that the last chunk broke off in.
    pending: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Header,
    Rows,
    Ended,
}

impl OneColumn {
    /// Hands every value that is complete by now to `value`; NULLs are left out.
    ///
    /// # Errors
    /// [`StoreError::Garbled`] when the bytes are not a one-column binary COPY.
    pub fn feed(&mut self, chunk: &[u8], mut value: impl FnMut(&[u8])) -> Result<(), StoreError> {
        if self.pending.is_empty() {
            let used = self.consume(chunk, &mut value)?;
            self.pending.extend_from_slice(&chunk[used..]);
        } else {
            let mut bytes = std::mem::take(&mut self.pending);
            bytes.extend_from_slice(chunk);
            let used = self.consume(&bytes, &mut value)?;
            bytes.drain(..used);
            self.pending = bytes;
        }
        Ok(())
    }

    /// # Errors
    /// [`StoreError::Garbled`] when the stream ended before its end marker.
    pub fn finish(self) -> Result<(), StoreError> {
        if self.state == State::Ended && self.pending.is_empty() {
            Ok(())
        } else {
            Err(StoreError::Garbled(
                "the copy broke off before its end marker",
            ))
        }
    }

    /// Returns how many bytes of whole items were consumed.
    fn consume(
        &mut self,
        bytes: &[u8],
        value: &mut impl FnMut(&[u8]),
    ) -> Result<usize, StoreError> {
        let mut rest = bytes;
        loop {
            let next = match self.state {
                State::Header => header(rest)?.map(|after| (after, State::Rows)),
                State::Rows => row(rest, value)?,
                State::Ended if rest.is_empty() => None,
                State::Ended => {
                    return Err(StoreError::Garbled(
                        "bytes follow the end marker of the copy",
                    ));
                }
            };
            match next {
                Some((after, state)) => {
                    rest = after;
                    self.state = state;
                }
                None => return Ok(bytes.len() - rest.len()),
            }
        }
    }
}

/// The bytes after the header, or `None` when it is not complete yet.
fn header(bytes: &[u8]) -> Result<Option<&[u8]>, StoreError> {
    let seen = bytes.len().min(SIGNATURE.len());
    if bytes[..seen] != SIGNATURE[..seen] {
        return Err(StoreError::Garbled(
            "the copy does not begin with the signature",
        ));
    }
    let Some((head, rest)) = bytes.split_first_chunk::<19>() else {
        return Ok(None);
    };
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if word(11) & HAS_OIDS != 0 {
        return Err(StoreError::Garbled("the copy carries OIDs"));
    }
    let extension = usize::try_from(word(15))
        .map_err(|_| StoreError::Garbled("the copy's header is too long"))?;
    Ok(rest.get(extension..))
}

/// One row: the bytes after it and the state then, or `None` when it is not complete yet.
fn row<'a>(
    bytes: &'a [u8],
    value: &mut impl FnMut(&[u8]),
) -> Result<Option<(&'a [u8], State)>, StoreError> {
    let Some((count, rest)) = bytes.split_first_chunk::<2>() else {
        return Ok(None);
    };
    match i16::from_be_bytes(*count) {
        -1 => return Ok(Some((rest, State::Ended))),
        1 => {}
        _ => return Err(StoreError::Garbled("a row of the copy has not one column")),
    }
    let Some((length, rest)) = rest.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = i32::from_be_bytes(*length);
    if length == -1 {
        return Ok(Some((rest, State::Rows)));
    }
    let length = usize::try_from(length)
        .map_err(|_| StoreError::Garbled("a value of the copy has a negative length"))?;
    let Some((text, rest)) = rest.split_at_checked(length) else {
        return Ok(None);
    };
    value(text);
    Ok(Some((rest, State::Rows)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stream(values: &[Option<&[u8]>]) -> Vec<u8> {
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend([0; 8]);
        for value in values {
            bytes.extend(1i16.to_be_bytes());
            match value {
                None => bytes.extend((-1i32).to_be_bytes()),
                Some(text) => {
                    bytes.extend(i32::try_from(text.len()).expect("short").to_be_bytes());
                    bytes.extend(*text);
                }
            }
        }
        bytes.extend((-1i16).to_be_bytes());
        bytes
    }

    fn read(chunks: &[&[u8]]) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut values = Vec::new();
        let mut reader = OneColumn::default();
        for chunk in chunks {
            reader.feed(chunk, |value| values.push(value.to_vec()))?;
        }
        reader.finish().map(|()| values)
    }

    proptest! {
        #[test]
        fn the_same_values_come_out_however_the_stream_is_cut(
            values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20),
            size in 1usize..50,
        ) {
            let optional: Vec<Option<&[u8]>> = values.iter().map(|v| Some(v.as_slice())).collect();
            let bytes = stream(&optional);
            let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
            prop_assert_eq!(read(&chunks).expect("a whole stream"), values);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut behind_a_header = SIGNATURE.to_vec();
            behind_a_header.extend([0; 8]);
            behind_a_header.extend(&bytes);
            for bytes in [bytes, behind_a_header] {
                drop(read(&[&bytes]));
            }
        }
    }

    #[test]
    fn nulls_are_left_out() {
        let bytes = stream(&[Some(b"a"), None, Some(b"")]);
        assert_eq!(
            read(&[&bytes]).expect("a whole stream"),
            vec![b"a".to_vec(), Vec::new()]
        );
    }

    #[test]
    fn a_stream_that_breaks_off_never_looks_complete() {
        let bytes = stream(&[Some(b"alice"), Some(b"bob")]);
        for length in 0..bytes.len() {
            assert!(read(&[&bytes[..length]]).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn bytes_after_the_end_are_refused() {
        let mut bytes = stream(&[Some(b"alice")]);
        bytes.push(0);
        assert!(read(&[&bytes]).is_err());
    }
}
