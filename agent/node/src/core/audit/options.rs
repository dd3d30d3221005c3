//! The options of an audit log.

use std::path::PathBuf;

use muster_wire::sign::Signer;

use super::history_tap::HistoryTap;
use super::record::RecordClass;
use crate::config::AuditConfig;

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

impl AuditOptions {
    /// The options of this node's log at this path, with default settings and without a record of its end.
    pub fn new(path: PathBuf, signer: Signer, account: String) -> Self {
        let settings = AuditConfig::default();
        Self { path, settings, head: None, signer, account, history: None }
    }

    pub(super) fn for_class(&self, class: RecordClass) -> Self {
        Self {
            history: self.history.as_ref().and_then(|tap| tap.for_class(class)),
            path: class.class_path(&self.path),
            head: self.head.as_deref().map(|head| class.class_path(head)),
            ..self.clone()
        }
    }
}
