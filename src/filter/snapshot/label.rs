//! What the caller writes beside the bits.

use super::SaveError;

/// Most bytes of [`Label::source`].
pub const MOST_SOURCE_BYTES: usize = 4 << 10;
/// Most bytes of [`Label::position`].
pub const MOST_POSITION_BYTES: usize = 256 << 10;

/// What the caller knows of a filter beside its bits. Opaque here: bytes in, the same bytes out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Label {
    /// Fingerprint of the rules by which names became filter keys.
    pub fold_fingerprint: u64,
    /// Identity of the table the names came from; at most [`MOST_SOURCE_BYTES`].
    pub source: Vec<u8>,
    /// Position in the change feed up to which the filter is complete, taken before the copy
    /// begins; at most [`MOST_POSITION_BYTES`].
    pub position: Vec<u8>,
}

impl Label {
    pub(super) fn check_lengths(&self) -> Result<(), SaveError> {
        let parts = [
            ("source", self.source.len(), MOST_SOURCE_BYTES),
            ("position", self.position.len(), MOST_POSITION_BYTES),
        ];
        match parts.into_iter().find(|&(_, bytes, most)| bytes > most) {
            Some((part, bytes, most)) => Err(SaveError::Label { part, bytes, most }),
            None => Ok(()),
        }
    }
}
