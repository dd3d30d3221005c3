//! Rows in the order in which they were taken, for a reader that goes on where it was.
//!
//! A row that replaces another one is taken later than that. So what a reader has passed stays as it is, or comes again.

use muster_contract::history::HistoryRow;
use rusqlite::params;
use rusqlite::types::ToSql;
use serde::{Deserialize, Serialize};

use super::database::{HistoryIndex, to_signed};
use super::error::IndexError;
use super::query::{Conditions, FoundRow};

/// The place of a row in this order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RowCursor {
    pub revision: u64,
    pub id: i64,
}

/// A row with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct TakenRow {
    pub cursor: RowCursor,
    /// Whether it is about a failure or a refusal.
    pub failed: bool,
    /// How long the action of a request ran, in milliseconds.
    pub took: Option<u64>,
    /// The `traceparent` of a request.
    pub trace: Option<String>,
    pub row: HistoryRow,
}

impl HistoryIndex {
    /// The place after all rows.
    pub fn end_cursor(&self) -> Result<RowCursor, IndexError> {
        Ok(RowCursor { revision: self.last_place()?, id: i64::MAX })
    }

    /// The first rows after this place.
    pub fn taken_rows(&self, after: RowCursor, limit: usize) -> Result<Vec<TakenRow>, IndexError> {
        // A message is taken as a whole, so its rows are complete.
        let places = [to_signed(after.revision), after.id, to_signed(self.last_place()?)];
        let values: Vec<Box<dyn ToSql>> =
            places.map(|place| Box::new(place) as Box<dyn ToSql>).into();
        let mut conditions = Conditions::default();
        conditions.add_all("(revision, happened.id) > (?, ?) AND revision <= ?", values);
        let order = format!("ORDER BY revision, happened.id LIMIT {limit}");
        let found = self.find_rows(&conditions, &order)?.into_iter();
        let to_taken = |found: FoundRow| TakenRow {
            cursor: RowCursor { revision: found.revision, id: found.id },
            failed: found.failed,
            took: found.took,
            trace: found.trace,
            row: found.row,
        };
        Ok(found.map(to_taken).collect())
    }

    /// How many rows are after this place.
    pub fn count_taken_rows(&self, after: RowCursor) -> Result<u64, IndexError> {
        let last = to_signed(self.last_place()?);
        let reader = self.read();
        let mut count = reader.prepare_cached(
            "SELECT count(*) FROM happened WHERE (revision, id) > (?1, ?2) AND revision <= ?3",
        )?;
        Ok(count.query_row(params![to_signed(after.revision), after.id, last], |row| row.get(0))?)
    }
}
