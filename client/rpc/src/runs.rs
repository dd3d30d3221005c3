//! The result of a Puppet rollout: the common source of text output, JSON output and exit code. Renders nothing.

pub mod run_log;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_client::RolloutStopReason;
use muster_client::runs::{ConcurrencyStats, PermitInterval, RunOutcome, measure_concurrency};
use muster_wire::Millis;
use muster_wire::identity::Identity;
use uuid::Uuid;

use crate::exit::CommandExitCode;

/// The end of one node's run.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedRun {
    /// The run id.
    pub run: Uuid,
    /// The outcome.
    pub outcome: RunOutcome,
    /// Whether the run ended before this command, in an earlier part of the resumed job.
    pub earlier: bool,
}

/// The complete result.
#[derive(Debug, Clone, Default)]
pub struct PuppetRunsReport {
    /// Runs that have ended, and nodes that were given up.
    pub ended: BTreeMap<Identity, EndedRun>,
    /// Nodes that were skipped because Puppet is disabled there, with the disable messages.
    pub disabled: BTreeMap<Identity, String>,
    /// Target nodes that never received a request.
    pub not_asked: BTreeSet<Identity>,
    /// Maximum concurrent runs, if limited.
    pub limit: Option<usize>,
    /// Why the rollout stopped early, if it did.
    pub halt: Option<RolloutStopReason>,
    /// Number of replies that failed verification, by reason code.
    pub rejected: BTreeMap<&'static str, usize>,
    /// The requests' ids.
    pub requests: Vec<String>,
    /// Start time, by the local clock.
    pub started: Millis,
    /// Duration of the rollout, by the local clock.
    pub took: Duration,
    /// Id of the job in which it is saved.
    pub job: Option<String>,
}

impl PuppetRunsReport {
    /// Nodes by outcome class: successful classes first, then failures, each by name.
    pub fn nodes_by_class(&self) -> Vec<(&str, BTreeSet<&Identity>)> {
        let mut classes: BTreeMap<(bool, &str), BTreeSet<&Identity>> = BTreeMap::new();
        for (node, ended) in &self.ended {
            let RunOutcome { ok, class, .. } = &ended.outcome;
            classes.entry((!ok, class)).or_default().insert(node);
        }
        let classes = classes.into_iter();
        classes.map(|((_, class), nodes)| (class, nodes)).collect()
    }

    /// Number of successful runs.
    pub fn ok_count(&self) -> usize {
        let ok = |ended: &&EndedRun| ended.outcome.ok;
        self.ended.values().filter(ok).count()
    }

    /// Number of unsuccessful runs.
    pub fn unsuccessful_count(&self) -> usize {
        self.ended.len() - self.ok_count()
    }

    /// Concurrency by the nodes' own times, of all runs that began, including earlier parts of the job.
    pub fn concurrency_stats(&self) -> Option<ConcurrencyStats> {
        let outcomes = self.ended.values().map(|ended| &ended.outcome);
        let spans = outcomes.filter_map(|outcome| outcome.permit_interval);
        let spans: Vec<PermitInterval> = spans.collect();
        measure_concurrency(&spans)
    }

    /// Number of nodes whose times were converted to the local clock.
    pub fn skewed_clock_count(&self) -> usize {
        let skewed = |ended: &&EndedRun| ended.outcome.is_skewed();
        self.ended.values().filter(skewed).count()
    }

    /// The exit code. A node that was skipped because Puppet is disabled is not a failure.
    pub fn exit_code(&self) -> CommandExitCode {
        let has_reply = |ended: &EndedRun| ended.outcome.is_heard();
        if self.ended.is_empty() && self.not_asked.is_empty() {
            CommandExitCode::Local
        } else if !self.not_asked.is_empty() || self.halt.is_some() {
            CommandExitCode::SomeFailed
        } else if !self.ended.values().any(has_reply) {
            CommandExitCode::NoneAnswered
        } else if self.unsuccessful_count() > 0 {
            CommandExitCode::SomeFailed
        } else {
            CommandExitCode::Passed
        }
    }
}

#[cfg(test)]
pub(crate) mod fixtures {
    //! Runs to draw.

    use std::time::Duration;

