//! Passes records of changes and refusals on to the journal of the history.

use std::sync::Arc;

use muster_api::HistorySink as _;
use muster_wire::history::HistoryEvent;
use serde_json::{Map, Value};

use super::record::RecordClass;
use crate::core::history::HistoryJournal;

/// The journal, for the lines of one file.
#[derive(Debug, Clone)]
pub struct HistoryTap {
    journal: Arc<HistoryJournal>,
    refused: bool,
}

impl HistoryTap {
    pub fn new(journal: Arc<HistoryJournal>) -> Self {
        Self { journal, refused: false }
    }

    /// The one for this file; `None` for that of reads.
    pub(super) fn for_class(&self, class: RecordClass) -> Option<Self> {
        let refused = class == RecordClass::Refusal;
        (class != RecordClass::Read).then(|| Self { refused, ..self.clone() })
    }

    /// Passes on a line of the file. Headers and checkpoints say nothing about requests.
    pub(super) fn pass_line(&self, line: &[u8]) {
        if !self.journal.is_wanted() {
            return;
        }
        let line: Option<Map<String, Value>> = serde_json::from_slice(line).ok();
        if let Some(line) = line.filter(|line| !line.contains_key("audit")) {
            self.journal.record(None, HistoryEvent::Audit { refused: self.refused, line });
        }
    }
}
