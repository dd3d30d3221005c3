//! Results that wait for delivery while events arrive. Pure.
//!
//! The queue is bounded. When results had to be left out, or could not be delivered, all current states are due: they contain what was left out.

use std::collections::{BTreeSet, VecDeque};

use super::result::PassiveResult;

/// Most results that wait.
const MAX_RESULTS: usize = 10_000;
/// Most results that are delivered at once.
const MAX_BATCH_RESULTS: usize = 64;

/// The next thing to deliver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassiveWork {
    /// All current states.
    States,
    /// Changes, at most one of each service.
    Results(Vec<PassiveResult>),
}

/// Results in the order in which they are to be delivered.
#[derive(Debug, Default)]
pub struct PassiveQueue {
    are_states_due: bool,
    results: VecDeque<PassiveResult>,
}

impl PassiveQueue {
    /// All current states are to be delivered next, and then the newest waiting result of each service.
    pub fn request_states(&mut self) {
        self.are_states_due = true;
        for result in std::mem::take(&mut self.results) {
            self.push(result);
        }
    }

    /// Adds a result. If states are due, it replaces an older one of its service.
    pub fn push(&mut self, result: PassiveResult) {
        if self.are_states_due {
            self.results.retain(|other| !is_same_service(other, &result));
        }
        if self.results.len() >= MAX_RESULTS {
            self.results.pop_front();
            self.are_states_due = true;
        }
        self.results.push_back(result);
    }

    /// Takes back results that could not be delivered. All states are due then.
    pub fn restore(&mut self, results: Vec<PassiveResult>) {
        for result in results.into_iter().rev() {
            self.results.push_front(result);
        }
        self.request_states();
    }

    /// Takes what is to be delivered next; `None` if nothing waits.
    pub fn take_work(&mut self) -> Option<PassiveWork> {
        if std::mem::take(&mut self.are_states_due) {
            return Some(PassiveWork::States);
        }
        let (mut batch, mut services) = (Vec::new(), BTreeSet::new());
        while batch.len() < MAX_BATCH_RESULTS
            && let Some(result) = self.results.pop_front()
        {
            // Two results of a service could overtake each other.
            if !services.insert((result.host.clone(), result.service.clone())) {
                self.results.push_front(result);
                break;
            }
            batch.push(result);
        }
        (!batch.is_empty()).then_some(PassiveWork::Results(batch))
    }
}

fn is_same_service(one: &PassiveResult, other: &PassiveResult) -> bool {
    (&one.host, &one.service) == (&other.host, &other.service)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use muster_contract::nrpe::CheckState;
    use proptest::prelude::*;

    use super::{MAX_BATCH_RESULTS, MAX_RESULTS, PassiveQueue, PassiveWork};
    use crate::check::passive::PassiveResult;

    fn result(host: usize, time: u64) -> PassiveResult {
        PassiveResult {
            time,
            host: format!("n{host}"),
            service: "x".to_owned(),
            state: CheckState::Ok,
            output: String::new(),
            perfdata: String::new(),
            long_output: String::new(),
        }
    }

    fn take_results(queue: &mut PassiveQueue) -> Vec<(String, u64)> {
        match queue.take_work() {
            Some(PassiveWork::Results(results)) => {
                results.into_iter().map(|result| (result.host, result.time)).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn states_come_first_and_then_the_newest_result_of_each_service() {
        let mut queue = PassiveQueue::default();
        assert_eq!(queue.take_work(), None);
        for time in 1..=3 {
            queue.push(result(1, time));
        }
        queue.push(result(2, 4));
        assert_eq!(take_results(&mut queue), [("n1".to_owned(), 1)]);
        queue.request_states();
        queue.push(result(1, 5));
        assert_eq!(queue.take_work(), Some(PassiveWork::States));
        assert_eq!(take_results(&mut queue), [("n2".to_owned(), 4), ("n1".to_owned(), 5)]);
        assert_eq!(queue.take_work(), None);
    }

    #[test]
    fn failed_results_are_delivered_after_the_states_unless_there_are_newer_ones() {
        let mut queue = PassiveQueue::default();
        queue.push(result(1, 1));
        queue.push(result(2, 1));
        let Some(PassiveWork::Results(failed)) = queue.take_work() else { panic!() };
        queue.push(result(1, 2));
        queue.restore(failed);
        assert_eq!(queue.take_work(), Some(PassiveWork::States));
        assert_eq!(take_results(&mut queue), [("n2".to_owned(), 1), ("n1".to_owned(), 2)]);
    }

    #[test]
    fn queue_is_bounded_and_states_make_up_for_what_is_left_out() {
        let mut queue = PassiveQueue::default();
        for time in 0..u64::try_from(MAX_RESULTS).unwrap() {
            queue.push(result(0, time));
        }
        assert!(!queue.are_states_due);
        queue.push(result(1, 0));
        assert!(queue.are_states_due && queue.results.len() == MAX_RESULTS);
    }

    proptest! {
        #[test]
        fn results_of_a_service_keep_their_order_and_the_last_one_is_delivered(
            steps in prop::collection::vec((0_usize..8, 0_usize..6), 1..300)
        ) {
            let (mut queue, mut pushed, mut delivered) = (PassiveQueue::default(), BTreeMap::new(), BTreeMap::new());
            let mut deliver = |work: PassiveWork, pushed: &BTreeMap<String, u64>| {
                match work {
                    // States are at least as new as all results so far.
                    PassiveWork::States => delivered.extend(pushed.clone()),
                    PassiveWork::Results(results) => {
                        prop_assert!(results.len() <= MAX_BATCH_RESULTS);
                        let services: BTreeSet<_> = results.iter().map(|one| &one.host).collect();
                        prop_assert_eq!(services.len(), results.len());
                        delivered.extend(results.into_iter().map(|one| (one.host, one.time)));
                    }
                }
                Ok(())
            };
            for (time, (host, step)) in (0_u64..).zip(steps) {
                match step {
                    0 => queue.request_states(),
                    1 => {
                        if let Some(work) = queue.take_work() {
                            deliver(work, &pushed)?;
                        }
                    }
                    2 => {
                        if let Some(PassiveWork::Results(failed)) = queue.take_work() {
                            queue.restore(failed);
                        } else {
                            queue.request_states();
                        }
                    }
                    _ => {
                        pushed.insert(format!("n{host}"), time);
                        queue.push(result(host, time));
                    }
                }
            }
            while let Some(work) = queue.take_work() {
                deliver(work, &pushed)?;
            }
            prop_assert_eq!(delivered, pushed);
        }
    }
}
