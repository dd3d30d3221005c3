//! What runs of Puppet came to: one value, from which text and JSON are both drawn, and the exit code follows. Draws nothing.

pub mod board;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_client::runs::{Halt, Outcome, Proof, Span, prove};
use muster_wire::Millis;
use muster_wire::identity::Identity;
use uuid::Uuid;

use crate::exit::Exit;

/// How one node's run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// The identity of the run.
    pub run: Uuid,
    /// How.
    pub outcome: Outcome,
    /// Whether it was known before this command began: it is kept in the job that goes on.
    pub earlier: bool,
}

/// The whole outcome.
#[derive(Debug, Clone, Default)]
pub struct Runs {
    /// The runs that ended, and the nodes that were given up.
    pub ended: BTreeMap<Identity, Ended>,
    /// Nodes that were not asked because Puppet is disabled there, and the messages that say why.
    pub disabled: BTreeMap<Identity, String>,
    /// Nodes that were meant and never asked.
    pub not_asked: BTreeSet<Identity>,
    /// How many may run at once, if it is limited.
    pub limit: Option<usize>,
    /// Why not everybody was asked, if so.
    pub halt: Option<Halt>,
    /// How many answers were not believed, by the word of the refusal.
    pub disbelieved: BTreeMap<&'static str, usize>,
    /// The requests' ids.
    pub requests: Vec<String>,
    /// When it began, by our clock.
    pub started: Millis,
    /// How long all of it took, here.
    pub took: Duration,
    /// The job that it is kept as.
    pub job: Option<String>,
}

impl Runs {
    /// Nodes by how their runs ended: first what is good, then what is bad, each by name.
    pub fn classes(&self) -> Vec<(&str, BTreeSet<&Identity>)> {
        let mut classes: BTreeMap<(bool, &str), BTreeSet<&Identity>> = BTreeMap::new();
        for (node, ended) in &self.ended {
            let Outcome { ok, class, .. } = &ended.outcome;
            classes.entry((!ok, class)).or_default().insert(node);
        }
        let classes = classes.into_iter();
        classes.map(|((_, class), nodes)| (class, nodes)).collect()
    }

    /// How many succeeded.
    pub fn ok(&self) -> usize {
        let ok = |ended: &&Ended| ended.outcome.ok;
        self.ended.values().filter(ok).count()
    }

    /// How many did not.
    pub fn bad(&self) -> usize {
        self.ended.len() - self.ok()
    }

    /// What the nodes' own times say of all runs that began, those of an earlier part of the job among them.
    pub fn proof(&self) -> Option<Proof> {
        let outcomes = self.ended.values().map(|ended| &ended.outcome);
        let spans: Vec<Span> = outcomes.filter_map(Outcome::span).collect();
        prove(&spans)
    }

    /// How many nodes' clocks had to be set right for that.
    pub fn skewed(&self) -> usize {
        let skewed = |ended: &&Ended| ended.outcome.is_skewed();
        self.ended.values().filter(skewed).count()
    }

    /// How the command ends. A node that was left out because Puppet is disabled there was not to run, and is no failure.
    pub fn exit(&self) -> Exit {
        let heard = |ended: &Ended| ended.outcome.is_heard();
        if self.ended.is_empty() && self.not_asked.is_empty() {
            Exit::Local
        } else if !self.not_asked.is_empty() || self.halt.is_some() {
            Exit::SomeFailed
        } else if !self.ended.values().any(heard) {
            Exit::NoneAnswered
        } else if self.bad() > 0 {
            Exit::SomeFailed
        } else {
            Exit::Passed
        }
    }
}

#[cfg(test)]
pub(crate) mod fixtures {
    //! Runs to draw.

    use std::time::Duration;

    use muster_client::runs::Outcome;
    use muster_wire::status::Status;
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::{Ended, Runs};

    pub(crate) fn outcome(code: u8, data: Value) -> Outcome {
        let data = serde_json::from_value(data).unwrap();
        Outcome::told(Status::try_from(code).unwrap(), None, "as it was", data)
    }

    /// A run from one second to another that had to wait half a second.
    pub(crate) fn ran(class: &str, from: u64, to: u64) -> Outcome {
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

    pub(crate) fn ended(outcome: Outcome) -> Ended {
        Ended {
            run: Uuid::nil(),
            outcome,
            earlier: false,
        }
    }

    pub(crate) fn runs(outcomes: Vec<(&str, Outcome)>) -> Runs {
        let ended = outcomes
            .into_iter()
            .map(|(node, outcome)| (node.parse().unwrap(), ended(outcome)));
        Runs {
            ended: ended.collect(),
            limit: Some(2),
            started: 1_767_225_600_017,
            took: Duration::from_millis(61_500),
            job: Some("20260101-000000-0045ab".to_owned()),
            ..Runs::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_client::runs::{Halt, Outcome};

    use super::fixtures::{ran, runs};
    use crate::exit::Exit;

    #[test]
    fn only_runs_that_all_succeeded_pass() {
        let unheard = || Outcome::unheard("no_answer", "silent");
        let good = || vec![("a", ran("clean", 0, 1)), ("b", ran("changed", 1, 3))];
        assert_eq!(runs(good()).exit(), Exit::Passed);
        assert_eq!(runs(vec![]).exit(), Exit::Local);
        for bad in [ran("failed", 0, 1), ran("failed+changed", 0, 1), unheard()] {
            let mut all = good();
            all.push(("c", bad));
            assert_eq!(runs(all).exit(), Exit::SomeFailed);
        }
        assert_eq!(
            runs(vec![("a", unheard()), ("b", unheard())]).exit(),
            Exit::NoneAnswered
        );
        let mut left = runs(good());
        left.not_asked.insert("c".parse().unwrap());
        assert_eq!(left.exit(), Exit::SomeFailed);
        let mut stopped = runs(good());
        stopped.halt = Some(Halt::Interrupted);
        assert_eq!(stopped.exit(), Exit::SomeFailed);
        let mut disabled = runs(good());
        disabled
            .disabled
            .insert("d".parse().unwrap(), "moving".to_owned());
        assert_eq!(disabled.exit(), Exit::Passed);
    }

    #[test]
    fn what_is_good_is_told_first() {
        let runs = runs(vec![
            ("a", ran("failed", 0, 1)),
            ("b", ran("clean", 0, 1)),
            ("c", ran("changed", 0, 1)),
            ("d", ran("clean", 0, 1)),
            ("e", Outcome::unheard("no_answer", "silent")),
        ]);
        let classes: Vec<(&str, usize)> = runs
            .classes()
            .into_iter()
            .map(|(class, nodes)| (class, nodes.len()))
            .collect();
        assert_eq!(
            classes,
            [
                ("changed", 1),
                ("clean", 2),
                ("failed", 1),
                ("no_answer", 1)
            ]
        );
        let proof = runs.proof().unwrap();
        assert_eq!((proof.runs, proof.highest), (4, 4));
    }
}
