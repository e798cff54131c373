//! What each client may still ask: one budget of units per client, filling up again at a steady rate.
//!
//! A budget is one number: the moment at which it will be full again (the virtual scheduling form of a leaky bucket,
//! known as GCRA). A client whose budget is full need not be known at all, so the table holds only those who asked
//! lately, and nothing ever has to be pruned.
//!
//! ```text
//!   client (64-bit keyed hash) ──low bits──▶ set ┌────────┬────────┬── 8 places ──┐
//!                                                │ client │ client │      ...     │  one lock a set
//!                                                │ full at│ full at│              │
//!                                                └────────┴────────┴──────────────┘
//! ```
//!
//! The table has a fixed size: 65,536 clients with less than a full budget, 1.1 MB. In a set that is full of them, the
//! one whose budget is closest to full is forgotten, which forgives it a little.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::http::client::Client;

/// Sets in the table; a power of two.
const SETS: usize = 8192;
/// Clients in a set: two cache lines.
const PLACES: usize = 8;

/// What one answer from memory costs.
pub const QUESTION: u32 = 1;
/// What a question costs on top when the database has to be asked.
pub const LOOKUP: u32 = 1;
/// What a sign-up costs: it writes.
pub const SIGN_UP: u32 = 5;

/// The budgets of all clients.
#[derive(Debug)]
pub struct Budgets {
    /// Each lock guards one set, for as long as it takes to look through it.
    sets: Box<[Mutex<[Place; PLACES]>]>,
    began: Instant,
    /// Nanoseconds in which one unit comes back.
    unit: u64,
    /// Nanoseconds in which an empty budget fills up.
    full: u64,
}

/// Moments are nanoseconds since the table was made.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    client: u64,
    full_at: u64,
}

/// A budget does not suffice; it will after this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait(pub Duration);

