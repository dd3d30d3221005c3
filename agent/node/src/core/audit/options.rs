//! The options of an audit log.

use std::path::PathBuf;

use muster_wire::sign::Signer;

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
}

impl AuditOptions {
    /// The options of this node's log at this path, with default settings and without a record of its end.
    pub fn new(path: PathBuf, signer: Signer, account: String) -> Self {
        Self { path, settings: AuditConfig::default(), head: None, signer, account }
    }

    pub(super) fn for_class(&self, class: RecordClass) -> Self {
        Self {
            path: class.class_path(&self.path),
            head: self.head.as_deref().map(|head| class.class_path(head)),
            ..self.clone()
        }
    }
}
