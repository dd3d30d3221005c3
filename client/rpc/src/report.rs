//! What a request came to: one value, from which text and JSON are both drawn, and the exit code follows.
//!
//! Sensitive outputs are redacted before they get here. Nothing here draws or prints.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_client::ConnectionDisturbance;
use muster_ddl::aggregate::OutputSummary;
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::trace::{StageTiming, TraceContext};
use serde_json::{Map, Value};

use crate::exit::CommandExitCode;

/// The whole outcome of one request.
#[derive(Debug, Clone)]
pub struct RequestReport {
    /// The agent that was asked.
    pub agent: String,
    /// Its action.
    pub action: String,
    /// The believed answers of nodes that were asked, in the order in which they came unless somebody sorts them.
    pub replies: Vec<NodeReply>,
    /// What the DDL wants summarised over the successful replies.
    pub summaries: Vec<OutputSummary>,
    /// Counts, names and times.
    pub stats: RequestStats,
}

impl RequestReport {
    /// Nobody was asked anything.
    pub fn empty(agent: &str, action: &str) -> Self {
        Self {
            agent: agent.to_owned(),
            action: action.to_owned(),
            replies: Vec::new(),
            summaries: Vec::new(),
            stats: RequestStats::default(),
        }
    }

    /// This and what another request of the same action came to, as if it were one; without summaries.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.replies.extend(other.replies);
        self.summaries.clear();
        self.stats.merge(other.stats);
        self
    }
}

/// One node's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeReply {
    /// Who answers.
    pub node: Identity,
    /// How it ended.
    pub status: ReplyStatus,
    /// The status in the node's words.
    pub message: String,
    /// What the status cannot say.
    pub reason: Option<ReplyReason>,
    /// The action's outputs.
    pub data: Map<String, Value>,
    /// How long the action ran on the node, in milliseconds.
    pub took: Millis,
    /// The way there and back, if it was followed.
    pub trace: Option<NodeTrace>,
}

/// The way of a request to one node and back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeTrace {
    /// The stages at the node, as it says.
    pub stages: Vec<StageTiming>,
    /// From the question to the verified answer.
    pub after: Duration,
    /// Verifying the answer; part of `after`.
    pub verifying: Duration,
}

impl NodeTrace {
    /// What is left for the way there and back, and for waiting at the broker.
    pub fn network_time(&self) -> Duration {
        let stages = self
            .stages
            .iter()
            .map(|stage| stage.us)
            .fold(0, u64::saturating_add);
        self.after
            .saturating_sub(self.verifying)
            .saturating_sub(Duration::from_micros(stages))
    }
}

impl NodeReply {
    /// Whether the action did what was asked.
    pub fn is_ok(&self) -> bool {
        self.status == ReplyStatus::Ok
    }
}

/// Counts, names and times of one request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestStats {
    /// The requests' ids, one for each batch; none when nothing was sent.
    pub requests: Vec<String>,
    /// How many nodes were meant.
    pub discovered: usize,
    /// Answers with status OK.
    pub ok: usize,
    /// Answers with another status.
    pub failed: usize,
    /// Nodes that were asked and did not answer.
    pub missing: BTreeSet<Identity>,
    /// Those of them that are not connected, as the broker says.
    pub not_connected: BTreeSet<Identity>,
    /// Nodes that were meant and not asked, because the rollout ended before.
    pub not_asked: BTreeSet<Identity>,
    /// Nodes that were asked and not waited for, because enough others had answered.
    pub not_awaited: BTreeSet<Identity>,
    /// How many answers were wanted, if not everybody's.
    pub wanted: Option<usize>,
    /// Nodes that answered without being asked, or twice.
    pub unexpected: BTreeSet<Identity>,
    /// How many answers were not believed, by the word of the refusal.
    pub disbelieved: BTreeMap<&'static str, usize>,
    /// Why all this may not be the whole truth; empty when it is.
    pub gaps: BTreeSet<ResultGap>,
    /// How long finding the nodes took; zero when they were named.
    pub discovering: Duration,
    /// How long writing and signing took; part of `publishing`.
    pub signing: Duration,
    /// How long sending took.
    pub publishing: Duration,
    /// From then to the last answer, or to the end of waiting.
    pub waiting: Duration,
    /// When it began.
    pub started: Millis,
    /// The trace that the request is part of.
    pub traceparent: Option<TraceContext>,
}

/// A reason why a result may not be the whole truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResultGap {
    /// The connection blinked while nodes were looked for, or the time was up while they still answered.
    Discovery,
    /// The connection blinked while answers were on their way.
    Reconnected,
    /// Answers came faster than they could be taken.
    SlowConsumer,
    /// The caller did not wait for the end.
    Interrupted,
    /// A later batch could not be sent.
    Broken,
}

impl ResultGap {
    /// A stable word, for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Discovery => "discovery",
            Self::Reconnected => "reconnected",
            Self::SlowConsumer => "slow_consumer",
            Self::Interrupted => "interrupted",
            Self::Broken => "broken",
        }
    }

    /// A sentence, for people.
    pub fn as_sentence(self) -> &'static str {
        match self {
            Self::Discovery => {
                "nodes still answered when looking for them ended, or answers were lost: there may be more than were asked; --discovery-timeout listens longer"
            }
            Self::Reconnected => {
                "the connection to the broker was lost for a moment: answers may be missing"
            }
            Self::SlowConsumer => {
                "answers came faster than they could be read, and some were dropped"
            }
            Self::Interrupted => "interrupted before all nodes had answered",
            Self::Broken => "a batch could not be sent to all of its nodes",
        }
    }
}

