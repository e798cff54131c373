//! Why a position can be believed after a crash.
//!
//! Transaction ids are not durable until something that names them is flushed: after a crash the server may give the
//! same ids to other transactions, whose rows a position from before the crash would skip for ever. So a position is
//! only moved in a transaction that reads the feed, writes the position with a fresh nonce into our consumer row, and
//! commits. Every poll returns that row's nonce in the same snapshot as the changes:
//!
//! ```text
//!   nonce in the row          meaning                                    then
//!   ours, the latest          nothing was lost                           go on
//!   ours, an older one        the server lost our last certificates      rewind to the row's own watermark
//!   none of ours, or no row   another history, or expired                distrust, scan again
//! ```

use std::collections::VecDeque;

use uuid::Uuid;

use crate::gate::Distrust;
use crate::store::postgres::snapshot::Snapshot;

/// Nonces remembered: over an hour at one certificate a second.
const REMEMBERED: usize = 4096;

/// The position of one filter, with the history that vouches for it.
#[derive(Debug)]
pub(super) struct Certified {
    position: Snapshot,
    nonce: Uuid,
    history: VecDeque<Uuid>,
}

/// What the nonce found in our consumer row means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is the one our position was certified with.
    Sound,
    /// The position went back to what the row vouches for; what was read from the newer one must be read again.
    Rewound,
}

impl Certified {
    /// A position whose certificate `nonce` has been committed.
    #[must_use]
    pub(super) fn new(position: Snapshot, nonce: Uuid) -> Self {
        Self {
            position,
            nonce,
            history: VecDeque::from([nonce]),
        }
    }

    /// From where the next poll reads.
    #[must_use]
    pub(super) const fn position(&self) -> &Snapshot {
        &self.position
    }

    /// Draws the nonce of the next certificate. Call it before the certificate is sent: if its commit is lost on the
    /// way back, the nonce may come up in the row all the same, and is then known to be ours.
    pub(super) fn draw_nonce(&mut self) -> Uuid {
        let nonce = Uuid::new_v4();
        if self.history.len() == REMEMBERED {
            self.history.pop_front();
        }
        self.history.push_back(nonce);
        nonce
    }

    /// The certificate `nonce` for `position` is committed.
    pub(super) fn move_to(&mut self, position: Snapshot, nonce: Uuid) {
        self.position = position;
        self.nonce = nonce;
    }

    /// Compares the row's certificate with ours.
    ///
    /// # Errors
    /// [`Distrust::Certificate`] when the row, or its nonce, is not ours.
    pub(super) fn check(&mut self, row: Option<(Uuid, Snapshot)>) -> Result<Standing, Distrust> {
        let (nonce, watermark) = row.ok_or(Distrust::Certificate)?;
        if nonce == self.nonce {
            return Ok(Standing::Sound);
        }
        if !self.history.contains(&nonce) {
            return Err(Distrust::Certificate);
        }
        self.move_to(watermark, nonce);
        Ok(Standing::Rewound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(xmax: u64) -> Snapshot {
        Snapshot {
            xmin: xmax,
            xmax,
            running: Vec::new(),
        }
    }

    #[test]
    fn a_lost_certificate_rewinds_to_what_the_row_vouches_for() {
        let first = Uuid::new_v4();
        let mut certified = Certified::new(at(10), first);
        let second = certified.draw_nonce();
        certified.move_to(at(20), second);
        assert_eq!(certified.check(Some((second, at(20)))), Ok(Standing::Sound));
        assert_eq!(
            certified.check(Some((first, at(10)))),
            Ok(Standing::Rewound)
        );
        assert_eq!(certified.position(), &at(10));
        assert_eq!(certified.check(Some((first, at(10)))), Ok(Standing::Sound));
    }

    #[test]
    fn a_certificate_whose_commit_was_not_reported_is_known() {
        let mut certified = Certified::new(at(10), Uuid::new_v4());
        let unreported = certified.draw_nonce();
        assert_eq!(
            certified.check(Some((unreported, at(15)))),
            Ok(Standing::Rewound)
        );
        assert_eq!(certified.position(), &at(15));
    }

    #[test]
    fn another_history_is_distrusted() {
        let mut certified = Certified::new(at(10), Uuid::new_v4());
        assert_eq!(
            certified.check(Some((Uuid::new_v4(), at(30)))),
            Err(Distrust::Certificate)
        );
        assert_eq!(certified.check(None), Err(Distrust::Certificate));
        assert_eq!(certified.position(), &at(10));
    }
}
