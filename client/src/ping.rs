//! Pings nodes, and asks all of them at once, for their names or for diagnosis.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use muster_base::duration_millis;
use muster_calls::{
    CallEvent, CallStats, CallTarget, ClientError, DiscoveryMethod, DiscoverySource, ReceivedReply,
    RpcCall,
};
use muster_contract::rpcutil::RpcutilPing;
use muster_ddl::{Action, EmptyInput};
use muster_filter::NodeFilter;
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::trace::TraceContext;

use crate::error::FleetRequestError;
use crate::fleet::FleetConnection;
use crate::interrupt::run_until_interrupt;
use crate::located::Located;
use crate::observer::{RequestEvent, RequestObserver};
use crate::target::TargetSelection;

/// The result of a roll call.
#[derive(Debug, Default)]
pub struct RollCall {
    /// The first reply of each node.
    pub answers: Vec<ReceivedReply>,
    /// Clock skew of each of them, as of [`reply_skew`].
    pub skews: Vec<i64>,
    /// Nodes that replied more than once, with the number of extra replies.
    pub duplicates: BTreeMap<Identity, usize>,
    /// Replies that failed verification, by reason code.
    pub rejected: BTreeMap<&'static str, usize>,
    /// Replies may have been lost.
    pub incomplete: bool,
}

/// Target and options of a ping.
#[derive(Debug, Clone, Copy)]
pub struct PingRequest<'a> {
    /// The target.
    pub target: &'a TargetSelection,
    /// Stop after this many replies.
    pub expect: Option<usize>,
    /// The trace context of the ping; if set, nodes report the duration of each of their stages.
    pub traceparent: Option<TraceContext>,
}

/// Pings the target with these options, and shows each reply as it arrives. Returns the statistics; `None` if there was no target node.
pub async fn ping_nodes(
    fleet: &FleetConnection,
    ping: PingRequest<'_>,
    observer: &dyn RequestObserver,
    show: impl FnMut(&ReceivedReply),
) -> Result<Option<CallStats>, FleetRequestError> {
    let target = match fleet.look_up(ping.target, observer).await? {
        Some(located) if located.nodes.is_empty() => return Ok(None),
        Some(located) => CallTarget::Nodes(located.nodes),
        None => CallTarget::Filter(ping.target.filter.clone()),
    };
    send_ping(fleet, target, ping, observer, show).await.map(Some)
}

/// The nodes that answer a broadcast, whatever the discovery method; also named ones.
pub async fn list_answering(
    fleet: &FleetConnection,
    target: &TargetSelection,
    observer: &dyn RequestObserver,
) -> Result<Located, FleetRequestError> {
    let start = Instant::now();
    let mut located = Located {
        filter: target.node_filter(&DiscoverySource::Broadcast),
        ..Located::new(DiscoveryMethod::Broadcast, BTreeSet::new())
    };
    let ping = PingRequest { target, expect: None, traceparent: None };
    let all = CallTarget::Filter(target.filter.clone());
    let stats = send_ping(fleet, all, ping, observer, |received| {
        located.nodes.insert(received.reply.sender.clone());
    });
    located.complete = stats.await?.incomplete.is_none();
    Ok(Located { took: start.elapsed(), ..located })
}

/// Pings these nodes, any number of them, without discovery; returns those that answered in time.
pub async fn find_answering(
    fleet: &FleetConnection,
    nodes: BTreeSet<Identity>,
    observer: &dyn RequestObserver,
) -> Result<BTreeSet<Identity>, FleetRequestError> {
    let target = TargetSelection::default();
    let ping = PingRequest { target: &target, expect: Some(nodes.len()), traceparent: None };
    let mut answering = BTreeSet::new();
    send_ping(fleet, CallTarget::Nodes(nodes), ping, observer, |received| {
        answering.insert(received.reply.sender.clone());
    })
    .await?;
    Ok(answering)
}

