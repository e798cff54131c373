//! The one door through which atomics enter the filter, so that a model checker can take the place
//! of the hardware.
//!
//! With the feature `loom`, test builds get loom's atomics and explore every interleaving of the
//! real code. All other builds get the standard ones.

#[cfg(all(test, feature = "loom"))]
pub(super) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(all(test, feature = "loom")))]
pub(super) use std::sync::atomic::{AtomicU64, Ordering};

/// Plain access to a word nobody else can see.
#[cfg(not(all(test, feature = "loom")))]
#[inline]
pub(super) fn with_mut<R>(word: &mut AtomicU64, change: impl FnOnce(&mut u64) -> R) -> R {
    change(word.get_mut())
}

/// Plain access to a word nobody else can see; the checker verifies that nobody does.
#[cfg(all(test, feature = "loom"))]
pub(super) fn with_mut<R>(word: &mut AtomicU64, change: impl FnOnce(&mut u64) -> R) -> R {
    word.with_mut(change)
}
