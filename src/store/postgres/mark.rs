//! What a filter on disk says about where it was: enough to tell whether its past still holds.
//!
//! The mark has a row of its own in `namegate.consumer`, with its own nonce. The row was committed after the certificate
//! of its position, so a history that has the row has the certificate; a server that lost the row in a crash has perhaps
//! lost the certificate too, and then the mark is no longer found.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::gate::{Bookmark, StoreError};

/// A [`Bookmark`] of this store: JSON, so that a later version can read what an older one wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// Its row in `namegate.consumer`.
    pub(super) consumer: Uuid,
    /// In that row for as long as nobody else writes it.
    pub(super) nonce: Uuid,
    /// The `pg_snapshot` up to which the filter is complete, as text.
    pub(super) position: String,
    /// Of the cluster.
    pub(super) system_identifier: String,
    /// Of everything whose change could let a name pass by.
    pub(super) fingerprint: String,
}

impl From<Mark> for Bookmark {
    fn from(mark: Mark) -> Self {
        Self(serde_json::to_vec(&mark).expect("strings are valid JSON"))
    }
}

impl TryFrom<&Bookmark> for Mark {
    type Error = StoreError;

    fn try_from(bookmark: &Bookmark) -> Result<Self, StoreError> {
        serde_json::from_slice(&bookmark.0)
            .map_err(|_| StoreError::Garbled("an unreadable bookmark"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_back_and_nothing_else_is() {
        let mark = Mark {
            consumer: Uuid::new_v4(),
            nonce: Uuid::new_v4(),
            position: "745:751:745,748".into(),
            system_identifier: "7300000000000000000".into(),
            fingerprint: "md5".into(),
        };
        let bookmark = Bookmark::from(mark.clone());
        assert_eq!(Mark::try_from(&bookmark).expect("a mark"), mark);
        for garbled in ["", "{}", "null", "{\"consumer\":1}"] {
            assert!(
                Mark::try_from(&Bookmark(garbled.into())).is_err(),
                "{garbled}"
            );
        }
    }
}
