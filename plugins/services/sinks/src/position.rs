//! How far a sink has read the history: a small file, from which a restart goes on.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use muster_base::error_chain;
use muster_files::files::{FileAccessError, read_text, replace_secret};
use muster_history::index::{HistoryIndex, IndexError, RowCursor, RunCursor};
use serde::{Deserialize, Serialize};

const MAX_POSITION_BYTES: u64 = 4096;

/// How far a sink has read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SinkPosition {
    pub(crate) rows: RowCursor,
    /// The last run, for spans.
    pub(crate) runs: Option<RunCursor>,
}

/// A position with its file.
#[derive(Debug)]
pub(crate) struct PositionFile {
    path: PathBuf,
    position: Mutex<SinkPosition>,
}

/// Why there is no position.
#[derive(Debug, thiserror::Error)]
pub enum PositionError {
    #[error(transparent)]
    File(#[from] FileAccessError),
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl PositionFile {
    /// Reads the file. A new sink begins with what comes next; a damaged file, with all that the index has.
    pub(crate) fn open(path: &Path, index: &HistoryIndex) -> Result<Self, PositionError> {
        let (position, is_new) = match read_text(path, MAX_POSITION_BYTES) {
            Ok(text) => (serde_json::from_str(&text).unwrap_or_else(|error| {
                let problem = error_chain(&error);
                tracing::warn!(path = %path.display(), problem, "the position of a sink is damaged; all of the history is delivered again");
                SinkPosition::default()
            }), false),
            Err(error) if error.is_missing() => {
                let (rows, runs) = (index.end_cursor()?, index.last_ended_run()?);
                (SinkPosition { rows, runs }, true)
            },
            Err(error) => return Err(error.into()),
        };
        let position = Self { path: path.to_owned(), position: Mutex::new(position) };
        if is_new {
            position.store()?;
        }
        Ok(position)
    }

    pub(crate) fn get(&self) -> SinkPosition {
        self.position.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Goes on, in memory only.
    pub(crate) fn advance(&self, position: SinkPosition) {
        *self.position.lock().unwrap_or_else(PoisonError::into_inner) = position;
    }

    pub(crate) fn store(&self) -> Result<(), FileAccessError> {
        replace_secret(&self.path, &serde_json::to_vec(&self.get()).unwrap_or_default())
    }
}
