//! One broadcast that also reports duplicate replies and verification failures, which [`FleetConnection::ping`](super::FleetConnection::ping) does
//! not return. Used for diagnosis.

use muster_base::unix_millis_now;
use std::collections::BTreeMap;

use muster_client::{CallEvent, CallTarget, ClientError, ReceivedReply, RpcCall};
use muster_filter::NodeFilter;
use muster_wire::Millis;
use muster_wire::identity::Identity;

use super::error::FleetRequestError;
use super::fleet::FleetConnection;
use super::interrupt::InterruptListener;

/// The result of a roll call.
#[derive(Debug, Default)]
pub struct RollCall {
    /// The first reply of each node.
    pub answers: Vec<ReceivedReply>,
    /// Arrival time of each of them, by the local clock.
    pub arrived: Vec<Millis>,
    /// Nodes that replied more than once, with the number of extra replies.
    pub duplicates: BTreeMap<Identity, usize>,
    /// Replies that failed verification, by reason code.
    pub rejected: BTreeMap<&'static str, usize>,
    /// Replies may have been lost.
    pub incomplete: bool,
}

impl FleetConnection {
    /// Sends a request for an action of `rpcutil` without inputs to all matching nodes.
    pub async fn roll_call(
        &self,
        filter: &NodeFilter,
        action: &str,
    ) -> Result<RollCall, FleetRequestError> {
        let mut call = RpcCall::new("rpcutil", action, CallTarget::Filter(filter.clone()))
            .map_err(ClientError::from)?;
        call.wait = self.listen;
        let mut events = self.client.call(call);
        let mut interrupt = InterruptListener::listen();
        let mut roll_call = RollCall::default();
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = interrupt.wait_for_signal() => return Err(FleetRequestError::Interrupted),
            };
            match event {
                None => return Ok(roll_call),
                Some(CallEvent::Failed(error)) => return Err(error.into()),
                Some(event) => roll_call.record_event(event),
            }
        }
    }
}

impl RollCall {
    fn record_event(&mut self, event: CallEvent) {
        match event {
            CallEvent::Reply(answer) => {
                self.answers.push(*answer);
                self.arrived.push(unix_millis_now());
            }
            CallEvent::Unexpected(answer) => {
                *self.duplicates.entry(answer.reply.sender).or_default() += 1;
            }
            CallEvent::Rejected(reason) => *self.rejected.entry(reason).or_default() += 1,
            CallEvent::Finished(stats) => self.incomplete = stats.incomplete.is_some(),
            _ => {}
        }
    }
}
