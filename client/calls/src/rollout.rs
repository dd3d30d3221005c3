//! Decides which nodes of a rollout start next and when it stops: pure functions over values. The caller sends the requests and
//! reports how they ended.
//!
//! A plain request is sent to a whole batch at once; Puppet runs start one by one below a concurrency limit. Both use this schedule, so
//! `--canary` and `--max-failures` mean the same for both.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use muster_wire::identity::Identity;

use crate::limit::CountOrPercent;

/// Minimum requests beyond the concurrency limit, so that a waiting node takes over as soon as a permit is free.
const MIN_SLACK: usize = 2;
/// Maximum requests beyond the concurrency limit: these nodes wait for a permit, and will run even if the rollout is stopped.
const MAX_SLACK: usize = 32;

/// Limits of a rollout. The default is one batch with all nodes, which continues after any number of failures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RolloutLimits {
    /// Maximum concurrent runs, enforced by the nodes. When absent, a batch starts at once.
    pub concurrency: Option<usize>,
    /// Number of nodes in the first batch. 0: no canaries.
    pub canary: usize,
    /// Size of the other batches: the next batch starts when all nodes of the current one have ended. A percentage is of all nodes,
    /// rounded up.
    pub batch: Option<CountOrPercent>,
    /// Maximum number of nodes that fail or do not reply, canaries included. A percentage is of the canaries during the first batch
    /// and of all nodes later, rounded down. When absent, no canary may fail, and any number of the others.
    pub max_failures: Option<CountOrPercent>,
}

/// Why no further requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutStopReason {
    /// More canaries failed than allowed.
    Canary {
        /// Number of failures so far.
        failed: usize,
        /// Number of canaries.
        canaries: usize,
        /// Maximum failures among them.
        allowed: usize,
    },
    /// More nodes failed than allowed.
    Failures {
        /// Number of failures so far.
        failed: usize,
        /// Maximum failures.
        allowed: usize,
    },
    /// The user stopped the rollout.
    Interrupted,
    /// Requests cannot be sent any more.
    Broken,
}

impl fmt::Display for RolloutStopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Canary { failed, canaries, allowed } => {
                let noun = if *canaries == 1 { "canary" } else { "canaries" };
                write!(
                    f,
                    "stopped: {failed} of {canaries} {noun} failed or did not reply (maximum {allowed})"
                )
            }
            Self::Failures { failed, allowed } => {
                let noun = if *failed == 1 { "node" } else { "nodes" };
                write!(f, "stopped: {failed} {noun} failed or did not reply (maximum {allowed})")
            }
            Self::Interrupted => f.write_str("interrupted: no further requests are sent"),
            Self::Broken => {
                f.write_str("a request could not be sent: no further requests are sent")
            }
        }
    }
}

impl RolloutLimits {
    /// The batches in order: every node is in exactly one batch, and no batch is empty.
    pub fn batches(
        &self,
        mut order: impl ExactSizeIterator<Item = Identity>,
    ) -> VecDeque<VecDeque<Identity>> {
        let total = order.len();
        let size = self.batch.map_or(total, |batch| batch.count_rounded_up(total)).max(1);
        let mut batches = VecDeque::from([order.by_ref().take(self.canary).collect()]);
        while order.len() > 0 {
            batches.push_back(order.by_ref().take(size).collect());
        }
        batches.retain(|batch: &VecDeque<Identity>| !batch.is_empty());
        batches
    }
}

/// State of a rollout's schedule.
#[derive(Debug, Clone)]
pub struct RolloutSchedule {
    batches: VecDeque<VecDeque<Identity>>,
    /// Nodes with a request and no outcome so far.
    in_flight: BTreeSet<Identity>,
    /// Those of them that do not count against the limit: see [`RolloutSchedule::set_aside`].
    uncounted: BTreeSet<Identity>,
    limits: RolloutLimits,
    total: usize,
    /// The number of canaries, while they are running.
    canaries: Option<usize>,
    failed: usize,
    stop_reason: Option<RolloutStopReason>,
}

impl RolloutSchedule {
    /// Creates a schedule for these nodes in this order.
    pub fn new(order: Vec<Identity>, limits: RolloutLimits) -> Self {
        let total = order.len();
        let canaries = limits.canary.min(total);
        Self {
            batches: limits.batches(order.into_iter()),
            in_flight: BTreeSet::new(),
            uncounted: BTreeSet::new(),
            limits,
            total,
            canaries: (canaries > 0).then_some(canaries),
            failed: 0,
            stop_reason: None,
        }
    }

    /// Maximum number of nodes in flight: the concurrency limit plus as many again, but at least 2 and at most 32 more.
    pub fn max_in_flight(&self) -> usize {
        let Some(limit) = self.limits.concurrency else {
            return usize::MAX;
        };
        let limit = limit.max(1);
        limit.saturating_add(limit.clamp(MIN_SLACK, MAX_SLACK))
    }

