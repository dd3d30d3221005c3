//! Waits until new nodes answer.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use muster_base::error_chain;
use muster_client::{FleetRequestError, TargetSelection, find_answering};
use muster_wire::identity::Identity;
use tokio::time::sleep;

use crate::report::progress::ProgressReporter;
use crate::session::context::{CommandContext, Result};

/// How long a new node may take to answer.
const LIMIT: Duration = Duration::from_mins(1);
const INTERVAL: Duration = Duration::from_millis(500);

/// Waits until the nodes answer, and until requests without names find them, at most for the limit; returns how many answered. Prints those that did not.
pub async fn await_nodes(nodes: &[Identity], cx: CommandContext<'_>) -> Result<usize> {
    let nodes: BTreeSet<Identity> = nodes.iter().cloned().collect();
    if nodes.is_empty() {
        return Ok(0);
    }
    let deadline = Instant::now() + LIMIT;
    let (mut silent, mut last_error) = (nodes.clone(), None);
    while !silent.is_empty() && Instant::now() < deadline {
        match ask(&silent, cx).await {
            Ok(answering) => silent.retain(|node| !answering.contains(node)),
            Err(error) => last_error = Some(error),
        }
        if !silent.is_empty() {
            sleep(INTERVAL).await;
        }
    }
    for node in &silent {
        cx.printer.print_error(format_args!(
            "{node}: it did not answer within {} s; see `journalctl -u rpcd` there",
            LIMIT.as_secs()
        ));
    }
    if let Some(error) = last_error.filter(|_| silent == nodes) {
        cx.printer.print_error(format_args!("cannot ask nodes: {}", error_chain(&error)));
    }
    let answering: BTreeSet<Identity> = nodes.difference(&silent).cloned().collect();
    // A directory has a new node some seconds after its start.
    while !answering.is_subset(&find(cx).await?) && Instant::now() < deadline {
        sleep(INTERVAL).await;
    }
    Ok(answering.len())
}

async fn ask(
    nodes: &BTreeSet<Identity>,
    cx: CommandContext<'_>,
) -> Result<BTreeSet<Identity>, FleetRequestError> {
    let fleet = cx.connect(&TargetSelection::default()).await?;
    find_answering(&fleet, nodes.clone(), &ProgressReporter::new(cx.printer, false)).await
}

/// The nodes that a request without conditions is sent to.
async fn find(cx: CommandContext<'_>) -> Result<BTreeSet<Identity>, FleetRequestError> {
    let target = TargetSelection::default();
    let fleet = cx.connect(&target).await?;
    Ok(fleet.locate(&target, &ProgressReporter::new(cx.printer, false)).await?.nodes)
}
