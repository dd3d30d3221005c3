//! Waits until new nodes answer.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_client::{FleetConnection, TargetSelection, find_answering};
use muster_wire::identity::Identity;
use tokio::time::{Instant, sleep};

use crate::report::progress::ProgressReporter;
use crate::session::context::{CommandContext, Result};

/// How long a new node may take to answer.
const LIMIT: Duration = Duration::from_mins(1);
const INTERVAL: Duration = Duration::from_millis(500);
/// Pause between questions which nodes the directory knows: each is answered with all of them.
const DIRECTORY_INTERVAL: Duration = Duration::from_secs(2);

/// Waits until the nodes answer, and until requests without names find them, at most for the limit; returns how many answered. Prints those that did not.
pub async fn await_nodes(nodes: &BTreeSet<Identity>, cx: CommandContext<'_>) -> Result<usize> {
    if nodes.is_empty() {
        return Ok(0);
    }
    let all = TargetSelection::default();
    let fleet = cx.connect(&all).await?;
    let progress = ProgressReporter::new(cx.printer, false);
    let deadline = Instant::now() + LIMIT;
    let silent = await_answers(&fleet, nodes, &progress, deadline).await?;
    for node in &silent {
        cx.printer.print_error(format_args!(
            "{node}: it did not answer within {} s; see `journalctl -u rpcd` there",
            LIMIT.as_secs()
        ));
    }
    // A directory has a new node some seconds after its start.
    let answering: BTreeSet<Identity> = nodes.difference(&silent).cloned().collect();
    while !answering.is_subset(&fleet.locate(&all, &progress).await?.nodes)
        && Instant::now() < deadline
    {
        sleep(DIRECTORY_INTERVAL).await;
    }
    Ok(answering.len())
}

/// Pings the nodes until all have answered; returns those that have not.
async fn await_answers(
    fleet: &FleetConnection,
    nodes: &BTreeSet<Identity>,
    progress: &ProgressReporter<'_>,
    deadline: Instant,
) -> Result<BTreeSet<Identity>> {
    let mut silent = nodes.clone();
    loop {
        let answering = find_answering(fleet, silent.clone(), progress).await?;
        silent.retain(|node| !answering.contains(node));
        if silent.is_empty() || Instant::now() >= deadline {
            return Ok(silent);
        }
        sleep(INTERVAL).await;
    }
}