    /// Returns the next node, if one may start now, and marks it as in flight.
    pub fn next_node(&mut self) -> Option<Identity> {
        let waiting = self.in_flight.len().saturating_sub(self.uncounted.len());
        if self.stop_reason.is_some() || waiting >= self.max_in_flight() {
            return None;
        }
        if self.batches.front().is_some_and(VecDeque::is_empty) {
            if !self.in_flight.is_empty() {
                return None;
            }
            self.batches.pop_front();
            self.canaries = None;
        }
        let node = self.batches.front_mut()?.pop_front()?;
        self.in_flight.insert(node.clone());
        Some(node)
    }

    /// Returns all nodes that may start now, and marks them as in flight: without a concurrency limit, the next batch. `None` if
    /// there are none.
    pub fn next_batch(&mut self) -> Option<BTreeSet<Identity>> {
        let batch: BTreeSet<Identity> = std::iter::from_fn(|| self.next_node()).collect();
        (!batch.is_empty()).then_some(batch)
    }

    /// Marks whether a node in flight counts against the limit. A node that cannot wait for a permit, because it is absent or busy, does not count,
    /// so another node starts in its place. Its outcome is still awaited.
    pub fn set_aside(&mut self, node: &Identity, is_aside: bool) {
        if is_aside && self.in_flight.contains(node) {
            self.uncounted.insert(node.clone());
        } else {
            self.uncounted.remove(node);
        }
    }

    /// Records the outcome of a node; returns the stop reason, if the rollout stops now.
    pub fn record_end(&mut self, node: &Identity, ok: bool) -> Option<RolloutStopReason> {
        self.uncounted.remove(node);
        if !self.in_flight.remove(node) || ok {
            return None;
        }
        self.check_failures(self.failed + 1)
    }

    /// Records the end of all nodes in flight, with the number of failures since the start of the rollout; returns the stop reason, if
    /// the rollout stops now.
    pub fn record_batch_end(&mut self, failed: usize) -> Option<RolloutStopReason> {
        self.in_flight.clear();
        self.uncounted.clear();
        self.check_failures(failed)
    }

    fn check_failures(&mut self, failed: usize) -> Option<RolloutStopReason> {
        self.failed = failed;
        if self.stop_reason.is_some() {
            return None;
        }
        let allowed_of =
            |total| self.limits.max_failures.map(|limit| limit.count_rounded_down(total));
        let exceeded = if let Some(canaries) = self.canaries {
            let allowed = allowed_of(canaries).unwrap_or(0);
            (failed > allowed).then_some(RolloutStopReason::Canary { failed, canaries, allowed })
        } else {
            let allowed = allowed_of(self.total)?;
            (failed > allowed).then_some(RolloutStopReason::Failures { failed, allowed })
        };
        self.stop_reason = exceeded;
        exceeded
    }

    /// Starts no further node.
    pub fn stop(&mut self, reason: RolloutStopReason) {
        self.stop_reason.get_or_insert(reason);
    }

    /// Why no further node starts, if so.
    pub fn stop_reason(&self) -> Option<RolloutStopReason> {
        self.stop_reason
    }

    /// Number of nodes in flight.
    pub fn in_flight_count(&self) -> usize {
        self.in_flight.len()
    }

