//! Background tasks of a running daemon: the seen journal stays small, memory is released, received tokens are stored, and a wrong clock
//! of the broker is reported.

use std::sync::Arc;
use std::time::Duration;

use muster_api::FindingLevel;
use muster_base::format_millis;
use muster_files::replace_file;
use muster_node::config::Config;
use muster_node::core::DaemonCore;
use muster_node::trust::trust_sync::TokenChange;
use muster_puppet::permits::PermitClient;
use tokio::sync::mpsc;

use crate::process::memory;

/// Delay from readiness to the release of start-up memory. By then presence is written and early requests are answered.
const MEMORY_RELEASE_DELAY: Duration = Duration::from_secs(3);

/// Clock differences below this are not reported, in milliseconds.
const NOTABLE_CLOCK_OFFSET_MS: u64 = 1000;

/// Reports in the health findings how far the broker's clock differs from this node's, each time a permit has measured it.
pub(crate) fn report_broker_clock(
    core: &Arc<DaemonCore>,
    permits: &PermitClient,
) -> impl Future<Output = ()> + use<> {
    let (core, mut offsets) = (Arc::clone(core), permits.broker_clock_offsets());
    async move {
        while offsets.changed().await.is_ok() {
            let message = describe_clock_offset(*offsets.borrow_and_update());
            core.health.set_findings("broker clock", FindingLevel::Warning, message.as_slice());
        }
    }
}

/// The finding for a clock that is this many milliseconds ahead; `None` if the difference is small.
fn describe_clock_offset(offset: i64) -> Option<String> {
    let difference = offset.unsigned_abs();
    let direction = if offset > 0 { "ahead of" } else { "behind" };
    (difference >= NOTABLE_CLOCK_OFFSET_MS).then(|| {
        format!(
            "the server of the broker that leads the store of permits is {} {direction} this node; run NTP or chrony on the broker's servers and on this node",
            format_millis(difference)
        )
    })
}

/// Compacts the journal of seen requests each time it has grown.
pub(crate) async fn compact_seen_journal(core: Arc<DaemonCore>) {
    loop {
        core.journals.seen.wait_until_grown().await;
        let core = Arc::clone(&core);
        let compacted = tokio::task::spawn_blocking(move || core.journals.seen.compact()).await;
        if let Ok(Err(error)) = compacted {
            tracing::warn!(%error, "cannot compact the journal of seen requests");
        }
    }
}

/// Releases memory that only the start needed.
pub(crate) async fn release_startup_memory() {
    tokio::time::sleep(MEMORY_RELEASE_DELAY).await;
    release_memory().await;
}

/// Releases unused memory on a blocking thread, so that requests do not wait.
pub(crate) async fn release_memory() {
    // A failure only keeps the memory; there is nothing to report.
    let _ = tokio::task::spawn_blocking(memory::release_unused).await;
}

/// Stores the account tokens that a service of this host accepts: it shares them with the node, which then finds nothing newer. The tokens of the service
/// itself are not those of the node.
pub(crate) async fn keep_account_tokens(mut changes: mpsc::Receiver<TokenChange>, config: Config) {
    while let Some(change) = changes.recv().await {
        if matches!(change, TokenChange::Account(_)) {
            keep_token(change, &config).await;
        }
    }
}

/// Stores each accepted token, so that a restart returns neither to a state before a revocation nor to an expired token.
pub(crate) async fn keep_tokens(mut changes: mpsc::Receiver<TokenChange>, config: Config) {
    while let Some(change) = changes.recv().await {
        keep_token(change, &config).await;
    }
}

async fn keep_token(change: TokenChange, config: &Config) {
    let (path, token) = match change {
        TokenChange::Account(token) => (config.paths.account_token_path(), token),
        TokenChange::Node(token) => (config.paths.renewed_token_path(), token),
        // The file is empty; only its modification time counts.
        TokenChange::Confirmed => (config.paths.confirmation_path(), String::new()),
    };
    let target = path.clone();
    let written = move || replace_file(&target, token.as_bytes(), 0o600);
    let problem = match tokio::task::spawn_blocking(written).await {
        Ok(written) => written.err().map(|error| error.to_string()),
        Err(panic) => Some(panic.to_string()),
    };
    if let Some(error) = problem {
        tracing::error!(error, path = %path.display(), "cannot store a received token");
    }
}

#[cfg(test)]
mod tests {
    use super::describe_clock_offset;

    #[test]
    fn clock_offset_is_reported_from_one_second() {
        assert_eq!([-999, 0, 999].map(describe_clock_offset), [None, None, None]);
        let ahead = describe_clock_offset(61_000).unwrap();
        assert!(ahead.contains(" ahead of this node"), "{ahead}");
        let behind = describe_clock_offset(-1_000).unwrap();
        assert!(behind.contains(" behind this node"), "{behind}");
    }
}
