//! One question to everybody, to see who is there twice and whose answers are not to be believed: what a diagnosis needs and
//! [`FleetConnection::ping`](super::FleetConnection::ping) keeps to itself.

use std::collections::BTreeMap;

use muster_client::{CallEvent, CallTarget, ClientError, ReceivedReply, RpcCall};
use muster_wire::Millis;
use muster_wire::filter::NodeFilter;
use muster_wire::identity::Identity;

use super::error::FleetRequestError;
use super::fleet::FleetConnection;
use super::interrupt::InterruptListener;
use crate::clock;

/// Who answered, and how.
#[derive(Debug, Default)]
pub struct RollCall {
    /// The first answer of each node.
    pub answers: Vec<ReceivedReply>,
    /// When each of them came, by our clock.
    pub arrived: Vec<Millis>,
    /// Nodes that answered more than once, and how often beside the first time.
    pub twice: BTreeMap<Identity, usize>,
    /// Answers that were not believed, by the reason's word.
    pub disbelieved: BTreeMap<&'static str, usize>,
    /// Answers may have been lost.
    pub incomplete: bool,
}

impl FleetConnection {
    /// Asks everybody who matches for an action of `rpcutil` that takes no inputs.
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
        let mut seen = RollCall::default();
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = interrupt.wait_for_signal() => return Err(FleetRequestError::Interrupted),
            };
            match event {
                None => return Ok(seen),
                Some(CallEvent::Failed(error)) => return Err(error.into()),
                Some(event) => seen.record_event(event),
            }
        }
    }
}

impl RollCall {
    fn record_event(&mut self, event: CallEvent) {
        match event {
            CallEvent::Reply(answer) => {
                self.answers.push(*answer);
                self.arrived.push(clock::now());
            }
            CallEvent::Unexpected(answer) => {
                *self.twice.entry(answer.reply.sender).or_default() += 1;
            }
            CallEvent::Disbelieved(word) => *self.disbelieved.entry(word).or_default() += 1,
            CallEvent::Finished(stats) => self.incomplete = stats.incomplete.is_some(),
            _ => {}
        }
    }
}