    /// Nodes that were never started, in order.
    pub fn unasked_nodes(&self) -> impl Iterator<Item = &Identity> {
        self.batches.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use muster_wire::identity::Identity;
    use proptest::prelude::*;

    use super::{RolloutLimits, RolloutSchedule, RolloutStopReason};
    use crate::limit::CountOrPercent;

    fn order(count: usize) -> Vec<Identity> {
        (1..=count).map(|n| format!("n{n:02}").parse().unwrap()).collect()
    }

    fn shape(limit: usize) -> RolloutLimits {
        RolloutLimits { concurrency: Some(limit), ..RolloutLimits::default() }
    }

    /// Takes all nodes that can receive the request now.
    fn ask(schedule: &mut RolloutSchedule) -> Vec<String> {
        std::iter::from_fn(|| schedule.next_node()).map(|node| node.to_string()).collect()
    }

    fn end(schedule: &mut RolloutSchedule, node: &str, ok: bool) -> Option<RolloutStopReason> {
        schedule.record_end(&node.parse().unwrap(), ok)
    }

    #[test]
    fn in_flight_nodes_keep_permits_busy_up_to_a_maximum() {
        let mut schedule = RolloutSchedule::new(order(9), shape(2));
        assert_eq!(ask(&mut schedule), ["n01", "n02", "n03", "n04"]);
        assert_eq!(end(&mut schedule, "n03", true), None);
        assert_eq!(ask(&mut schedule), ["n05"]);
        // The number of failures is unlimited by default, and a node counts once.
        assert_eq!(end(&mut schedule, "n01", false), None);
        assert_eq!(end(&mut schedule, "n01", false), None);
        assert_eq!(ask(&mut schedule), ["n06"]);
        assert_eq!(RolloutSchedule::new(order(9), shape(1)).max_in_flight(), 3);
        assert_eq!(RolloutSchedule::new(order(9), shape(100)).max_in_flight(), 132);
    }

    #[test]
    fn nodes_set_aside_do_not_block_others() {
        let mut schedule = RolloutSchedule::new(order(9), shape(1));
        assert_eq!(ask(&mut schedule), ["n01", "n02", "n03"]);
        let busy: Vec<Identity> = ["n01", "n02", "n03"].map(|name| name.parse().unwrap()).into();
        for node in &busy {
            schedule.set_aside(node, true);
        }
        assert_eq!(ask(&mut schedule), ["n04", "n05", "n06"]);
        for node in &busy {
            schedule.set_aside(node, false);
        }
        assert_eq!(end(&mut schedule, "n04", true), None);
        assert!(ask(&mut schedule).is_empty(), "the nodes in flight again leave no free slot");
        assert_eq!(schedule.in_flight_count(), 5);
        schedule.set_aside(&"n09".parse().unwrap(), true);
        for node in ["n01", "n02", "n03"] {
            end(&mut schedule, node, true);
        }
        assert_eq!(ask(&mut schedule), ["n07"]);
    }

    #[test]
    fn canaries_run_first_and_a_failed_one_stops_the_rollout() {
        let canary = RolloutLimits { canary: 2, ..shape(4) };
        let mut schedule = RolloutSchedule::new(order(5), canary);
        assert_eq!(ask(&mut schedule), ["n01", "n02"]);
        assert_eq!(end(&mut schedule, "n02", true), None);
        assert!(ask(&mut schedule).is_empty());
        let bad = RolloutStopReason::Canary { failed: 1, canaries: 2, allowed: 0 };
        assert_eq!(end(&mut schedule.clone(), "n01", false), Some(bad), "a failed canary");
        assert_eq!(end(&mut schedule, "n01", true), None);
        assert_eq!(ask(&mut schedule), ["n03", "n04", "n05"]);
        assert_eq!(end(&mut schedule, "n03", false), None, "n03 is not a canary");
    }

    #[test]
    fn failures_are_limited_per_canaries_and_then_in_total() {
        let tolerant = RolloutLimits {
            canary: 4,
            max_failures: Some(CountOrPercent::Percent(25)),
            ..shape(10)
        };
        let mut schedule = RolloutSchedule::new(order(12), tolerant);
        assert_eq!(ask(&mut schedule).len(), 4);
        assert_eq!(end(&mut schedule, "n01", false), None, "1 of 4 is 25%");
        for node in ["n02", "n03", "n04"] {
            assert_eq!(end(&mut schedule, node, true), None);
        }
        assert_eq!(ask(&mut schedule).len(), 8);
        assert_eq!(end(&mut schedule, "n05", false), None);
        assert_eq!(end(&mut schedule, "n06", false), None);
        let (failed, allowed) = (4, 3);
        assert_eq!(
            end(&mut schedule, "n07", false),
            Some(RolloutStopReason::Failures { failed, allowed })
        );
        assert_eq!(end(&mut schedule, "n08", false), None, "the stop reason is returned once");
        assert_eq!(schedule.stop_reason(), Some(RolloutStopReason::Failures { failed, allowed }));
    }

    #[test]
    fn batch_waits_for_the_previous_one_and_unasked_nodes_are_listed() {
        let batches = RolloutLimits { batch: Some(CountOrPercent::Count(2)), ..shape(4) };
        let mut schedule = RolloutSchedule::new(order(5), batches);
        assert_eq!(ask(&mut schedule), ["n01", "n02"]);
        assert_eq!(end(&mut schedule, "n01", true), None);
        assert!(ask(&mut schedule).is_empty());
        assert_eq!(end(&mut schedule, "n02", true), None);
        assert_eq!(ask(&mut schedule), ["n03", "n04"]);
        schedule.stop(RolloutStopReason::Interrupted);
        assert!(ask(&mut schedule).is_empty());
        assert_eq!(schedule.in_flight_count(), 2);
        let left: Vec<String> = schedule.unasked_nodes().map(ToString::to_string).collect();
        assert_eq!(left, ["n05"]);
    }

    #[test]
    fn batch_starts_at_once_without_a_concurrency_limit() {
        let sizes = |limits: RolloutLimits, count| {
            let mut schedule = RolloutSchedule::new(order(count), limits);
            let mut sizes = Vec::new();
            while let Some(batch) = schedule.next_batch() {
                sizes.push(batch.len());
                assert_eq!(schedule.record_batch_end(0), None);
            }
            sizes
        };
        let all = RolloutLimits::default();
        let batch = Some(CountOrPercent::Count(2));
        assert_eq!(sizes(all, 5), [5]);
        assert_eq!(sizes(all, 0), [0; 0]);
        assert_eq!(sizes(RolloutLimits { batch, ..all }, 5), [2, 2, 1]);
        let canary = 1;
        assert_eq!(sizes(RolloutLimits { canary, batch, ..all }, 5), [1, 2, 2]);
        assert_eq!(sizes(RolloutLimits { canary, ..all }, 5), [1, 4]);
        assert_eq!(sizes(RolloutLimits { canary: 9, ..all }, 5), [5]);
        let batch = Some(CountOrPercent::Percent(30));
        assert_eq!(sizes(RolloutLimits { batch, ..all }, 5), [2, 2, 1]);
    }

    #[test]
    fn failures_of_a_batch_count_towards_the_same_limits() {
        let limits = RolloutLimits {
            canary: 2,
            batch: Some(CountOrPercent::Count(3)),
            max_failures: Some(CountOrPercent::Count(1)),
            ..RolloutLimits::default()
        };
        let mut schedule = RolloutSchedule::new(order(9), limits);
        assert!(schedule.next_batch().is_some());
        assert_eq!(schedule.record_batch_end(1), None, "one canary may fail");
        assert!(schedule.next_batch().is_some());
        let (failed, allowed) = (3, 1);
        assert_eq!(
            schedule.record_batch_end(3),
            Some(RolloutStopReason::Failures { failed, allowed }),
            "canaries count"
        );
        assert_eq!(schedule.next_batch(), None);
        assert_eq!(schedule.unasked_nodes().count(), 4);
        let strict = RolloutLimits { max_failures: None, ..limits };
        let mut schedule = RolloutSchedule::new(order(9), strict);
        assert!(schedule.next_batch().is_some());
        assert!(schedule.record_batch_end(1).is_some(), "no canary may fail");
    }

    #[test]
    fn stop_reasons_are_sentences() {
        let canary = |failed, canaries| RolloutStopReason::Canary { failed, canaries, allowed: 0 };
        let failures = |failed, allowed| RolloutStopReason::Failures { failed, allowed };
        for (reason, text) in [
            (canary(1, 1), "stopped: 1 of 1 canary failed or did not reply (maximum 0)"),
            (canary(1, 2), "stopped: 1 of 2 canaries failed or did not reply (maximum 0)"),
            (failures(1, 0), "stopped: 1 node failed or did not reply (maximum 0)"),
            (failures(3, 2), "stopped: 3 nodes failed or did not reply (maximum 2)"),
            (RolloutStopReason::Interrupted, "interrupted: no further requests are sent"),
            (
                RolloutStopReason::Broken,
                "a request could not be sent: no further requests are sent",
            ),
        ] {
            assert_eq!(reason.to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn every_node_is_asked_once_in_order(
            count in 0_usize..60, limit in 0_usize..20, canary in 0_usize..10, batch in prop::option::of(0_usize..20),
            last in prop::collection::vec(any::<bool>(), 200),
        ) {
            let shape = RolloutLimits { concurrency: Some(limit), batch: batch.map(CountOrPercent::Count), canary, max_failures: None };
            let mut schedule = RolloutSchedule::new(order(count), shape);
            let (mut asked, mut under_way) = (Vec::new(), Vec::new());
            let mut last = last.into_iter().cycle();
            loop {
                while let Some(node) = schedule.next_node() {
                    asked.push(node.clone());
                    under_way.push(node);
                }
                prop_assert!(under_way.len() <= schedule.max_in_flight());
                // The node that was asked last or first ends next.
                let Some(node) = (if last.next().unwrap() { under_way.pop() } else { (!under_way.is_empty()).then(|| under_way.remove(0)) }) else { break };
                prop_assert_eq!(schedule.record_end(&node, true), None);
            }
            prop_assert_eq!(asked, order(count));
            prop_assert_eq!(schedule.unasked_nodes().count(), 0);
        }

        #[test]
        fn rollout_stops_at_the_failure_limit(count in 1_usize..60, limit in 1_usize..20, allowed in 0_usize..10) {
            let shape = RolloutLimits { concurrency: Some(limit), max_failures: Some(CountOrPercent::Count(allowed)), ..RolloutLimits::default() };
            let mut schedule = RolloutSchedule::new(order(count), shape);
            let mut asked = BTreeSet::new();
            let mut bad = 0;
            while let Some(node) = schedule.next_node() {
                asked.insert(node.clone());
                bad += 1;
                let halted = schedule.record_end(&node, false).is_some();
                prop_assert_eq!(halted, bad == allowed.min(count) + 1);
            }
            prop_assert_eq!(asked.len(), count.min(allowed + 1));
        }
    }
}
