//! How many names are inside, as far as bits can tell.

use std::fmt;

/// Number of names read from the bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CountEstimate {
    /// So many names, give or take the standard error.
    About {
        /// Distinct names; duplicates do not count.
        names: u64,
        /// Standard error in names: two of three estimates are within one, nearly all within three.
        standard_error: f64,
    },
    /// No bit is left clear: the filter tells nothing but that it holds about this many names or
    /// more.
    AtLeast {
        /// The estimate for a filter with a single clear bit.
        names: u64,
    },
}

impl CountEstimate {
    /// The number alone; a lower bound when [`AtLeast`](Self::AtLeast).
    #[must_use]
    pub const fn names(&self) -> u64 {
        match *self {
            Self::About { names, .. } | Self::AtLeast { names } => names,
        }
    }
}

impl fmt::Display for CountEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::About {
                names,
                standard_error,
            } => write!(f, "{names} (+- {standard_error:.0})"),
            Self::AtLeast { names } => write!(f, "at least {names}"),
        }
    }
}
