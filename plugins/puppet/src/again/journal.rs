//! The journal of events on disk: appended and synced before an event takes effect, and rewritten as one snapshot at each start and when it is long.

use std::path::{Path, PathBuf};

use muster_api::system::checked_lines::{encode_checked_line, parse_checked_lines};
use muster_api::system::{FileAppender, StateDir, SystemError, SystemResult};

use crate::again::plan::event::AgainEvent;
use crate::again::plan::state::AgainState;
use crate::again::policy::AgainPolicy;

pub const JOURNAL_FILE: &str = "again.journal";
const MAX_JOURNAL_BYTES: u64 = 64 * 1024 * 1024;
/// The number of lines after which the journal is rewritten.
const MAX_LINES: usize = 1000;

/// The state of a node and the file that it comes from. Blocks on the disk.
#[derive(Debug)]
pub struct AgainJournal {
    directory: PathBuf,
    policy: AgainPolicy,
    state: AgainState,
    file: Option<FileAppender>,
    lines: usize,
    warnings: Vec<String>,
}

impl AgainJournal {
    /// Reads the journal in this directory, and rewrites it as a snapshot. Torn and damaged lines are reported.
    pub fn open(directory: &Path, policy: AgainPolicy) -> SystemResult<Self> {
        let content = StateDir::open(directory)?.read_file(JOURNAL_FILE, MAX_JOURNAL_BYTES)?;
        let (events, warnings) =
            parse_checked_lines::<AgainEvent>(&content.unwrap_or_default(), "journal of `again`");
        let mut state = AgainState::default();
        for event in &events {
            state.apply(event, &policy);
        }
        let directory = directory.to_owned();
        let mut journal = Self { directory, policy, state, file: None, lines: 0, warnings };
        journal.compact()?;
        Ok(journal)
    }

    /// What was wrong with the file when it was opened.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub fn state(&self) -> &AgainState {
        &self.state
    }

    pub fn policy(&self) -> &AgainPolicy {
        &self.policy
    }

    /// Writes an event, then applies it. On return it is on disk; after an error the state is as before.
    pub fn record(&mut self, event: &AgainEvent) -> SystemResult<()> {
        if self.lines >= MAX_LINES {
            self.compact()?;
        }
        let written = self.append(event);
        if written.is_err() {
            // The line may be in the file in part. The next record rewrites the file.
            self.file = None;
            self.lines = MAX_LINES;
            return written;
        }
        self.state.apply(event, &self.policy);
        self.lines += 1;
        Ok(())
    }

    fn append(&mut self, event: &AgainEvent) -> SystemResult<()> {
        if self.file.is_none() {
            self.compact()?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.append(&encode_line(event)?)?;
        file.sync()
    }

    /// Replaces the file with a snapshot of the state.
    fn compact(&mut self) -> SystemResult<()> {
        let directory = StateDir::open(&self.directory)?;
        let snapshot = AgainEvent::Snapshot { state: Box::new(self.state.clone()) };
        let line = encode_line(&snapshot)?;
        directory.replace_file(JOURNAL_FILE, &line)?;
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        self.file = Some(directory.open_appender(JOURNAL_FILE, length)?);
        self.lines = 0;
        Ok(())
    }
}

fn encode_line(event: &AgainEvent) -> SystemResult<Vec<u8>> {
    encode_checked_line(event).map_err(|error| SystemError::File {
        verb: "write",
        path: JOURNAL_FILE.into(),
        source: error.into(),
    })
}
