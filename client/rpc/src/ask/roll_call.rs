//! One question to everybody, to see who is there twice and whose answers are not to be believed: what a diagnosis needs and
//! [`Fleet::ping`](super::Fleet::ping) keeps to itself.

use std::collections::BTreeMap;

use muster_client::{Aim, Answer, Call, ClientError, Event};
use muster_wire::Millis;
use muster_wire::filter::Filter;
use muster_wire::identity::Identity;

use super::error::AskError;
use super::fleet::Fleet;
use super::interrupt::Interrupt;
use crate::clock;

/// Who answered, and how.
#[derive(Debug, Default)]
pub struct RollCall {
    /// The first answer of each node.
    pub answers: Vec<Answer>,
    /// When each of them came, by our clock.
    pub arrived: Vec<Millis>,
    /// Nodes that answered more than once, and how often beside the first time.
    pub twice: BTreeMap<Identity, usize>,
    /// Answers that were not believed, by the reason's word.
    pub disbelieved: BTreeMap<&'static str, usize>,
    /// Answers may have been lost.
    pub incomplete: bool,
}

impl Fleet {
    /// Asks everybody who matches for an action of `rpcutil` that takes no inputs.
    pub async fn roll_call(&self, filter: &Filter, action: &str) -> Result<RollCall, AskError> {
        let mut call =
            Call::new("rpcutil", action, Aim::Filter(filter.clone())).map_err(ClientError::from)?;
        call.wait = self.listen;
        let mut events = self.client.call(call);
        let mut interrupt = Interrupt::listen();
        let mut seen = RollCall::default();
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = interrupt.came() => return Err(AskError::Interrupted),
            };
            match event {
                None => return Ok(seen),
                Some(Event::Failed(error)) => return Err(error.into()),
                Some(event) => seen.note(event),
            }
        }
    }
}

impl RollCall {
    fn note(&mut self, event: Event) {
        match event {
            Event::Reply(answer) => {
                self.answers.push(*answer);
                self.arrived.push(clock::now());
            }
            Event::Unexpected(answer) => *self.twice.entry(answer.reply.sender).or_default() += 1,
            Event::Disbelieved(word) => *self.disbelieved.entry(word).or_default() += 1,
            Event::Finished(stats) => self.incomplete = stats.incomplete.is_some(),
            _ => {}
        }
    }
}
