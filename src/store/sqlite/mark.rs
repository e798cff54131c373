//! What a filter on disk says about where it was.

use serde::{Deserialize, Serialize};

use crate::gate::{Bookmark, StoreError};

/// A [`Bookmark`] of this store, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// Its row in `namegate_consumer`.
    pub(super) consumer: String,
    /// Every change up to this outbox id is in the filter.
    pub(super) position: i64,
    /// Of the file.
    pub(super) identity: String,
}

impl From<Mark> for Bookmark {
    fn from(mark: Mark) -> Self {
        Self(serde_json::to_vec(&mark).expect("strings and numbers are valid JSON"))
    }
}

impl TryFrom<&Bookmark> for Mark {
    type Error = StoreError;

    fn try_from(bookmark: &Bookmark) -> Result<Self, StoreError> {
        serde_json::from_slice(&bookmark.0)
            .map_err(|_| StoreError::Garbled("an unreadable bookmark"))
    }
}