impl From<ConnectionDisturbance> for ResultGap {
    fn from(disturbance: ConnectionDisturbance) -> Self {
        match disturbance {
            ConnectionDisturbance::Reconnected => Self::Reconnected,
            ConnectionDisturbance::SlowConsumer => Self::SlowConsumer,
        }
    }
}

impl RequestStats {
    /// How many of those who were asked have answered.
    pub fn response_count(&self) -> usize {
        self.ok + self.failed
    }

    /// Adds those of a later request to other nodes.
    fn merge(&mut self, other: Self) {
        if self.requests.is_empty() {
            self.started = other.started;
        }
        self.requests.extend(other.requests);
        self.discovered += other.discovered;
        self.ok += other.ok;
        self.failed += other.failed;
        self.missing.extend(other.missing);
        self.not_connected.extend(other.not_connected);
        self.not_asked.extend(other.not_asked);
        self.not_awaited.extend(other.not_awaited);
        self.unexpected.extend(other.unexpected);
        for (word, count) in other.disbelieved {
            *self.disbelieved.entry(word).or_default() += count;
        }
        self.gaps.extend(other.gaps);
        self.discovering += other.discovering;
        self.signing += other.signing;
        self.publishing += other.publishing;
        self.waiting += other.waiting;
    }

    /// From sending to the last answer.
    pub fn call_duration(&self) -> Duration {
        self.publishing + self.waiting
    }

    /// The nodes that are connected, were asked, and did not answer.
    pub fn silent_nodes(&self) -> impl Iterator<Item = &Identity> {
        self.missing.difference(&self.not_connected)
    }

    /// How many of those who were asked failed or did not answer.
    pub fn unsuccessful_count(&self) -> usize {
        self.failed + self.missing.len()
    }

    /// Whether fewer have answered than were wanted.
    pub fn wants_more(&self) -> bool {
        self.wanted
            .is_some_and(|wanted| self.response_count() < wanted)
    }

    /// How the command ends. Silence of some nodes counts as their failure; of all nodes it has a code of its own,
    /// unless the caller did not wait for them or did not ask them all.
    pub fn exit_code(&self) -> CommandExitCode {
        if self.discovered == 0 {
            CommandExitCode::Local
        } else if self.gaps.contains(&ResultGap::Interrupted) || !self.not_asked.is_empty() {
            CommandExitCode::SomeFailed
        } else if self.response_count() == 0 {
            CommandExitCode::NoneAnswered
        } else if self.failed > 0 || !self.missing.is_empty() || self.wants_more() {
            CommandExitCode::SomeFailed
        } else {
            CommandExitCode::Passed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RequestStats, ResultGap};
    use crate::exit::CommandExitCode;

    fn stats(discovered: usize, ok: usize, failed: usize) -> RequestStats {
        let missing = (ok + failed..discovered)
            .map(|n| format!("n{n}").parse().unwrap())
            .collect();
        RequestStats {
            discovered,
            ok,
            failed,
            missing,
            ..RequestStats::default()
        }
    }

    #[test]
    fn exit_codes_follow_from_the_counts() {
        let table = [
            (stats(5, 5, 0), CommandExitCode::Passed),
            (stats(0, 0, 0), CommandExitCode::Local),
            (stats(5, 4, 1), CommandExitCode::SomeFailed),
            (stats(5, 0, 5), CommandExitCode::SomeFailed),
            (stats(5, 4, 0), CommandExitCode::SomeFailed),
            (stats(5, 0, 1), CommandExitCode::SomeFailed),
            (stats(5, 0, 0), CommandExitCode::NoneAnswered),
            (stats(1, 0, 0), CommandExitCode::NoneAnswered),
        ];
        for (stats, exit) in table {
            assert_eq!(stats.exit_code(), exit, "{stats:?}");
        }
    }

    #[test]
    fn requests_to_several_groups_of_nodes_count_as_one() {
        let mut joined = stats(3, 3, 0);
        joined.merge(stats(5, 3, 1));
        assert_eq!((joined.discovered, joined.ok, joined.failed), (8, 6, 1));
        assert_eq!(
            (joined.unsuccessful_count(), joined.exit_code()),
            (2, CommandExitCode::SomeFailed)
        );
    }

    #[test]
    fn whoever_does_not_wait_cannot_say_that_nobody_answered() {
        let mut stats = stats(5, 0, 0);
        stats.gaps.insert(ResultGap::Interrupted);
        assert_eq!(stats.exit_code(), CommandExitCode::SomeFailed);
    }

    #[test]
    fn a_rollout_that_ended_early_is_no_success() {
        let mut stats = stats(5, 0, 0);
        stats.not_asked = std::mem::take(&mut stats.missing);
        stats.missing = stats.not_asked.pop_first().into_iter().collect();
        assert_eq!(
            (stats.unsuccessful_count(), stats.exit_code()),
            (1, CommandExitCode::SomeFailed)
        );
    }

    #[test]
    fn enough_answers_are_a_success_and_too_few_are_none() {
        let mut enough = stats(5, 2, 0);
        enough.wanted = Some(2);
        enough.not_awaited = std::mem::take(&mut enough.missing);
        assert_eq!(enough.exit_code(), CommandExitCode::Passed);
        enough.wanted = Some(3);
        assert_eq!(enough.exit_code(), CommandExitCode::SomeFailed);
        let mut none = stats(5, 0, 0);
        none.wanted = Some(1);
        assert_eq!(none.exit_code(), CommandExitCode::NoneAnswered);
    }

    #[test]
    fn answers_that_nobody_asked_for_change_no_exit_code() {
        let mut stats = stats(2, 2, 0);
        stats.unexpected.insert("evil".parse().unwrap());
        stats.disbelieved.insert("signature", 3);
        assert_eq!(stats.exit_code(), CommandExitCode::Passed);
    }
}
