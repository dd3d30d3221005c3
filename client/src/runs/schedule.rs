//! Decides which node runs next and when the rollout stops: pure functions over values. The caller reports the outcome of each node.

use std::collections::{BTreeSet, VecDeque};

use muster_wire::identity::Identity;

use crate::limit::CountOrPercent;

/// Minimum requests beyond the limit, so that a waiting node takes over as soon as a permit is free.
const MIN_SLACK: usize = 2;
/// Maximum requests beyond the limit: these nodes wait for a permit, and will run even if the rollout is stopped.
const MAX_SLACK: usize = 32;

/// Limits of a rollout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PuppetRolloutLimits {
    /// Maximum concurrent runs, enforced by the nodes. At least 1.
    pub limit: usize,
    /// Batch size: the next batch starts when all nodes of the current one have ended.
    pub batch: Option<CountOrPercent>,
    /// Number of nodes in the first batch.
    pub canary: usize,
    /// Maximum failures: a percentage is of the canaries during the first batch, and of all nodes later. When absent, no canary may fail, and any
    /// number of the others.
    pub max_failures: Option<CountOrPercent>,
}

/// Why no further requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PuppetRolloutStopReason {
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

/// State of a rollout's schedule.
#[derive(Debug, Clone)]
pub struct RunSchedule {
    batches: VecDeque<VecDeque<Identity>>,
    /// Nodes with a request and no outcome so far.
    in_flight: BTreeSet<Identity>,
    /// Those of them that do not count against the limit: see [`RunSchedule::set_aside`].
    uncounted: BTreeSet<Identity>,
    limits: PuppetRolloutLimits,
    total: usize,
    /// The number of canaries, while they are running.
    canaries: Option<usize>,
    failed: usize,
    stop_reason: Option<PuppetRolloutStopReason>,
}

impl RunSchedule {
    /// Creates a schedule for these nodes in this order.
    pub fn new(order: Vec<Identity>, limits: PuppetRolloutLimits) -> Self {
        let total = order.len();
        let size = limits
            .batch
            .map_or(total, |batch| batch.count_rounded_up(total))
            .max(1);
        let mut order = order.into_iter();
        let canaries: VecDeque<Identity> = order.by_ref().take(limits.canary).collect();
        let count = (!canaries.is_empty()).then_some(canaries.len());
        let mut batches = VecDeque::from([canaries]);
        loop {
            let batch: VecDeque<Identity> = order.by_ref().take(size).collect();
            if batch.is_empty() {
                break;
            }
            batches.push_back(batch);
        }
        batches.retain(|batch| !batch.is_empty());
        Self {
            batches,
            in_flight: BTreeSet::new(),
            uncounted: BTreeSet::new(),
            limits,
            total,
            canaries: count,
            failed: 0,
            stop_reason: None,
        }
    }

