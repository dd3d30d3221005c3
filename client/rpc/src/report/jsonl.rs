//! Renders the events of a request as JSON lines, as they occur. The first line names the schema; `kind` identifies the type of a line. Readers must
//! ignore unknown kinds and fields.

use std::collections::BTreeSet;

use muster_calls::ProgressUpdate;
use muster_client::{NodeReply, RequestEvent, RequestReport};
use muster_ddl::aggregate;
use muster_wire::identity::Identity;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::report::documents::{RequestStatsDocument, RolloutStopDocument};

/// One line.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RequestJsonLine<'a> {
    /// The request and its target nodes: the first line.
    Discovered {
        /// The schema of all lines, and its version.
        schema: &'static str,
        /// The agent.
        agent: &'a str,
        /// The action.
        action: &'a str,
        /// The nodes.
        nodes: &'a BTreeSet<Identity>,
    },
    /// The request is stored as a job.
    Job {
        /// The job's id.
        id: &'a str,
    },
    /// A batch of a rollout is about to be sent.
    Wave {
        /// Number of the batch, from 1.
        number: usize,
        /// Number of batches.
        count: usize,
        /// The nodes in it.
        nodes: &'a BTreeSet<Identity>,
    },
    /// Progress of a node before its reply.
    Progress {
        /// The node.
        sender: &'a Identity,
        /// The event.
        event: &'a Value,
    },
    /// Progress of a node was lost.
    ProgressLost {
        /// The node.
        sender: &'a Identity,
        /// Number of messages that were lost in transit.
        messages: u64,
        /// Number of events that the node dropped, because they exceeded its send rate.
        events: u64,
    },
    /// A node's reply.
    Result(&'a NodeReply),
    /// The rollout ended before all nodes received the request.
    Stopped {
        /// Why.
        #[serde(flatten)]
        stop: RolloutStopDocument,
        /// The job, with which the rollout can be resumed.
        #[serde(skip_serializing_if = "Option::is_none")]
        job: Option<&'a str>,
    },
    /// Summaries of the replies.
    Summaries {
        /// Values and their counts, by output.
        summaries: Map<String, Value>,
    },
    /// Counts, names and times: the last line of a request that was sent.
    Stats {
        /// The statistics.
        request_stats: Box<RequestStatsDocument<'a>>,
    },
    /// Why the command failed: the last line, and often the only one.
    Error {
        /// The error message.
        error: String,
    },
}

impl<'a> RequestJsonLine<'a> {
    /// The first line.
    pub fn discovered(agent: &'a str, action: &'a str, nodes: &'a BTreeSet<Identity>) -> Self {
        Self::Discovered { schema: "muster.request.lines.v1", agent, action, nodes }
    }

    /// The lines of an event of the request that is recorded as this job; none if programs are not told of it.
    pub fn of_event(event: RequestEvent<'a>, job: Option<&'a str>) -> Vec<Self> {
        match event {
            RequestEvent::Reply(reply) => vec![Self::Result(reply)],
            RequestEvent::Progress(update) => Self::progress_lines(update).collect(),
            RequestEvent::BatchStarted { number, count, nodes, is_rollout: true } => {
                vec![Self::Wave { number, count, nodes }]
            }
            RequestEvent::Stopped { reason, .. } => {
                vec![Self::Stopped { stop: RolloutStopDocument::new(reason), job }]
            }
            _ => Vec::new(),
        }
    }

    fn progress_lines(update: &'a ProgressUpdate) -> impl Iterator<Item = Self> {
        let lost = (update.lost > 0 || update.dropped > 0).then_some(Self::ProgressLost {
            sender: &update.node,
            messages: update.lost,
            events: update.dropped,
        });
        let events =
            update.events.iter().map(|event| Self::Progress { sender: &update.node, event });
        lost.into_iter().chain(events)
    }

    /// The lines after the replies.
    pub fn closing_lines(report: &'a RequestReport) -> [Self; 2] {
        let summaries = aggregate::summaries_to_json(&report.summaries);
        let request_stats = Box::new(RequestStatsDocument::new(&report.stats));
        [Self::Summaries { summaries }, Self::Stats { request_stats }]
    }
}

#[cfg(test)]
mod tests {
    use muster_calls::{ProgressUpdate, RolloutStopReason};
    use muster_client::RequestEvent;
    use muster_display::json::to_safe_line;
    use serde_json::json;

    use super::RequestJsonLine;
    use crate::report::testing::{reply, report};

    #[test]
    fn renders_every_kind_of_line() {
        let answer = reply("dev1", 1, "no\n\u{1b}[2J", json!({"value": 1}));
        let report = report("rpcutil", "get_fact", vec![answer]);
        let nodes = ["dev1", "dev2"].map(|name| name.parse().unwrap()).into();
        let first = RequestJsonLine::discovered("rpcutil", "get_fact", &nodes);
        let error = RequestJsonLine::Error { error: "no".to_owned() };
        let [summaries, stats] = RequestJsonLine::closing_lines(&report);
        let tale = ProgressUpdate {
            node: "dev1".parse().unwrap(),
            events: vec![json!({"stream": "stdout", "line": "copied 3 of 7"})],
            lost: 1,
            dropped: 2,
        };
        let stop = RolloutStopReason::Failures { failed: 1, allowed: 0 };
        let mut lines = vec![first, RequestJsonLine::Job { id: "20260101-1" }];
        for event in [
            RequestEvent::BatchStarted { number: 1, count: 2, nodes: &nodes, is_rollout: true },
            RequestEvent::RepliesCounted(1),
            RequestEvent::Progress(&tale),
            RequestEvent::Reply(&report.replies[0]),
            RequestEvent::Stopped { reason: stop, in_flight: 0 },
        ] {
            lines.extend(RequestJsonLine::of_event(event, Some("20260101-1")));
        }
        lines.extend([summaries, stats, error]);
        let lines: Vec<String> = lines.iter().map(|one| to_safe_line(one).unwrap()).collect();
        assert!(!lines.concat().contains(char::is_control));
        insta::assert_snapshot!(lines.join("\n"));
    }
}
