//! One broadcast that also reports duplicate replies and verification failures, which [`FleetConnection::ping`](super::FleetConnection::ping) does
//! not return. Used for diagnosis.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_base::duration_millis;
use muster_calls::{CallEvent, CallTarget, ClientError, ReceivedReply, RpcCall};
use muster_ddl::{Action, EmptyInput};
use muster_filter::NodeFilter;
use muster_wire::Millis;
use muster_wire::identity::Identity;

use crate::error::FleetRequestError;
use crate::fleet::FleetConnection;
use crate::interrupt::run_until_interrupt;

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

impl FleetConnection {
    /// Sends a request for an action without inputs to all matching nodes.
    pub async fn roll_call<A: Action<Input = EmptyInput>>(
        &self,
        filter: &NodeFilter,
    ) -> Result<RollCall, FleetRequestError> {
        let target = CallTarget::Filter(filter.clone());
        let mut call =
            RpcCall::of_action::<A>(&EmptyInput {}, target).map_err(ClientError::from)?;
        call.wait = self.listen;
        let mut events = self.client.call(call);
        let mut roll_call = RollCall::default();
        let collect = async {
            while let Some(event) = events.next().await {
                roll_call.record_event(event)?;
            }
            Ok::<_, ClientError>(roll_call)
        };
        Ok(run_until_interrupt(collect).await??)
    }
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
