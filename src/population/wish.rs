//! Why a generation should be replaced by a better one although it can be trusted.

/// Each is a reason to build the next generation beside the live one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wish {
    /// It holds more names than it was sized for.
    Capacity,
    /// Its false-positive rate is twice what was promised.
    Rate,
    /// Too many of its names are held by no row any more.
    Released,
    /// The table was truncated: all of its names are of this kind.
    Truncated,
    /// Some of its blocks were damaged on disk and say *maybe* to everything.
    Damaged,
    /// Somebody asked for it.
    Command,
}

impl Wish {
    /// A short stable word, for metric labels.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Rate => "rate",
            Self::Released => "released",
            Self::Truncated => "truncated",
            Self::Damaged => "damaged",
            Self::Command => "command",
        }
    }
}
