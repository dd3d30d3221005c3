//! The nodes of an operation with several steps: discovers them, applies `--limit`, and warns of what is missing.

use muster_calls::choose_nodes;
use muster_client::{FleetConnection, Located, ResultGap, TargetSelection};

use crate::flags::rollout_flags::PaceArgs;
use crate::report::progress::ProgressReporter;
use crate::session::context::{CommandContext, Result};

/// Connects, and finds the nodes, with the filter that each of them must still match.
pub async fn find_chosen_nodes(
    target: &TargetSelection,
    pace: &PaceArgs,
    progress: &ProgressReporter<'_>,
    cx: CommandContext<'_>,
) -> Result<(FleetConnection, Located)> {
    let fleet = cx.connect(target).await?;
    let mut found = fleet.locate(target, progress).await?;
    cx.remember_discovered(target, &found.nodes);
    if !found.complete {
        cx.warn_of_gap(ResultGap::Discovery);
    }
    if let Some(limit) = pace.node_limit() {
        found.nodes = choose_nodes(&found.nodes, limit, pace.limit_seed);
    }
    Ok((fleet, found))
}