    use muster_client::runs::RunOutcome;
    use muster_wire::status::ReplyStatus;
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::{EndedRun, PuppetRunsReport};

    pub(crate) fn outcome(code: u8, data: Value) -> RunOutcome {
        let data = serde_json::from_value(data).unwrap();
        RunOutcome::from_saved_reply(ReplyStatus::try_from(code).unwrap(), None, "as it was", data)
    }

    /// A run from one second to another that had to wait half a second.
    pub(crate) fn ran(class: &str, from: u64, to: u64) -> RunOutcome {
        let ok = matches!(class, "clean" | "changed");
        let changed = u64::from(class.contains("changed")) * 3;
        let failed = u64::from(class.contains("failed"));
        let started = 1_767_225_600_000 + from * 1000;
        let ended = 1_767_225_600_000 + to * 1000;
        outcome(
            u8::from(!ok),
            json!({"class": class, "summary": format!("{changed} of 61 resources changed"), "error": (!ok).then_some("one resource failed"),
                   "changed": changed, "failed": failed, "total": 61, "started_at": started, "finished_at": ended, "duration": to - from,
                   "waited_lock": 0.0, "waited_permit": 0.5, "attached": false}),
        )
    }

    pub(crate) fn ended(outcome: RunOutcome) -> EndedRun {
        EndedRun { run: Uuid::nil(), outcome, earlier: false }
    }

    pub(crate) fn runs(outcomes: Vec<(&str, RunOutcome)>) -> PuppetRunsReport {
        let ended =
            outcomes.into_iter().map(|(node, outcome)| (node.parse().unwrap(), ended(outcome)));
        PuppetRunsReport {
            ended: ended.collect(),
            limit: Some(2),
            started: 1_767_225_600_017,
            took: Duration::from_millis(61_500),
            job: Some("20260101-000000-0045ab".to_owned()),
            ..PuppetRunsReport::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_client::RolloutStopReason;
    use muster_client::runs::RunOutcome;

    use super::fixtures::{ran, runs};
    use crate::exit::CommandExitCode;

    #[test]
    fn only_runs_that_all_succeeded_pass() {
        let unheard = || RunOutcome::without_reply("no_answer", "silent");
        let good = || vec![("a", ran("clean", 0, 1)), ("b", ran("changed", 1, 3))];
        assert_eq!(runs(good()).exit_code(), CommandExitCode::Passed);
        assert_eq!(runs(vec![]).exit_code(), CommandExitCode::Local);
        for bad in [ran("failed", 0, 1), ran("failed+changed", 0, 1), unheard()] {
            let mut all = good();
            all.push(("c", bad));
            assert_eq!(runs(all).exit_code(), CommandExitCode::SomeFailed);
        }
        assert_eq!(
            runs(vec![("a", unheard()), ("b", unheard())]).exit_code(),
            CommandExitCode::NoneAnswered
        );
        let mut left = runs(good());
        left.not_asked.insert("c".parse().unwrap());
        assert_eq!(left.exit_code(), CommandExitCode::SomeFailed);
        let mut stopped = runs(good());
        stopped.halt = Some(RolloutStopReason::Interrupted);
        assert_eq!(stopped.exit_code(), CommandExitCode::SomeFailed);
        let mut disabled = runs(good());
        disabled.disabled.insert("d".parse().unwrap(), "moving".to_owned());
        assert_eq!(disabled.exit_code(), CommandExitCode::Passed);
    }

    #[test]
    fn what_is_good_is_told_first() {
        let runs = runs(vec![
            ("a", ran("failed", 0, 1)),
            ("b", ran("clean", 0, 1)),
            ("c", ran("changed", 0, 1)),
            ("d", ran("clean", 0, 1)),
            ("e", RunOutcome::without_reply("no_answer", "silent")),
        ]);
        let classes: Vec<(&str, usize)> =
            runs.nodes_by_class().into_iter().map(|(class, nodes)| (class, nodes.len())).collect();
        assert_eq!(classes, [("changed", 1), ("clean", 2), ("failed", 1), ("no_answer", 1)]);
        let proof = runs.concurrency_stats().unwrap();
        assert_eq!((proof.runs, proof.highest), (4, 4));
    }
}
