//! Verifies and decodes records, on several processors if there are many: at its start, an instance reads those of all nodes.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use muster_bus::{BucketEntry, Bytes};
use muster_wire::Millis;
use muster_wire::compressed::CompressedJsonError;
use muster_wire::identity::Identity;
use muster_wire::node_record::{NodeContent, NodeHeartbeat};
use muster_wire::sign::{MessageRefusal, OpenRecord, open_heartbeat, open_record};
use muster_wire::token::{AccountTrust, TokenCache};

/// Records for which a further processor is worth its handover.
const MIN_SHARE_SIZE: usize = 32;

/// The account token in force, and the time.
pub struct DirectoryContext {
    /// Returns the newest account token that this host has.
    pub trust: Box<dyn Fn() -> Arc<AccountTrust> + Send + Sync>,
    pub clock: fn() -> Millis,
}

impl std::fmt::Debug for DirectoryContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectoryContext").finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordRefusal {
    /// Its signature, sender or form.
    #[error(transparent)]
    Message(#[from] MessageRefusal),
    #[error(transparent)]
    Stale(#[from] crate::node_table::StaleRecord),
}

pub(crate) struct OpenedEntry {
    pub(crate) node: Identity,
    pub(crate) revision: u64,
    pub(crate) record: Result<AuthenticRecord, RecordRefusal>,
}

/// A record that its node signed.
pub(crate) struct AuthenticRecord {
    pub(crate) opened: OpenRecord,
    /// What it says; the readable part if there is a problem.
    pub(crate) content: NodeContent,
    /// Why its content is refused.
    pub(crate) problem: Option<CompressedJsonError>,
}

/// Opens records and heartbeats with one cache of verified tokens.
#[derive(Debug)]
pub(crate) struct RecordOpener {
    pub(crate) context: DirectoryContext,
    tokens: TokenCache,
}

impl RecordOpener {
    pub(crate) fn new(context: DirectoryContext) -> Self {
        Self { context, tokens: TokenCache::default() }
    }

    pub(crate) fn trust(&self) -> Arc<AccountTrust> {
        (self.context.trust)()
    }

    pub(crate) fn now(&self) -> Millis {
        (self.context.clock)()
    }

    /// Opens entries, in their order. Deletions and keys that are no names are left out: a node that deletes its own record stays known.
    pub(crate) async fn open_entries(
        self: &Arc<Self>,
        entries: Vec<BucketEntry>,
    ) -> Vec<OpenedEntry> {
        let processors = available_parallelism().map_or(1, NonZero::get);
        let share_size = entries.len().div_ceil(processors).max(MIN_SHARE_SIZE);
        let mut entries = entries.into_iter();
        let mut shares = Vec::new();
        loop {
            let share: Vec<BucketEntry> = entries.by_ref().take(share_size).collect();
            if share.is_empty() {
                break;
            }
            let opener = Arc::clone(self);
            let open_share = move || -> Vec<OpenedEntry> {
                share.iter().filter_map(|entry| opener.open_entry(entry)).collect()
            };
            shares.push(tokio::task::spawn_blocking(open_share));
        }
        let mut opened = Vec::new();
        for share in shares {
            // A share is lost only when the runtime shuts down.
            opened.extend(share.await.unwrap_or_default());
        }
        opened
    }

    /// Opens a heartbeat that was received on this node's subject.
    pub(crate) fn open_heartbeat(
        &self,
        node: &Identity,
        payload: &Bytes,
    ) -> Result<NodeHeartbeat, MessageRefusal> {
        open_heartbeat(payload, node, &self.trust(), &self.tokens, self.now())
    }

    fn open_entry(&self, entry: &BucketEntry) -> Option<OpenedEntry> {
        let value = entry.value.as_ref()?;
        let node = Identity::parse(&entry.key).ok()?;
        let opened = open_record(value, &node, &self.trust(), &self.tokens, self.now());
        let record = opened.map_err(RecordRefusal::from).map(|opened| {
            let (content, problem) = match opened.record.decode_content() {
                Ok(content) => (content, None),
                Err(problem) => (opened.record.decode_head(), Some(problem)),
            };
            AuthenticRecord { opened, content, problem }
        });
        Some(OpenedEntry { node, revision: entry.revision, record })
    }
}
