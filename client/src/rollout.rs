//! Decides the batches of a rollout and whether it continues after failures. Pure functions; the caller sends requests, counts failures and waits.

use std::collections::BTreeSet;

use muster_wire::identity::Identity;

use crate::limit::CountOrPercent;

/// Parameters of a rollout. The default is one batch with all nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchedRollout {
    /// Number of nodes in the first batch; the rollout stops unless all of them succeed.
    pub canary: usize,
    /// Batch size; a percentage is of all nodes.
    pub batch: Option<CountOrPercent>,
    /// Maximum number of failed or missing nodes; a percentage is of all nodes. Unlimited when absent.
    pub max_failures: Option<CountOrPercent>,
}

/// Why a rollout stopped before all nodes received the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchedRolloutStopReason {
    /// Not all canaries succeeded.
    Canary {
        /// Number of canaries that failed or did not reply.
        failed: usize,
    },
    /// More nodes failed or did not reply than allowed.
    Failures {
        /// Number of nodes that failed or did not reply.
        failed: usize,
        /// Maximum allowed number.
        allowed: usize,
    },
}

impl BatchedRollout {
    /// The batches in order, nodes sorted by name: every node is in exactly one batch, and no batch is empty.
    pub fn batches(&self, nodes: &BTreeSet<Identity>) -> Vec<BTreeSet<Identity>> {
        let total = nodes.len();
        let size = self
            .batch
            .map_or(total, |batch| batch.count_rounded_up(total))
            .max(1);
        let mut order = nodes.iter().cloned();
        let canaries: BTreeSet<Identity> = order.by_ref().take(self.canary).collect();
        let mut batches = vec![canaries];
        loop {
            let batch: BTreeSet<Identity> = order.by_ref().take(size).collect();
            if batch.is_empty() {
                break;
            }
            batches.push(batch);
        }
        batches.retain(|batch| !batch.is_empty());
        batches
    }

    /// Checks the limits after `requested` batches of a rollout to `total` nodes, of which `failed` have failed or not replied so far.
    pub fn check_limits(
        &self,
        requested: usize,
        failed: usize,
        total: usize,
    ) -> Result<(), BatchedRolloutStopReason> {
        if self.canary > 0 && requested == 1 && failed > 0 {
            return Err(BatchedRolloutStopReason::Canary { failed });
        }
        match self
            .max_failures
            .map(|amount| amount.count_rounded_down(total))
        {
            Some(allowed) if failed > allowed => {
                Err(BatchedRolloutStopReason::Failures { failed, allowed })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use muster_wire::identity::Identity;
    use proptest::prelude::*;

    use super::{BatchedRollout, BatchedRolloutStopReason};
    use crate::limit::CountOrPercent;

    fn nodes(count: usize) -> BTreeSet<Identity> {
        (0..count)
            .map(|n| format!("n{n:03}").parse().unwrap())
            .collect()
    }

    fn sizes(rollout: BatchedRollout, count: usize) -> Vec<usize> {
        let batches = rollout.batches(&nodes(count));
        batches.iter().map(BTreeSet::len).collect()
    }

    #[test]
    fn canaries_go_first_and_the_rest_in_batches() {
        let all = BatchedRollout::default();
        assert_eq!(sizes(all, 5), [5]);
        assert_eq!(sizes(all, 0), [0; 0]);
        let batch = Some(CountOrPercent::Count(2));
        assert_eq!(sizes(BatchedRollout { batch, ..all }, 5), [2, 2, 1]);
        assert_eq!(
            sizes(
                BatchedRollout {
                    batch,
                    canary: 1,
                    ..all
                },
                5
            ),
            [1, 2, 2]
        );
        assert_eq!(sizes(BatchedRollout { canary: 1, ..all }, 5), [1, 4]);
        assert_eq!(sizes(BatchedRollout { canary: 9, ..all }, 5), [5]);
        let batch = Some(CountOrPercent::Percent(30));
        assert_eq!(sizes(BatchedRollout { batch, ..all }, 5), [2, 2, 1]);
    }

    #[test]
    fn a_bad_canary_stops_whatever_failures_are_allowed() {
        let rollout = BatchedRollout {
            canary: 2,
            max_failures: Some(CountOrPercent::Count(10)),
            ..BatchedRollout::default()
        };
        assert_eq!(rollout.check_limits(1, 0, 100), Ok(()));
        assert_eq!(
            rollout.check_limits(1, 1, 100),
            Err(BatchedRolloutStopReason::Canary { failed: 1 })
        );
        assert_eq!(rollout.check_limits(2, 10, 100), Ok(()));
        let (failed, allowed) = (11, 10);
        assert_eq!(
            rollout.check_limits(2, 11, 100),
            Err(BatchedRolloutStopReason::Failures { failed, allowed })
        );
    }

    #[test]
    fn a_part_of_few_allows_no_failure_and_no_limit_allows_all() {
        let max_failures = Some(CountOrPercent::Percent(5));
        let rollout = BatchedRollout {
            max_failures,
            ..BatchedRollout::default()
        };
        assert!(rollout.check_limits(1, 1, 10).is_err());
        assert!(rollout.check_limits(1, 1, 20).is_ok());
        assert!(
            BatchedRollout::default()
                .check_limits(3, 1000, 1000)
                .is_ok()
        );
    }

    proptest! {
        #[test]
        fn everybody_is_asked_exactly_once(count in 0_usize..80, canary in 0_usize..10, size in 0_usize..20, parts: bool) {
            let amount = if parts { CountOrPercent::Percent(u8::try_from(size).unwrap()) } else { CountOrPercent::Count(size) };
            let rollout = BatchedRollout { canary, batch: Some(amount), max_failures: None };
            let all = nodes(count);
            let batches = rollout.batches(&all);
            prop_assert!(batches.iter().all(|batch| !batch.is_empty()));
            let asked: Vec<Identity> = batches.into_iter().flatten().collect();
            prop_assert_eq!(asked, all.into_iter().collect::<Vec<_>>());
        }
    }
}