    /// Maximum number of nodes in flight: the limit plus as many again, but at least 2 and at most 32 more.
    pub fn max_in_flight(&self) -> usize {
        let limit = self.limits.limit.max(1);
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
    pub fn record_end(&mut self, node: &Identity, ok: bool) -> Option<PuppetRolloutStopReason> {
        self.uncounted.remove(node);
        if !self.in_flight.remove(node) || ok {
            return None;
        }
        self.failed += 1;
        if self.stop_reason.is_some() {
            return None;
        }
        self.stop_reason = self.check_failures();
        self.stop_reason
    }

    fn check_failures(&self) -> Option<PuppetRolloutStopReason> {
        let failed = self.failed;
        if let Some(canaries) = self.canaries {
            let allowed = self
                .limits
                .max_failures
                .map_or(0, |limit| limit.count_rounded_down(canaries));
            return (failed > allowed).then_some(PuppetRolloutStopReason::Canary {
                failed,
                canaries,
                allowed,
            });
        }
        let allowed = self.limits.max_failures?.count_rounded_down(self.total);
        (failed > allowed).then_some(PuppetRolloutStopReason::Failures { failed, allowed })
    }

    /// Starts no further node.
    pub fn stop(&mut self, reason: PuppetRolloutStopReason) {
        self.stop_reason.get_or_insert(reason);
    }

    /// Why no further node starts, if so.
    pub fn stop_reason(&self) -> Option<PuppetRolloutStopReason> {
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

    use super::{PuppetRolloutLimits, PuppetRolloutStopReason, RunSchedule};
    use crate::limit::CountOrPercent;

    fn order(count: usize) -> Vec<Identity> {
        (1..=count)
            .map(|n| format!("n{n:02}").parse().unwrap())
            .collect()
    }

    fn shape(limit: usize) -> PuppetRolloutLimits {
        PuppetRolloutLimits {
            limit,
            ..PuppetRolloutLimits::default()
        }
    }

    /// Everybody who may be asked now.
    fn ask(schedule: &mut RunSchedule) -> Vec<String> {
        std::iter::from_fn(|| schedule.next_node())
            .map(|node| node.to_string())
            .collect()
    }

    fn end(schedule: &mut RunSchedule, node: &str, ok: bool) -> Option<PuppetRolloutStopReason> {
        schedule.record_end(&node.parse().unwrap(), ok)
    }

    #[test]
    fn as_many_are_asked_that_no_permit_is_idle_and_no_more() {
        let mut schedule = RunSchedule::new(order(9), shape(2));
        assert_eq!(ask(&mut schedule), ["n01", "n02", "n03", "n04"]);
        assert_eq!(end(&mut schedule, "n03", true), None);
        assert_eq!(ask(&mut schedule), ["n05"]);
        // Any number may fail where nobody has said otherwise, and nobody counts twice.
        assert_eq!(end(&mut schedule, "n01", false), None);
        assert_eq!(end(&mut schedule, "n01", false), None);
        assert_eq!(ask(&mut schedule), ["n06"]);
        assert_eq!(RunSchedule::new(order(9), shape(1)).max_in_flight(), 3);
        assert_eq!(RunSchedule::new(order(9), shape(100)).max_in_flight(), 132);
    }

    #[test]
    fn who_is_busy_with_something_else_blocks_nobody() {
        let mut schedule = RunSchedule::new(order(9), shape(1));
        assert_eq!(ask(&mut schedule), ["n01", "n02", "n03"]);
        let busy: Vec<Identity> = ["n01", "n02", "n03"]
            .map(|name| name.parse().unwrap())
            .into();
        for node in &busy {
            schedule.set_aside(node, true);
        }
        assert_eq!(ask(&mut schedule), ["n04", "n05", "n06"]);
        for node in &busy {
            schedule.set_aside(node, false);
        }
        assert_eq!(end(&mut schedule, "n04", true), None);
        assert!(ask(&mut schedule).is_empty(), "they are back");
        assert_eq!(schedule.in_flight_count(), 5);
        schedule.set_aside(&"n09".parse().unwrap(), true);
        for node in ["n01", "n02", "n03"] {
            end(&mut schedule, node, true);
        }
        assert_eq!(ask(&mut schedule), ["n07"]);
    }

    #[test]
    fn canaries_are_first_and_alone_and_a_bad_one_ends_it() {
        let canary = PuppetRolloutLimits {
            canary: 2,
            ..shape(4)
        };
        let mut schedule = RunSchedule::new(order(5), canary);
        assert_eq!(ask(&mut schedule), ["n01", "n02"]);
        assert_eq!(end(&mut schedule, "n02", true), None);
        assert!(ask(&mut schedule).is_empty());
        let bad = PuppetRolloutStopReason::Canary {
            failed: 1,
            canaries: 2,
            allowed: 0,
        };
        assert_eq!(
            end(&mut schedule.clone(), "n01", false),
            Some(bad),
            "a failed canary"
        );
        assert_eq!(end(&mut schedule, "n01", true), None);
        assert_eq!(ask(&mut schedule), ["n03", "n04", "n05"]);
        assert_eq!(end(&mut schedule, "n03", false), None, "no canary any more");
    }

    #[test]
    fn failures_are_counted_among_the_canaries_and_then_among_all() {
        let tolerant = PuppetRolloutLimits {
            canary: 4,
            max_failures: Some(CountOrPercent::Percent(25)),
            ..shape(10)
        };
        let mut schedule = RunSchedule::new(order(12), tolerant);
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
            Some(PuppetRolloutStopReason::Failures { failed, allowed })
        );
        assert_eq!(end(&mut schedule, "n08", false), None, "told once");
        assert_eq!(
            schedule.stop_reason(),
            Some(PuppetRolloutStopReason::Failures { failed, allowed })
        );
    }

    #[test]
    fn a_batch_waits_for_the_one_before_and_whoever_is_left_is_known() {
        let batches = PuppetRolloutLimits {
            batch: Some(CountOrPercent::Count(2)),
            ..shape(4)
        };
        let mut schedule = RunSchedule::new(order(5), batches);
        assert_eq!(ask(&mut schedule), ["n01", "n02"]);
        assert_eq!(end(&mut schedule, "n01", true), None);
        assert!(ask(&mut schedule).is_empty());
        assert_eq!(end(&mut schedule, "n02", true), None);
        assert_eq!(ask(&mut schedule), ["n03", "n04"]);
        schedule.stop(PuppetRolloutStopReason::Interrupted);
        assert!(ask(&mut schedule).is_empty());
        assert_eq!(schedule.in_flight_count(), 2);
        let left: Vec<String> = schedule.unasked_nodes().map(ToString::to_string).collect();
        assert_eq!(left, ["n05"]);
    }

    proptest! {
        #[test]
        fn everybody_has_exactly_one_turn_in_order(
            count in 0_usize..60, limit in 0_usize..20, canary in 0_usize..10, batch in prop::option::of(0_usize..20),
            last in prop::collection::vec(any::<bool>(), 200),
        ) {
            let shape = PuppetRolloutLimits { limit, batch: batch.map(CountOrPercent::Count), canary, max_failures: None };
            let mut schedule = RunSchedule::new(order(count), shape);
            let (mut asked, mut under_way) = (Vec::new(), Vec::new());
            let mut last = last.into_iter().cycle();
            loop {
                while let Some(node) = schedule.next_node() {
                    asked.push(node.clone());
                    under_way.push(node);
                }
                prop_assert!(under_way.len() <= schedule.max_in_flight());
                // The one that was asked last or first ends next.
                let Some(node) = (if last.next().unwrap() { under_way.pop() } else { (!under_way.is_empty()).then(|| under_way.remove(0)) }) else { break };
                prop_assert_eq!(schedule.record_end(&node, true), None);
            }
            prop_assert_eq!(asked, order(count));
            prop_assert_eq!(schedule.unasked_nodes().count(), 0);
        }

        #[test]
        fn never_more_fail_than_may_before_it_ends(count in 1_usize..60, limit in 1_usize..20, allowed in 0_usize..10) {
            let shape = PuppetRolloutLimits { limit, max_failures: Some(CountOrPercent::Count(allowed)), ..PuppetRolloutLimits::default() };
            let mut schedule = RunSchedule::new(order(count), shape);
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
