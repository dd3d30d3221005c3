//! Asks nodes for their inventory in batches, so that memory use does not depend on the size of the fleet.

use std::collections::BTreeSet;

use muster_request::{
    DiscoveredNodes, FleetConnection, FleetRequestError, NodeReply, RequestEvent,
    RequestObserver as _, RequestPlan, RequestStats, ResultGap,
};
use muster_wire::identity::Identity;

use super::super::context::CommandContext;
use super::super::inquiry;
use crate::error::Error;
use crate::progress::ProgressReporter;

/// Nodes per batch.
const BATCH_NODES: usize = 128;
/// Most names of silent nodes that are printed.
const MAX_SHOWN_NAMES: usize = 10;

/// Whether a reply could be used.
pub enum ReplyVerdict {
    /// Used.
    Accepted,
    /// Not used, with the reason.
    Rejected(String),
}

/// Asks the nodes and passes on each reply, in order of names.
pub async fn ask_in_batches(
    fleet: &FleetConnection,
    plan: &RequestPlan<'_>,
    found: DiscoveredNodes,
    cx: CommandContext<'_>,
    mut handle_reply: impl FnMut(NodeReply) -> Result<ReplyVerdict, Error>,
) -> Result<RequestStats, Error> {
    let mut total = RequestStats {
        discovered: found.nodes.len(),
        gaps: found.stats.gaps.clone(),
        ..RequestStats::default()
    };
    let progress = ProgressReporter::new(cx.printer, true);
    progress.observe(RequestEvent::CallsStarted(found.nodes.len()));
    let nodes: Vec<Identity> = found.nodes.into_iter().collect();
    for chunk in nodes.chunks(BATCH_NODES) {
        let batch = DiscoveredNodes::from_names(chunk.iter().cloned().collect());
        let no_progress = ProgressReporter::new(cx.printer, false);
        let mut report = inquiry::ask_nodes(fleet, plan, batch, &no_progress).await?;
        report.replies.sort_by(|a, b| a.node.cmp(&b.node));
        for reply in report.replies {
            match progress.suspend(|| handle_reply(reply))? {
                ReplyVerdict::Accepted => total.ok += 1,
                ReplyVerdict::Rejected(message) => {
                    progress.suspend(|| cx.printer.print_error(message));
                    total.failed += 1;
                }
            }
        }
        total.missing.extend(report.stats.missing);
        total.gaps.extend(report.stats.gaps);
        let count = total.response_count() + total.missing.len();
        progress.observe(RequestEvent::RepliesCounted(count));
        if total.gaps.contains(&ResultGap::Interrupted) {
            return Err(FleetRequestError::Interrupted.into());
        }
    }
    progress.observe(RequestEvent::CallsEnded);
    Ok(total)
}

/// Prints which nodes did not reply, and the consequence.
pub fn report_missing(total: &RequestStats, consequence: &str, cx: CommandContext<'_>) {
    if !total.missing.is_empty() {
        let names: BTreeSet<&str> =
            total.missing.iter().take(MAX_SHOWN_NAMES).map(Identity::as_str).collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        let more = total.missing.len().saturating_sub(MAX_SHOWN_NAMES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        cx.printer.print_warning(format_args!("no reply, {consequence}: {names}{more}"));
    }
    for gap in &total.gaps {
        cx.warn_of_gap(*gap);
    }
}
