//! The result of a request: the common source of text, documents and exit codes.
//!
//! Sensitive outputs are already redacted. Nothing here renders or prints.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_calls::{ConnectionDisturbance, RolloutStopReason};
use muster_ddl::ActionSchema;
use muster_ddl::aggregate::{OutputSummary, ReplySummarizer};
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::trace::TraceContext;

use crate::jobs::RequestOutcome;
use crate::node_reply::NodeReply;

/// The complete result of one request.
#[derive(Debug, Clone, Default)]
pub struct RequestReport {
    /// The agent.
    pub agent: String,
    /// The action.
    pub action: String,
    /// Whether the request only reports what would change.
    pub noop: bool,
    /// The verified replies of target nodes, in order of arrival unless sorted later.
    pub replies: Vec<NodeReply>,
    /// The DDL's summaries over the successful replies.
    pub summaries: Vec<OutputSummary>,
    /// Counts, names and times.
    pub stats: RequestStats,
    /// The job that stores the request.
    pub job: Option<String>,
    /// Why the rollout ended before all nodes received the request.
    pub stop: Option<RolloutStopReason>,
}

impl RequestReport {
    /// A report without a request.
    pub fn empty(agent: &str, action: &str) -> Self {
        Self { agent: agent.to_owned(), action: action.to_owned(), ..Self::default() }
    }

    /// Computes the summaries that the action declares, after reports were merged.
    pub fn summarize(&mut self, action: &ActionSchema) {
        let mut summarizer = ReplySummarizer::for_request(action, self.noop);
        for reply in self.replies.iter().filter(|reply| reply.is_ok()) {
            summarizer.add_reply(&reply.data);
        }
        self.summaries = summarizer.to_summaries();
    }

    /// Whether the same request may succeed later on a node that failed or did not reply: an invalid or denied request fails again.
    pub fn may_succeed_later(&self) -> bool {
        let failed = self.replies.iter().filter(|reply| !reply.is_ok());
        let permanent = failed.filter(|reply| match &reply.reason {
            Some(reason) => {
                matches!(reason, ReplyReason::Denied { .. } | ReplyReason::Oversized { .. })
            }
            None => matches!(
                reply.status,
                ReplyStatus::UnknownAction | ReplyStatus::MissingData | ReplyStatus::InvalidData
            ),
        });
        self.stats.unsuccessful_count() > permanent.count()
    }

    /// Merges the report of another request of the same action; drops the summaries.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.replies.extend(other.replies);
        self.summaries.clear();
        self.stats.merge(other.stats);
        self.job = self.job.or(other.job);
        self.stop = self.stop.or(other.stop);
        self
    }
}

/// Counts, names and times of one request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestStats {
    /// The requests' ids, one per batch; empty when nothing was sent.
    pub requests: Vec<String>,
    /// Number of target nodes.
    pub discovered: usize,
    /// Replies with status OK.
    pub ok: usize,
    /// Replies with another status.
    pub failed: usize,
    /// Nodes that received the request and did not reply.
    pub missing: BTreeSet<Identity>,
    /// Those of them that the broker reports as not connected.
    pub not_connected: BTreeSet<Identity>,
    /// Target nodes that received no request because the rollout stopped.
    pub not_asked: BTreeSet<Identity>,
    /// Nodes whose replies were not awaited, because enough others had replied.
    pub not_awaited: BTreeSet<Identity>,
    /// Number of expected replies, if limited.
    pub expected_replies: Option<usize>,
    /// Nodes that replied without being a target, or twice.
    pub unexpected: BTreeSet<Identity>,
    /// Nodes whose replies say that another daemon with their name and key runs.
    pub cloned: BTreeSet<Identity>,
    /// Number of replies that failed verification, by reason code.
    pub rejected: BTreeMap<&'static str, usize>,
    /// Reasons why the result may be incomplete; empty if it is complete.
    pub gaps: BTreeSet<ResultGap>,
    /// Duration of the discovery; zero when nodes were named.
    pub discovering: Duration,
    /// Time to encode and sign; part of `publishing`.
    pub signing: Duration,
    /// Time to send the request.
    pub publishing: Duration,
    /// Time from then to the last reply, or the end of the wait.
    pub waiting: Duration,
    /// Start time.
    pub started: Millis,
    /// The trace context of the request.
    pub traceparent: Option<TraceContext>,
}

/// A reason why a result may be incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResultGap {
    /// The connection was interrupted during discovery, or discovery timed out while nodes still replied.
    Discovery,
    /// The connection was interrupted while replies were expected.
    Reconnected,
    /// Replies arrived faster than they could be processed.
    SlowConsumer,
    /// The caller interrupted the wait.
    Interrupted,
    /// A later batch could not be sent.
    Broken,
}

impl ResultGap {
    /// The stable name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Discovery => "discovery",
            Self::Reconnected => "reconnected",
            Self::SlowConsumer => "slow_consumer",
            Self::Interrupted => "interrupted",
            Self::Broken => "broken",
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
    /// Number of target nodes that replied.
    pub fn response_count(&self) -> usize {
        self.ok + self.failed
    }

