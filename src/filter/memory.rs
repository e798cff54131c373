//! Where the blocks live: one anonymous mapping, zeroed by the kernel, on huge pages where the
//! system offers them.
//!
//! A mapping instead of a `Vec`: it costs nothing until it is touched, it is aligned to whole
//! pages, it goes back to the system at once when dropped, and it can be advised before the first
//! touch. With 4 KiB pages nearly every question to a large filter also misses the address
//! translation cache; with 2 MiB pages few do.

use std::{
    io,
    ops::{Deref, DerefMut},
};

use super::layout::Block;

#[cfg(not(any(miri, all(test, feature = "loom"))))]
pub(super) use mapped::Blocks;
#[cfg(any(miri, all(test, feature = "loom")))]
pub(super) use owned::Blocks;

#[cfg(not(any(miri, all(test, feature = "loom"))))]
mod mapped {
    use memmap2::{MmapMut, MmapRaw};

    use super::{Block, Deref, DerefMut, io};

    /// A fixed number of blocks, at least one.
    pub(in super::super) struct Blocks {
        region: MmapRaw,
        count: usize,
    }

    impl Blocks {
        /// Maps `count` blocks of zeros.
        ///
        /// # Errors
        /// What the system says when it grants no such mapping, or `OutOfMemory` when it cannot be
        /// addressed.
        pub(in super::super) fn zeroed(count: u64) -> io::Result<Self> {
            let count = usize::try_from(count).map_err(|_| io::ErrorKind::OutOfMemory)?;
            let bytes = count
                .checked_mul(size_of::<Block>())
                .ok_or(io::ErrorKind::OutOfMemory)?;
            let region = MmapMut::map_anon(with_whole_huge_pages(bytes)?)?;
            advise_huge_pages(&region);
            Ok(Self {
                region: region.into(),
                count,
            })
        }
    }

    const HUGE_PAGE_BYTES: usize = 2 << 20;

    /// Linux places a mapping where huge pages begin if its length is a multiple of theirs, and
    /// anywhere else otherwise: then its ends lie on small pages.
    fn with_whole_huge_pages(bytes: usize) -> io::Result<usize> {
        if bytes < HUGE_PAGE_BYTES {
            return Ok(bytes);
        }
        let whole = bytes.checked_next_multiple_of(HUGE_PAGE_BYTES);
        whole.ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// Before the first touch: pages that exist already are only merged much later, in the
    /// background.
    #[cfg(target_os = "linux")]
    fn advise_huge_pages(region: &MmapMut) {
        if region.len() >= HUGE_PAGE_BYTES {
            // Advice: a kernel without huge pages refuses it, and the filter works as well on small
            // ones.
            let _ = region.advise(memmap2::Advice::HugePage);
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn advise_huge_pages(_region: &MmapMut) {}

    impl Deref for Blocks {
        type Target = [Block];

        #[inline]
        fn deref(&self) -> &[Block] {
            #[allow(unsafe_code, reason = "the one place where mapped bytes become blocks")]
            // SAFETY: the mapping has `count * size_of::<Block>()` bytes or more (see `zeroed`), lives as
            // long as `self`, is anonymous and private, so that no file or process changes it, and
            // starts on a page, which aligns it to 64. Any bytes are a valid `Block`: it is an
            // array of atomic integers. Shared access only goes through these atomics.
            unsafe {
                std::slice::from_raw_parts(self.region.as_ptr().cast(), self.count)
            }
        }
    }

    impl DerefMut for Blocks {
        #[inline]
        fn deref_mut(&mut self) -> &mut [Block] {
            #[allow(unsafe_code, reason = "the one place where mapped bytes become blocks")]
            // SAFETY: as in `deref`; and `&mut self` shows that no other reference into the mapping
            // exists.
            unsafe {
                std::slice::from_raw_parts_mut(self.region.as_mut_ptr().cast(), self.count)
            }
        }
    }
}

/// For checkers that know no mappings, and whose atomics are not plain zeros.
#[cfg(any(miri, all(test, feature = "loom")))]
mod owned {
    use super::{Block, Deref, DerefMut, io};

    pub(in super::super) struct Blocks(Box<[Block]>);

    impl Blocks {
        pub(in super::super) fn zeroed(count: u64) -> io::Result<Self> {
            const MOST: u64 = 1 << 20; // more than any checked test can fill
            if count > MOST {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            Ok(Self((0..count).map(|_| Block::empty()).collect()))
        }
    }

    impl Deref for Blocks {
        type Target = [Block];

        fn deref(&self) -> &[Block] {
            &self.0
        }
    }

    impl DerefMut for Blocks {
        fn deref_mut(&mut self) -> &mut [Block] {
            &mut self.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_start_empty_and_aligned() {
        for count in [1, 3, 40_000] {
            let blocks = Blocks::zeroed(count).expect("small");
            assert_eq!(blocks.len() as u64, count);
            assert_eq!(blocks.as_ptr().addr() % 64, 0);
            assert!(blocks.iter().all(|block| block.words() == [0; 8]));
        }
    }

    #[test]
    fn what_cannot_be_addressed_is_an_error() {
        assert!(Blocks::zeroed(u64::MAX).is_err());
        assert!(Blocks::zeroed(1 << 57).is_err());
    }
}
