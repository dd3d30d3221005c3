//! The options of an audit log.

use std::path::PathBuf;
use std::sync::Arc;

use muster_wire::history::HistoryEvent;
use muster_wire::sign::Signer;
use serde_json::{Map, Value};

use super::record::RecordClass;
use crate::config::AuditConfig;
use crate::core::history::HistoryJournal;

#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// The file of changes. The files of refusals and reads are beside it: `audit-refusals.log` and `audit-reads.log`.
    pub path: PathBuf,
    pub settings: AuditConfig,
    /// Where the last checkpoint is stored outside the log, so that truncation of the log is detected.
    pub head: Option<PathBuf>,
    pub signer: Signer,
    /// The account token, which certifies the signer's token.
    pub account: String,
    /// Also gets the records of changes and refusals.
    pub history: Option<HistoryTap>,
}

/// Where the records of one file go besides.
#[derive(Debug, Clone)]
pub struct HistoryTap {
    pub journal: Arc<HistoryJournal>,
    refused: bool,
}

impl HistoryTap {
    pub fn new(journal: Arc<HistoryJournal>) -> Self {
        Self { journal, refused: false }
    }

    /// Passes on a line of the file. Headers and checkpoints say nothing about requests.
    pub(super) fn pass_line(&self, line: &[u8]) {
        if !self.journal.is_wanted() {
            return;
        }
        let line: Option<Map<String, Value>> = serde_json::from_slice(line).ok();
        if let Some(line) = line.filter(|line| !line.contains_key("audit")) {
            self.journal.record(HistoryEvent::Audit { refused: self.refused, line });
        }
    }
}

impl AuditOptions {
    /// The options of this node's log at this path, with default settings and without a record of its end.
    pub fn new(path: PathBuf, signer: Signer, account: String) -> Self {
        let settings = AuditConfig::default();
        Self { path, settings, head: None, signer, account, history: None }
    }

    pub(super) fn for_class(&self, class: RecordClass) -> Self {
        let refused = class == RecordClass::Refusal;
        let history = self.history.clone().filter(|_| class != RecordClass::Read);
        Self {
            history: history.map(|tap| HistoryTap { refused, ..tap }),
            path: class.class_path(&self.path),
            head: self.head.as_deref().map(|head| class.class_path(head)),
            ..self.clone()
        }
    }
}