    /// Adds the statistics of a later request to other nodes.
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
        self.cloned.extend(other.cloned);
        for (reason, count) in other.rejected {
            *self.rejected.entry(reason).or_default() += count;
        }
        self.gaps.extend(other.gaps);
        self.discovering += other.discovering;
        self.signing += other.signing;
        self.publishing += other.publishing;
        self.waiting += other.waiting;
    }

    /// Time from sending to the last reply.
    pub fn call_duration(&self) -> Duration {
        self.publishing + self.waiting
    }

    /// Connected nodes that received the request and did not reply.
    pub fn silent_nodes(&self) -> impl Iterator<Item = &Identity> {
        self.missing.difference(&self.not_connected)
    }

    /// Number of target nodes that failed or did not reply.
    pub fn unsuccessful_count(&self) -> usize {
        self.failed + self.missing.len()
    }

    /// Whether there are fewer replies than expected.
    pub fn wants_more(&self) -> bool {
        self.expected_replies.is_some_and(|expected| self.response_count() < expected)
    }

    /// How the request ended. Missing replies of some nodes count as failures; missing replies of all nodes have an outcome of their own, unless the
    /// wait was interrupted or some nodes received no request.
    pub fn outcome(&self) -> RequestOutcome {
        if self.discovered == 0 {
            RequestOutcome::NoNodes
        } else if self.gaps.contains(&ResultGap::Interrupted) || !self.not_asked.is_empty() {
            RequestOutcome::SomeFailed
        } else if self.response_count() == 0 {
            RequestOutcome::NoReplies
        } else if self.failed > 0 || !self.missing.is_empty() || self.wants_more() {
            RequestOutcome::SomeFailed
        } else {
            RequestOutcome::Succeeded
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RequestStats, ResultGap};
    use crate::jobs::RequestOutcome;

    fn stats(discovered: usize, ok: usize, failed: usize) -> RequestStats {
        let missing = (ok + failed..discovered).map(|n| format!("n{n}").parse().unwrap()).collect();
        RequestStats { discovered, ok, failed, missing, ..RequestStats::default() }
    }

    #[test]
    fn outcome_follows_from_the_counts() {
        let table = [
            (stats(5, 5, 0), RequestOutcome::Succeeded),
            (stats(0, 0, 0), RequestOutcome::NoNodes),
            (stats(5, 4, 1), RequestOutcome::SomeFailed),
            (stats(5, 0, 5), RequestOutcome::SomeFailed),
            (stats(5, 4, 0), RequestOutcome::SomeFailed),
            (stats(5, 0, 1), RequestOutcome::SomeFailed),
            (stats(5, 0, 0), RequestOutcome::NoReplies),
            (stats(1, 0, 0), RequestOutcome::NoReplies),
        ];
        for (stats, exit) in table {
            assert_eq!(stats.outcome(), exit, "{stats:?}");
        }
    }

    #[test]
    fn statistics_of_several_requests_are_merged() {
        let mut joined = stats(3, 3, 0);
        joined.merge(stats(5, 3, 1));
        assert_eq!((joined.discovered, joined.ok, joined.failed), (8, 6, 1));
        assert_eq!(
            (joined.unsuccessful_count(), joined.outcome()),
            (2, RequestOutcome::SomeFailed)
        );
    }

    #[test]
    fn interrupted_request_is_not_reported_as_no_replies() {
        let mut stats = stats(5, 0, 0);
        stats.gaps.insert(ResultGap::Interrupted);
        assert_eq!(stats.outcome(), RequestOutcome::SomeFailed);
    }

    #[test]
    fn stopped_rollout_is_not_successful() {
        let mut stats = stats(5, 0, 0);
        stats.not_asked = std::mem::take(&mut stats.missing);
        stats.missing = stats.not_asked.pop_first().into_iter().collect();
        assert_eq!((stats.unsuccessful_count(), stats.outcome()), (1, RequestOutcome::SomeFailed));
    }

    #[test]
    fn outcome_depends_on_the_expected_number_of_replies() {
        let mut enough = stats(5, 2, 0);
        enough.expected_replies = Some(2);
        enough.not_awaited = std::mem::take(&mut enough.missing);
        assert_eq!(enough.outcome(), RequestOutcome::Succeeded);
        enough.expected_replies = Some(3);
        assert_eq!(enough.outcome(), RequestOutcome::SomeFailed);
        let mut none = stats(5, 0, 0);
        none.expected_replies = Some(1);
        assert_eq!(none.outcome(), RequestOutcome::NoReplies);
    }

    #[test]
    fn unexpected_and_rejected_replies_do_not_change_the_outcome() {
        let mut stats = stats(2, 2, 0);
        stats.unexpected.insert("evil".parse().unwrap());
        stats.rejected.insert("signature", 3);
        assert_eq!(stats.outcome(), RequestOutcome::Succeeded);
    }
}
