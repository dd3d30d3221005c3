//! Selects the nodes to which a request is sent again, and the time. A lost connection of the caller, a server or the node can lose the request or the reply
//! without an error.
//!
//! The message is the same, so a node executes it once. A node that has replied sends its reply again. A node that gets the request too late replies `expired`.
//! This file sends no messages.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_bus::Bytes;
use muster_wire::identity::Identity;
use tokio::time::Instant;

use crate::call::RpcCall;

/// Time until the first repetition, and between two.
const INTERVAL: Duration = Duration::from_secs(8);
/// Most repetitions per second, on average: more silent nodes are asked less often.
const NODES_PER_SECOND: u32 = 500;

/// The messages of one call.
#[derive(Debug)]
pub(crate) struct RequestRepetition {
    /// Whether the call can last until a repetition.
    is_long: bool,
    messages: Vec<(Bytes, Vec<Identity>)>,
    due_at: Instant,
    repeated: BTreeSet<Identity>,
}

impl RequestRepetition {
    pub(crate) fn new(call: &RpcCall, now: Instant) -> Self {
        Self {
            is_long: call.wait > INTERVAL,
            messages: Vec::new(),
            due_at: now + INTERVAL,
            repeated: BTreeSet::new(),
        }
    }

    /// Keeps a message to these nodes.
    pub(crate) fn keep(&mut self, sealed: &[u8], nodes: &[Identity]) {
        if self.is_long {
            self.messages.push((Bytes::copy_from_slice(sealed), nodes.to_vec()));
        }
    }

    /// When something is to be repeated.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        (!self.messages.is_empty()).then_some(self.due_at)
    }

    /// The messages for these nodes, if they are due; then the next ones are due later.
    pub(crate) fn take_due(
        &mut self,
        silent: &BTreeSet<Identity>,
        now: Instant,
    ) -> Vec<(Bytes, Vec<Identity>)> {
        if now < self.due_at {
            return Vec::new();
        }
        for (_, nodes) in &mut self.messages {
            nodes.retain(|node| silent.contains(node));
        }
        self.messages.retain(|(_, nodes)| !nodes.is_empty());
        let due = self.messages.clone();
        let nodes: BTreeSet<Identity> = due.iter().flat_map(|(_, nodes)| nodes.clone()).collect();
        let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        self.due_at = now + INTERVAL.max(Duration::from_secs(1) * count / NODES_PER_SECOND);
        self.repeated.extend(nodes);
        due
    }

    /// Whether the node was sent the request again.
    pub(crate) fn includes(&self, node: &Identity) -> bool {
        self.repeated.contains(node)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use muster_wire::identity::Identity;
    use tokio::time::Instant;

    use super::{INTERVAL, RequestRepetition};
    use crate::call::{CallTarget, RpcCall};

    fn nodes(count: usize) -> Vec<Identity> {
        (0..count).map(|number| Identity::parse(&format!("n{number}")).unwrap()).collect()
    }

    #[test]
    fn silent_nodes_are_asked_again_and_many_of_them_less_often() {
        let mut call = RpcCall::new("service", "stop", CallTarget::Nodes(BTreeSet::new())).unwrap();
        let now = Instant::now();
        call.wait = Duration::from_secs(2);
        let mut short = RequestRepetition::new(&call, now);
        short.keep(b"x", &nodes(1));
        assert_eq!(short.due_at(), None);

        call.wait = Duration::from_mins(10);
        let mut long = RequestRepetition::new(&call, now);
        assert_eq!(long.due_at(), None);
        long.keep(b"x", &nodes(3));
        let silent: BTreeSet<Identity> = nodes(2).into_iter().skip(1).collect();
        assert!(long.take_due(&silent, now).is_empty());
        let due = long.take_due(&silent, now + INTERVAL);
        assert_eq!(due.len(), 1);
        assert_eq!(due[0].1, [Identity::parse("n1").unwrap()]);
        assert!(long.includes(&due[0].1[0]) && !long.includes(&nodes(1)[0]));
        assert_eq!(long.due_at(), Some(now + INTERVAL * 2));

        long.keep(b"y", &nodes(10_000));
        let all = nodes(10_000).into_iter().collect();
        long.take_due(&all, now + INTERVAL * 2);
        assert_eq!(long.due_at(), Some(now + INTERVAL * 2 + Duration::from_secs(20)));
        assert!(long.take_due(&BTreeSet::new(), now + INTERVAL * 9).is_empty());
        assert_eq!(long.due_at(), None);
    }
}
