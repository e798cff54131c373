//! Why a name is kept back: a code for programs, a sentence for people.

use std::fmt;

use serde::Serialize;

/// Why a name is kept back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReservedReason {
    /// The first segment of a page or interface: `/login` belongs to the site.
    Route,
    /// A file name extension that a router or proxy would act on, such as `.json`.
    RouteSuffix,
    /// A mailbox, DNS label or device name that protocols give a meaning to.
    Infrastructure,
    /// A word that programs use for "nobody" or "the system itself".
    Sentinel,
    /// A name that people would take for the voice of the site.
    Brand,
    /// Listed by the operator.
    Operator,
    /// Holds a word that the operator has barred.
    Word,
}

impl ReservedReason {
    /// Every reason, in the order in which they are documented.
    pub const ALL: [Self; 7] = [
        Self::Route,
        Self::RouteSuffix,
        Self::Infrastructure,
        Self::Sentinel,
        Self::Brand,
        Self::Operator,
        Self::Word,
    ];

    /// The stable code that forms branch on.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Route => "route",
            Self::RouteSuffix => "route_suffix",
            Self::Infrastructure => "infrastructure",
            Self::Sentinel => "sentinel",
            Self::Brand => "brand",
            Self::Operator => "operator",
            Self::Word => "word",
        }
    }
}

/// A sentence to show beside the field.
impl fmt::Display for ReservedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Route => "This name is the address of a page of this site.",
            Self::RouteSuffix => "This name ends like a file name.",
            Self::Infrastructure => {
                "This name has a meaning for mail, the network or operating systems."
            }
            Self::Sentinel => "Programs use this name for something else.",
            Self::Brand => "This name could be taken for the site's own.",
            Self::Operator => "This name is reserved.",
            Self::Word => "This name holds a word that is not allowed here.",
        })
    }
}
