//! The history of the fleet: what nodes report of requests, changes and runs, in an index that answers who changed what.
//!
//! The bucket `HISTORY` carries the records; each instance keeps an index of its own in `SQLite`, and answers from it. [`service`] follows the bucket, [`index`]
//! stores and finds, [`actions`] answers requests.

pub mod actions;
pub mod index;
pub mod options;
pub mod service;
