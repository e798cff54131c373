//! Where the users table lives. Two implementations of [`crate::gate::Store`], and the address that chooses between them.
//!
//! What both promise is written at the trait; what each does differently is written in its own module.

mod address;
pub mod postgres;
pub mod sqlite;

pub use address::{Address, AddressError};
