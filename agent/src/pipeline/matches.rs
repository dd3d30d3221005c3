//! Stage 4: whether this node is meant. The filter is looked at only now, after the request was proven fresh or stale.
//!
//! A filter that needs data sources takes a way of its own, beside the order of arrival: [`settle`]. A node that cannot
//! tell whether it is meant is not: it says nothing.

use muster_wire::filter::{Known, Progress, Truth};
use muster_wire::request::{Request, Target};
use tokio::sync::OwnedSemaphorePermit;

use super::watch::{Watch, Watched};
use super::{Asked, Stop};
use crate::core::Core;
use crate::lookup::Lookups;

/// A request that may be for us.
pub(super) enum Meant {
    Us(Asked),
    /// Data sources must say, and this is its place among those that ask them.
    Perhaps(Asked, OwnedSemaphorePermit),
}

impl Watched for Meant {
    fn watch(&mut self) -> &mut Watch {
        match self {
            Self::Us(asked) | Self::Perhaps(asked, _) => asked.watch(),
        }
    }
}

/// Passes on what is meant for us, refusals of earlier stages too; a node that is not meant says nothing. No data source
/// is asked for a request that was refused already.
pub(super) fn meant_for_us(core: &Core, judged: Result<Asked, Stop>) -> Result<Meant, Stop> {
    let request = match &judged {
        Ok(asked) => &asked.request,
        Err(Stop::Refused(refused)) => &refused.asked.request,
        Err(Stop::Silent) => return judged.map(Meant::Us),
    };
    match (is_meant(core, request), judged) {
        (Some(true), judged) => {
            core.counters.passed.count();
            judged.map(Meant::Us)
        }
        (None, Ok(asked)) => {
            if let Some(place) = core.lookups.enter() {
                return Ok(Meant::Perhaps(asked, place));
            }
            tracing::warn!(
                request = %asked.request.id,
                "not answered: too many requests wait for data sources to tell whether they are for this node"
            );
            Err(not_meant(core))
        }
        (Some(false), _) | (None, Err(_)) => Err(not_meant(core)),
    }
}

/// Asks the data sources. Takes as long as they may take.
pub(super) async fn settle(
    core: &Core,
    asked: Asked,
    lookups: &mut Lookups,
) -> Result<Asked, Stop> {
    let truth = match &asked.request.target {
        Target::Nodes(_) => Truth::True,
        Target::Filter(filter) => lookups.filter(filter).await,
    };
    if truth == Truth::True {
        core.counters.passed.count();
        return Ok(asked);
    }
    Err(not_meant(core))
}

fn not_meant(core: &Core) -> Stop {
    core.counters.filtered.count();
    Stop::Silent
}

/// Nothing, if data sources must be asked.
fn is_meant(core: &Core, request: &Request) -> Option<bool> {
    match &request.target {
        Target::Nodes(nodes) => Some(nodes.contains(core.identity())),
        Target::Filter(filter) if filter.is_empty() => Some(true),
        Target::Filter(filter) => {
            match core.view(|node| filter.evaluate(node, &Known::default())) {
                Progress::Decided(truth) => Some(truth == Truth::True),
                Progress::Needs(_) => None,
            }
        }
    }
}
