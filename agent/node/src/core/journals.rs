//! What a node remembers of requests: those that it has seen, begun and answered, and the audit log.

use std::sync::Arc;

use super::audit::AuditLog;
use super::begun::BegunRequests;
use super::history::HistoryJournal;
use super::seen::SeenRequests;
use super::sent_replies::SentReplies;

#[derive(Debug)]
pub struct NodeJournals {
    pub seen: SeenRequests,
    pub begun: BegunRequests,
    pub sent_replies: SentReplies,
    pub audit: Arc<AuditLog>,
    /// What the fleet's history gets.
    pub history: Arc<HistoryJournal>,
}

impl NodeJournals {
    /// Only the audit records are stored on disk.
    pub fn in_memory(audit: Arc<AuditLog>) -> Self {
        Self {
            seen: SeenRequests::in_memory(),
            begun: BegunRequests::disabled(),
            sent_replies: SentReplies::default(),
            audit,
            history: Arc::new(HistoryJournal::disabled()),
        }
    }
}
