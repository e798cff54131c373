//! Little-endian numbers taken from bytes one after the other.

/// What is left of some bytes whose length was checked.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl Fields<'_> {
    /// The next `N` bytes.
    ///
    /// # Panics
    /// When fewer are left: callers check the length of the whole before they take its parts.
    pub(super) fn take<const N: usize>(&mut self) -> [u8; N] {
        let (&taken, rest) = self
            .0
            .split_first_chunk()
            .expect("the length was checked before");
        self.0 = rest;
        taken
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}