async fn send_ping(
    fleet: &FleetConnection,
    call_target: CallTarget,
    ping: PingRequest<'_>,
    observer: &dyn RequestObserver,
    mut show: impl FnMut(&ReceivedReply),
) -> Result<CallStats, FleetRequestError> {
    let mut refusals = BTreeMap::new();
    let mut call = RpcCall::of_action::<RpcutilPing>(&EmptyInput {}, call_target)
        .map_err(ClientError::from)?;
    call.wait = fleet.listen;
    call.expect = ping.expect;
    call.trace = ping.traceparent.is_some();
    call.traceparent = ping.traceparent;
    // A node that denies the request is there, and matches.
    let show_present = |answer: &ReceivedReply| {
        if answer.is_ok() || answer.denial().is_some() {
            show(answer);
        } else {
            refusals.insert(answer.reply.sender.clone(), answer.reply.statusmsg.clone());
        }
    };
    let stats = run_until_interrupt(fleet.client.run_call(call, show_present)).await??;
    observer.observe(RequestEvent::NodesRefused(&refusals));
    Ok(stats)
}

/// Sends a request for an action without inputs to all matching nodes. Unlike a ping, also reports duplicate replies and verification failures, for
/// diagnosis.
pub async fn roll_call<A: Action<Input = EmptyInput>>(
    fleet: &FleetConnection,
    filter: &NodeFilter,
) -> Result<RollCall, FleetRequestError> {
    let target = CallTarget::Filter(filter.clone());
    let mut call = RpcCall::of_action::<A>(&EmptyInput {}, target).map_err(ClientError::from)?;
    call.wait = fleet.listen;
    let mut events = fleet.client.call(call);
    let mut roll_call = RollCall::default();
    let collect = async {
        while let Some(event) = events.next().await {
            roll_call.record_event(event)?;
        }
        Ok::<_, ClientError>(roll_call)
    };
    Ok(run_until_interrupt(collect).await??)
}

/// The clock skew of the node that sent this reply, as of [`reply_skew`].
pub fn reply_skew(received: &ReceivedReply) -> i64 {
    clock_skew(received.after, received.reply.time, received.arrived)
}

/// Computes the clock skew of a node that sent its time `node_time` between the request, `after` before `arrived`, and the arrival of its reply: its
/// clock minus the local clock, in milliseconds; 0 if the round trip time explains the difference.
fn clock_skew(after: Duration, node_time: Millis, arrived: Millis) -> i64 {
    // Both times are rounded down to milliseconds, so the request may appear one later than it was.
    let earliest = arrived.saturating_sub(duration_millis(after) + 1);
    let nearest = node_time.clamp(earliest, arrived.max(earliest));
    let skew = i128::from(node_time) - i128::from(nearest);
    i64::try_from(skew).unwrap_or(if skew < 0 { i64::MIN } else { i64::MAX })
}

impl RollCall {
    fn record_event(&mut self, event: CallEvent) -> Result<(), ClientError> {
        match event {
            CallEvent::Reply(answer) => {
                self.skews.push(reply_skew(&answer));
                self.answers.push(*answer);
            }
            CallEvent::Unexpected(answer) => {
                *self.duplicates.entry(answer.reply.sender).or_default() += 1;
            }
            CallEvent::Rejected(reason) => *self.rejected.entry(reason).or_default() += 1,
            CallEvent::Finished(stats) => self.incomplete = stats.incomplete.is_some(),
            CallEvent::Failed(error) => return Err(error),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::clock_skew;

    const NOW: u64 = 1_767_225_600_000;

    #[test]
    fn skew_within_the_round_trip_time_is_zero() {
        let skew = |after, node_time| clock_skew(Duration::from_millis(after), node_time, NOW);
        assert_eq!(skew(5_000, NOW), 0);
        assert_eq!(skew(5_000, NOW - 5_001), 0);
        assert_eq!(skew(5_000, NOW - 5_002), -1);
        assert_eq!(skew(5_000, NOW + 1), 1);
        assert_eq!(skew(0, u64::MAX), i64::MAX);
    }
}
