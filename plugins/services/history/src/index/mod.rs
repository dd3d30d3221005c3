//! The index: a database of `SQLite` with one row for each thing that happened, and one for each run.
//!
//! `schema.sql` has the tables, `database` the file. `ingest`: takes messages of nodes. `row`: one thing that happened. `runs`: runs. `origin`: who is behind them. `query`: finds rows. `drift`: what the last runs would have changed. `figures`: for monitoring. `statistics`: counts runs. `ended`: runs in the order of their arrival. `taken`: rows in that order. `reports`: what lists of reports show.
//! Everything here blocks.

mod database;
mod drift;
mod ended;
mod error;
mod figures;
mod ingest;
mod origin;
mod query;
mod reports;
mod row;
mod runs;
mod statistics;
mod taken;

pub use database::HistoryIndex;
pub use ended::{EndedRun, RunCursor};
pub use error::IndexError;
pub use figures::HistoryFigures;
pub use ingest::{IngestedMessage, OpenedBatch};
pub use query::QueryPage;
pub use reports::{ReportRow, ReportSelection};
pub use taken::{RowCursor, TakenRow};

#[cfg(test)]
mod tests;
