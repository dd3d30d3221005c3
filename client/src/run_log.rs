//! Builds the log lines of a Puppet rollout from the states that nodes report, in the wording of `mco puppet runall`. A fold without waiting or
//! printing.
//!
//! Messages of different nodes are not ordered: the start of a run may arrive before the end of the run whose permit it took. So a start beyond the
//! limit is delayed until an end arrives, for at most 2 s.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use muster_contract::puppet::PuppetRunState;
use muster_wire::identity::Identity;

use crate::puppet_runs::EndedRun;

/// Maximum delay of a start.
const MAX_DELAY: Duration = Duration::from_secs(2);

/// A log line.
#[derive(Debug, Clone, PartialEq)]
pub enum RunLogLine {
    /// A node's run has begun; the number of concurrent runs includes it.
    Running(Identity, usize),
    /// The run was started, or the reason why it was not.
    Scheduled(Identity, String),
    /// The maximum number of runs is reached, and other nodes wait.
    Waiting(usize),
    /// A node's run has ended.
    Ended(Identity, Box<EndedRun>),
}

/// Running nodes, from the messages so far.
#[derive(Debug, Default)]
pub(crate) struct RunLogTracker {
    limit: Option<usize>,
    running: BTreeSet<Identity>,
    /// Delayed starts.
    delayed: Vec<(Identity, Instant)>,
    /// Lines that are not taken yet.
    lines: Vec<RunLogLine>,
}

impl RunLogTracker {
    /// Creates a tracker without runs.
    pub(crate) fn new(limit: Option<usize>) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Takes the lines since the last call.
    pub(crate) fn take_lines(&mut self) -> Vec<RunLogLine> {
        std::mem::take(&mut self.lines)
    }

    /// Handles the state of a node's run; `open` is the number of runs that have not ended, including waiting ones.
    pub(crate) fn handle_state(&mut self, node: &Identity, state: PuppetRunState, open: usize) {
        if !state.is_running() || self.running.contains(node) || self.is_delayed(node) {
            return;
        }
        if self.is_full() {
            self.delayed.push((node.clone(), Instant::now()));
        } else {
            self.begin_run(node.clone(), open);
        }
    }

    /// Handles the end of a node's run.
    pub(crate) fn handle_end(&mut self, node: &Identity, ended: &EndedRun, open: usize) {
        let outcome = &ended.outcome;
        let was_delayed = self.is_delayed(node);
        self.delayed.retain(|(delayed, _)| delayed != node);
        if !self.running.contains(node) {
            if was_delayed || (outcome.permit_interval.is_some() && !outcome.attached) {
                // The message about its start was lost, or is still delayed.
                self.begin_run(node.clone(), 0);
            } else if outcome.permit_interval.is_none() {
                self.lines.push(RunLogLine::Scheduled(node.clone(), outcome.class.clone()));
            }
        }
        self.running.remove(node);
        self.lines.push(RunLogLine::Ended(node.clone(), Box::new(ended.clone())));
        self.release_delayed(Duration::ZERO, open);
    }

    /// Begins the runs whose maximum delay is over.
    pub(crate) fn release_due(&mut self, open: usize) {
        self.release_delayed(MAX_DELAY, open);
    }

    /// Begins the runs that fit the limit, and those delayed for longer than `max_delay`.
    fn release_delayed(&mut self, max_delay: Duration, open: usize) {
        while let Some((_, since)) = self.delayed.first() {
            let is_late = max_delay > Duration::ZERO && since.elapsed() >= max_delay;
            if self.is_full() && !is_late {
                break;
            }
            let (node, _) = self.delayed.remove(0);
            self.begin_run(node, open);
        }
    }

    fn begin_run(&mut self, node: Identity, open: usize) {
        self.running.insert(node.clone());
        let count = self.running.len();
        self.lines.push(RunLogLine::Running(node.clone(), count));
        self.lines.push(RunLogLine::Scheduled(node, "OK".to_owned()));
        if open > count && self.is_full() {
            self.lines.push(RunLogLine::Waiting(count));
        }
    }

    fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.running.len() >= limit)
    }

    fn is_delayed(&self, node: &Identity) -> bool {
        self.delayed.iter().any(|(delayed, _)| delayed == node)
    }
}

#[cfg(test)]
mod tests {
    use muster_calls::runs::RunOutcome;
    use muster_contract::puppet::PuppetRunState;

    use super::{RunLogLine, RunLogTracker};
    use crate::testing::{ended, outcome, ran};

    fn told(log: &mut RunLogTracker) -> Vec<String> {
        let told = |line| match line {
            RunLogLine::Running(node, count) => format!("{node} runs, {count}"),
            RunLogLine::Scheduled(node, status) => format!("{node} {status}"),
            RunLogLine::Waiting(count) => format!("{count} wait"),
            RunLogLine::Ended(node, run) => format!("{node} ended {}", run.outcome.class),
        };
        log.take_lines().into_iter().map(told).collect()
    }

    #[test]
    fn running_count_never_exceeds_the_limit_in_the_log() {
        let mut board = RunLogTracker::new(Some(2));
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| name.parse().unwrap());
        board.handle_state(&a, PuppetRunState::WaitingPermit, 4);
        assert!(told(&mut board).is_empty());
        board.handle_state(&a, PuppetRunState::Starting, 4);
        assert_eq!(told(&mut board), ["a runs, 1", "a OK"]);
        board.handle_state(&a, PuppetRunState::Applying, 4);
        assert!(told(&mut board).is_empty());
        board.handle_state(&b, PuppetRunState::Starting, 4);
        assert_eq!(told(&mut board), ["b runs, 2", "b OK", "2 wait"]);
        // It has the permit of a run that has ended, but whose end event has not arrived yet.
        board.handle_state(&c, PuppetRunState::Starting, 4);
        assert!(told(&mut board).is_empty());
        board.handle_end(&a, &ended(ran("clean", 0, 1)), 3);
        assert_eq!(told(&mut board), ["a ended clean", "c runs, 2", "c OK", "2 wait"]);
        board.release_due(3);
        assert!(told(&mut board).is_empty());
        // The first event of this run is its end.
        board.handle_end(&d, &ended(ran("failed", 0, 1)), 2);
        assert_eq!(told(&mut board), ["d runs, 3", "d OK", "d ended failed"]);
    }

    #[test]
    fn nodes_without_a_run_are_logged_with_the_reason() {
        let mut board = RunLogTracker::new(None);
        let [a, b] = ["a", "b"].map(|name| name.parse().unwrap());
        let disabled = outcome(1, serde_json::json!({"class": "disabled"}));
        board.handle_end(&a, &ended(disabled), 1);
        assert_eq!(told(&mut board), ["a disabled", "a ended disabled"]);
        let mut earlier = ran("changed", 0, 1);
        earlier.attached = true;
        board.handle_end(&b, &ended(earlier), 1);
        assert_eq!(told(&mut board), ["b ended changed"]);
        let silent = RunOutcome::without_reply("no_answer", "silent");
        board.handle_end(&b, &ended(silent), 1);
        assert_eq!(told(&mut board), ["b no_answer", "b ended no_answer"]);
    }
}