impl Budgets {
    /// Budgets of `burst` units, `per_second` of which come back each second.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate above zero gives a positive number, and casts saturate"
    )]
    pub fn new(burst: u32, per_second: f64) -> Self {
        let unit = (1e9 / per_second) as u64;
        Self {
            sets: (0..SETS).map(|_| Mutex::default()).collect(),
            began: Instant::now(),
            unit,
            full: unit.saturating_mul(burst.into()),
        }
    }

    /// Takes `units` out of a client's budget. More than a whole budget is let through when the budget is full, and
    /// leaves a debt: a large batch once, then a long pause.
    ///
    /// # Errors
    /// [`Wait`], and nothing is taken.
    pub fn take(&self, client: Client, units: u32) -> Result<(), Wait> {
        let since_start = self.began.elapsed().as_nanos();
        self.take_at(
            client,
            units,
            u64::try_from(since_start).unwrap_or(u64::MAX), // after 584 years
        )
    }

    fn take_at(&self, client: Client, units: u32, now: u64) -> Result<(), Wait> {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "low bits of a hash are wanted"
        )]
        let set = &self.sets[client.0 as usize % SETS];
        // A place is whole whenever a panic might have happened.
        let mut set = set.lock().unwrap_or_else(PoisonError::into_inner);
        let place = match set.iter().position(|place| place.client == client.0) {
            Some(known) => &mut set[known],
            None => set
                .iter_mut()
                .min_by_key(|place| place.full_at)
                .expect("a set has places"),
        };
        let full_at = if place.client == client.0 {
            place.full_at.max(now)
        } else {
            now
        };
        let cost = self.unit.saturating_mul(units.into());
        let lacking = (full_at - now).saturating_add(cost.min(self.full));
        if lacking > self.full {
            return Err(Wait(Duration::from_nanos(lacking - self.full)));
        }
        *place = Place {
            client: client.0,
            full_at: full_at.saturating_add(cost),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn taken(budgets: &Budgets, client: u64, now: u64) -> usize {
        (0..1_000_000)
            .take_while(|_| budgets.take_at(Client(client), 1, now).is_ok())
            .count()
    }

    #[test]
    fn a_burst_is_granted_then_the_rate() {
        let budgets = Budgets::new(120, 4.0);
        assert_eq!(taken(&budgets, 7, 0), 120);
        assert_eq!(
            budgets.take_at(Client(7), 1, 0),
            Err(Wait(Duration::from_millis(250)))
        );
        assert_eq!(taken(&budgets, 7, SECOND), 4);
        assert_eq!(taken(&budgets, 7, 11 * SECOND), 40);
        assert_eq!(taken(&budgets, 7, 1000 * SECOND), 120, "never more");
        assert_eq!(taken(&budgets, 8, 0), 120, "another's budget is its own");
    }

    #[test]
    fn a_refusal_costs_nothing_and_says_when_to_come_back() {
        let budgets = Budgets::new(10, 2.0);
        assert_eq!(budgets.take_at(Client(7), 8, 0), Ok(()));
        let Err(Wait(wait)) = budgets.take_at(Client(7), 5, 0) else {
            panic!("8 and 5 are more than 10")
        };
        assert_eq!(wait, Duration::from_millis(1500));
        assert_eq!(budgets.take_at(Client(7), 2, 0), Ok(()));
        assert_eq!(budgets.take_at(Client(7), 10, 5 * SECOND), Ok(()));
    }

    #[test]
    fn what_is_more_than_a_whole_budget_needs_a_full_one_and_leaves_a_debt() {
        let budgets = Budgets::new(10, 1.0);
        assert_eq!(budgets.take_at(Client(7), 1000, 0), Ok(()));
        assert_eq!(taken(&budgets, 7, 989 * SECOND), 0);
        assert_eq!(taken(&budgets, 7, 991 * SECOND), 1);
        assert_eq!(
            budgets.take_at(Client(7), 1000, 991 * SECOND),
            Err(Wait(Duration::from_secs(10)))
        );
        assert_eq!(
            budgets.take_at(Client(7), u32::MAX, 2000 * SECOND),
            Ok(()),
            "whatever the number, nothing overflows"
        );
    }

    #[test]
    fn of_too_many_clients_the_one_closest_to_full_is_forgotten() {
        let budgets = Budgets::new(10, 1.0);
        let sets = SETS as u64;
        let in_one_set: Vec<u64> = (1..=PLACES as u64).map(|n| n * sets).collect();
        for (spent, client) in (2..).zip(&in_one_set) {
            assert_eq!(budgets.take_at(Client(*client), spent, 0), Ok(()));
        }
        let one_more = Client(100 * sets);
        assert_eq!(budgets.take_at(one_more, 10, 0), Ok(()));
        assert!(budgets.take_at(one_more, 1, 0).is_err(), "it is known now");
        assert_eq!(taken(&budgets, in_one_set[7], 0), 1, "the deepest is kept");
        // Once budgets are full again, their places are anybody's.
        for n in 1..=PLACES as u64 {
            assert_eq!(taken(&budgets, (1000 + n) * sets, 60 * SECOND), 10);
        }
    }

    /// Forty people behind one address, each of whom tries five names in half a minute; one name in six is taken.
    #[test]
    fn an_office_is_answered() {
        let budgets = Budgets::new(120, 4.0);
        for n in 0..200 {
            let at = n * 30 * SECOND / 200;
            assert_eq!(budgets.take_at(Client(7), QUESTION, at), Ok(()), "{n}");
            if n % 6 == 0 {
                assert_eq!(budgets.take_at(Client(7), LOOKUP, at), Ok(()), "{n}");
            }
        }
    }

    #[test]
    fn rates_that_are_odd_are_kept() {
        assert_eq!(taken(&Budgets::new(1, 0.001), 7, 0), 1);
        let fast = Budgets::new(u32::MAX, 1e6);
        assert_eq!(fast.take_at(Client(7), u32::MAX, 0), Ok(()));
        assert!(fast.take_at(Client(7), 1, 0).is_err());
    }
}
