//! Decides which reports about conditions are sent to nodes, and when: a release until the node no longer waits, the missing nodes when they change. Pure.
//!
//! A node learns from a release that no other node matches its query without a recent run. So that a stolen key cannot read facts of other nodes in this
//! way, few conditions of a node are evaluated in an hour.

use std::collections::HashMap;
use std::time::Duration;

use muster_wire::identity::Identity;
use tokio::time::Instant;
use uuid::Uuid;

use crate::barriers::{BarrierVerdict, WaitingNode};

/// Time after which a release is sent again to a node whose record still has the condition.
const RELEASE_RETRY: Duration = Duration::from_secs(15);
/// Shortest time between two reports of the nodes that a condition waits for.
const MISSING_INTERVAL: Duration = Duration::from_secs(10);
/// Most conditions of a node that are evaluated in an hour. A node begins ten further runs in a day by default.
const MAX_CONDITIONS_PER_HOUR: u32 = 32;
const HOUR: Duration = Duration::from_hours(1);

/// A report to a node about a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BarrierReport {
    pub(crate) waiting: WaitingNode,
    pub(crate) verdict: BarrierVerdict,
}

/// The conditions that are known, and what was sent.
#[derive(Debug, Default)]
pub(crate) struct BarrierSchedule {
    known: HashMap<(Identity, Uuid), SentReport>,
    /// For each node, the begin of an hour and the number of new conditions since.
    budgets: HashMap<Identity, (Instant, u32)>,
}

#[derive(Debug, Default)]
struct SentReport {
    last: Option<(Instant, BarrierVerdict)>,
}

impl BarrierSchedule {
    /// Forgets the conditions that no record has any more, and admits new ones. Returns those that may be evaluated.
    pub(crate) fn admit(&mut self, waiting: Vec<WaitingNode>, now: Instant) -> Vec<WaitingNode> {
        let key = |waiting: &WaitingNode| (waiting.node.clone(), waiting.barrier.id);
        let current: std::collections::HashSet<_> = waiting.iter().map(key).collect();
        self.known.retain(|key, _| current.contains(key));
        self.budgets.retain(|_, (since, _)| now.duration_since(*since) < HOUR);
        waiting.into_iter().filter(|waiting| self.admit_one(key(waiting), now)).collect()
    }

    fn admit_one(&mut self, key: (Identity, Uuid), now: Instant) -> bool {
        if self.known.contains_key(&key) {
            return true;
        }
        let (_, count) = self.budgets.entry(key.0.clone()).or_insert((now, 0));
        if *count >= MAX_CONDITIONS_PER_HOUR {
            return false;
        }
        *count += 1;
        self.known.insert(key, SentReport::default());
        true
    }

    /// Whether a report is due now. If so, it counts as sent.
    pub(crate) fn take_due(
        &mut self,
        waiting: &WaitingNode,
        verdict: &BarrierVerdict,
        now: Instant,
    ) -> bool {
        let key = (waiting.node.clone(), waiting.barrier.id);
        let Some(sent) = self.known.get_mut(&key) else { return false };
        let is_due = match (&sent.last, verdict) {
            (None, _) | (Some((_, BarrierVerdict::Missing { .. })), BarrierVerdict::Holds) => true,
            (Some((at, BarrierVerdict::Holds)), BarrierVerdict::Holds) => {
                now.duration_since(*at) >= RELEASE_RETRY
            }
            (Some((at, last)), BarrierVerdict::Missing { .. }) => {
                last != verdict && now.duration_since(*at) >= MISSING_INTERVAL
            }
        };
        if is_due {
            sent.last = Some((now, verdict.clone()));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::node_barrier::NodeBarrier;

    fn waiting(node: &str, id: u128) -> WaitingNode {
        let barrier = NodeBarrier { id: Uuid::from_u128(id), filter: "{}".into(), after: 1 };
        WaitingNode { node: Identity::parse(node).unwrap(), collectives: Arc::new([]), barrier }
    }

    fn missing(count: u64) -> BarrierVerdict {
        BarrierVerdict::Missing { count, names: Vec::new() }
    }

    #[test]
    fn releases_are_repeated_until_the_record_has_no_condition_and_progress_is_limited() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut schedule = BarrierSchedule::default();
        let one = waiting("n1.example.net", 1);
        assert!(!schedule.take_due(&one, &missing(2), at(0)), "not admitted");
        assert_eq!(schedule.admit(vec![one.clone()], at(0)), std::slice::from_ref(&one));
        for (seconds, verdict, is_due) in [
            (0, missing(2), true),
            (1, missing(2), false),
            (2, missing(1), false),
            (9, missing(1), false),
            (10, missing(1), true),
            (99, missing(1), false),
            (100, BarrierVerdict::Holds, true),
            (101, BarrierVerdict::Holds, false),
            (115, BarrierVerdict::Holds, true),
        ] {
            assert_eq!(schedule.admit(vec![one.clone()], at(seconds)).len(), 1);
            assert_eq!(schedule.take_due(&one, &verdict, at(seconds)), is_due, "{seconds}");
        }
        assert_eq!(schedule.admit(Vec::new(), at(120)), []);
        assert!(!schedule.take_due(&one, &BarrierVerdict::Holds, at(200)), "no longer known");
    }

    #[test]
    fn few_conditions_of_a_node_are_evaluated_in_an_hour() {
        let start = Instant::now();
        let mut schedule = BarrierSchedule::default();
        for id in 0..100 {
            let now = start + Duration::from_secs(u64::try_from(id).unwrap());
            let admitted = schedule.admit(vec![waiting("n1.example.net", id)], now);
            assert_eq!(admitted.len(), usize::from(id < 32), "condition {id}");
        }
        let later = start + Duration::from_secs(100);
        assert_eq!(schedule.admit(vec![waiting("n2.example.net", 1)], later).len(), 1);
        let later = start + HOUR + Duration::from_secs(1);
        assert_eq!(schedule.admit(vec![waiting("n1.example.net", 99)], later).len(), 1);
    }
}
