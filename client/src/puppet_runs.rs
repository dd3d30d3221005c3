//! The result of a Puppet rollout: the common source of text, documents and exit codes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_base::NodeText;
use muster_calls::RolloutStopReason;
use muster_calls::runs::{ConcurrencyStats, PermitInterval, RunOutcome, measure_concurrency};
use muster_wire::Millis;
use muster_wire::identity::Identity;

use crate::jobs::RequestOutcome;
use uuid::Uuid;

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
    pub disabled: BTreeMap<Identity, NodeText>,
    /// Target nodes that never received a request.
    pub not_asked: BTreeSet<Identity>,
    /// Maximum concurrent runs, if limited.
    pub limit: Option<usize>,
    /// Why the rollout stopped early, if it did.
    pub halt: Option<RolloutStopReason>,
    /// Number of replies that failed verification, by reason code.
    pub rejected: BTreeMap<&'static str, usize>,
    /// Nodes whose replies say that another daemon with their name and key runs.
    pub cloned: BTreeSet<Identity>,
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
        classes.into_iter().map(|((_, class), nodes)| (class, nodes)).collect()
    }

    /// Number of successful runs.
    pub fn ok_count(&self) -> usize {
        self.ended.values().filter(|ended| ended.outcome.ok).count()
    }

    /// Number of unsuccessful runs.
    pub fn unsuccessful_count(&self) -> usize {
        self.ended.len() - self.ok_count()
    }

    /// Concurrency by the nodes' own times, of all runs that began, including earlier parts of the job. The maximum also includes runs that others
    /// started, as far as the nodes saw them in the pool.
    pub fn concurrency_stats(&self) -> Option<ConcurrencyStats> {
        let outcomes = || self.ended.values().map(|ended| &ended.outcome);
        let spans: Vec<PermitInterval> =
            outcomes().filter_map(|outcome| outcome.permit_interval).collect();
        let seen = outcomes().filter_map(|outcome| outcome.pool_highest).max();
        let stats = measure_concurrency(&spans)?;
        Some(ConcurrencyStats { highest: stats.highest.max(seen.unwrap_or_default()), ..stats })
    }

    /// Number of nodes whose times were converted to the local clock.
    pub fn skewed_clock_count(&self) -> usize {
        self.ended.values().filter(|ended| ended.outcome.is_skewed()).count()
    }

    /// How the runs ended. Without a run on every node, not all have succeeded: that includes nodes that were skipped because Puppet is disabled.
    pub fn outcome(&self) -> RequestOutcome {
        let is_partial =
            !self.not_asked.is_empty() || !self.disabled.is_empty() || self.halt.is_some();
        if self.ended.is_empty() && !is_partial {
            RequestOutcome::NoNodes
        } else if is_partial {
            RequestOutcome::SomeFailed
        } else if !self.ended.values().any(|ended| ended.outcome.is_heard()) {
            RequestOutcome::NoReplies
        } else if self.unsuccessful_count() > 0 {
            RequestOutcome::SomeFailed
        } else {
            RequestOutcome::Succeeded
        }
    }

    /// Why no node is left to run on: the number of nodes for each reason, the most frequent first.
    pub fn idle_reasons(&self) -> Vec<(usize, String)> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        if !self.disabled.is_empty() {
            counts.insert("Puppet is disabled".to_owned(), self.disabled.len());
        }
        for EndedRun { outcome, .. } in self.ended.values() {
            *counts
                .entry(format!("{}: {}", outcome.class, outcome.message.block()))
                .or_default() += 1;
        }
        let mut reasons: Vec<(usize, String)> =
            counts.into_iter().map(|(reason, count)| (count, reason)).collect();
        reasons.sort_by(|(one, a), (other, b)| other.cmp(one).then_with(|| a.cmp(b)));
        reasons
    }
}

#[cfg(test)]
mod tests {
    use muster_calls::RolloutStopReason;
    use muster_calls::runs::RunOutcome;

    use crate::jobs::RequestOutcome;
    use crate::testing::{ran, runs};

    #[test]
    fn outcome_is_success_only_if_all_runs_succeeded() {
        let unheard = || RunOutcome::without_reply("no_answer", "silent");
        let good = || vec![("a", ran("clean", 0, 1)), ("b", ran("changed", 1, 3))];
        assert_eq!(runs(good()).outcome(), RequestOutcome::Succeeded);
        assert_eq!(runs(vec![]).outcome(), RequestOutcome::NoNodes);
        for bad in [ran("failed", 0, 1), ran("failed+changed", 0, 1), unheard()] {
            let mut all = good();
            all.push(("c", bad));
            assert_eq!(runs(all).outcome(), RequestOutcome::SomeFailed);
        }
        assert_eq!(
            runs(vec![("a", unheard()), ("b", unheard())]).outcome(),
            RequestOutcome::NoReplies
        );
        let mut left = runs(good());
        left.not_asked.insert("c".parse().unwrap());
        assert_eq!(left.outcome(), RequestOutcome::SomeFailed);
        let mut stopped = runs(good());
        stopped.halt = Some(RolloutStopReason::Interrupted);
        assert_eq!(stopped.outcome(), RequestOutcome::SomeFailed);
        let mut disabled = runs(good());
        disabled.disabled.insert("d".parse().unwrap(), "moving".into());
        assert_eq!(disabled.outcome(), RequestOutcome::SomeFailed);
        disabled.ended.clear();
        assert_eq!(disabled.outcome(), RequestOutcome::SomeFailed);
    }

    #[test]
    fn reasons_without_a_run_are_counted() {
        let mut runs = runs(vec![
            ("a", RunOutcome::without_reply("no_answer", "silent")),
            ("b", RunOutcome::without_reply("no_answer", "silent")),
            ("c", RunOutcome::without_reply("not_connected", "gone")),
        ]);
        runs.disabled.insert("d".parse().unwrap(), "moving".into());
        let reasons = runs.idle_reasons();
        let reasons: Vec<_> = reasons.iter().map(|(count, why)| (*count, why.as_str())).collect();
        assert_eq!(
            reasons,
            [(2, "no_answer: silent"), (1, "Puppet is disabled"), (1, "not_connected: gone")]
        );
    }

    #[test]
    fn highest_concurrency_includes_runs_that_others_started() {
        let mut one = ran("clean", 0, 1);
        one.pool_highest = Some(3);
        assert_eq!(runs(vec![("a", one)]).concurrency_stats().unwrap().highest, 3);
    }

    #[test]
    fn successful_runs_are_listed_first() {
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
