//! The states of a check on all nodes. Pure.

use std::time::Duration;

use muster_client::{NodeReply, RequestReport};
use muster_contract::nrpe::{CheckState, RunCommandOutput};
use muster_wire::identity::Identity;
use serde::{Deserialize, Serialize};

/// The result of a check on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCheckResult {
    /// The node.
    pub node: Identity,
    /// The state.
    pub state: CheckState,
    /// The first line of the check's output, or the reason why there is none.
    pub output: String,
    /// The other lines.
    pub long_output: String,
    /// The performance data.
    pub perfdata: String,
    /// Whether the node replied.
    pub replied: bool,
}

/// The results of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckReport {
    /// The name of the check.
    pub command: String,
    /// The results, by node.
    pub results: Vec<NodeCheckResult>,
    /// Time for discovery and replies.
    pub took: Duration,
}

/// The results of a check, or why there are none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckOutcome {
    /// The results.
    Report(CheckReport),
    /// The nodes could not be asked, for this reason.
    Failed(String),
}

impl CheckReport {
    /// The results of a request. A node that did not reply, or replied without a state, is unknown.
    pub fn from_request(command: &str, report: &RequestReport, took: Duration) -> Self {
        let stats = &report.stats;
        let mut results: Vec<_> = report.replies.iter().map(NodeCheckResult::from).collect();
        let silent = stats.missing.iter().chain(&stats.not_asked).chain(&stats.not_awaited);
        results.extend(silent.map(|node| {
            NodeCheckResult {
                node: node.clone(),
                state: CheckState::Unknown,
                output: if stats.not_connected.contains(node) {
                    "not connected"
                } else {
                    "no reply"
                }
                .to_owned(),
                long_output: String::new(),
                perfdata: String::new(),
                replied: false,
            }
        }));
        results.sort_by(|a, b| a.node.cmp(&b.node));
        Self { command: command.to_owned(), results, took }
    }

    /// Number of nodes in this state.
    pub fn count(&self, state: CheckState) -> usize {
        self.results.iter().filter(|result| result.state == state).count()
    }

    /// Number of nodes that replied.
    pub fn reply_count(&self) -> usize {
        self.results.iter().filter(|result| result.replied).count()
    }
}

impl From<&NodeReply> for NodeCheckResult {
    fn from(reply: &NodeReply) -> Self {
        let outputs: RunCommandOutput = reply.typed_outputs();
        let has_state = reply.data.get("exitcode").is_some_and(serde_json::Value::is_number);
        let state = if has_state {
            CheckState::from_exit_code(outputs.exitcode)
        } else {
            CheckState::Unknown
        };
        let output = match (outputs.output.is_empty(), has_state || !reply.is_ok()) {
            (false, _) => outputs.output,
            (true, true) => reply.message.raw().to_owned(),
            (true, false) => "the reply has no exit code".to_owned(),
        };
        Self {
            node: reply.node.clone(),
            state,
            output,
            long_output: outputs.long_output,
            perfdata: outputs.perfdata,
            replied: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use muster_contract::nrpe::CheckState;
    use muster_wire::status::ReplyStatus;
    use serde_json::{Value, json};

    use super::CheckReport;
    use muster_client::{NodeReply, RequestReport, RequestStats};

    fn reply(node: &str, status: ReplyStatus, message: &str, data: &Value) -> NodeReply {
        NodeReply {
            node: node.parse().unwrap(),
            status,
            message: message.to_owned().into(),
            reason: None,
            data: data.as_object().unwrap().clone(),
            took: 1,
            trace: None,
        }
    }

    #[test]
    fn every_node_has_a_state_and_a_text() {
        let (ok, failed) = (ReplyStatus::Ok, ReplyStatus::Failed);
        let report = RequestReport {
            replies: vec![
                reply("f", ok, "OK", &json!({"exitcode": 0, "output": "fine", "perfdata": "a=1"})),
                reply("e", failed, "WARNING", &json!({"exitcode": 1, "output": "hm"})),
                reply("d", failed, "CRITICAL", &json!({"exitcode": 2, "output": ""})),
                reply("c", ReplyStatus::Other, "denied", &json!({})),
                reply("b", ok, "OK", &json!({"exitcode": "0"})),
                reply("a", failed, "x", &json!({"exitcode": 255, "output": "odd"})),
            ],
            stats: RequestStats {
                missing: BTreeSet::from(["g".parse().unwrap(), "h".parse().unwrap()]),
                not_connected: BTreeSet::from(["h".parse().unwrap()]),
                ..RequestStats::default()
            },
            ..RequestReport::default()
        };
        let check = CheckReport::from_request("check_x", &report, Duration::ZERO);
        let rows: Vec<_> = check
            .results
            .iter()
            .map(|row| (row.node.as_str(), row.state, row.output.as_str(), row.replied))
            .collect();
        let unknown = CheckState::Unknown;
        assert_eq!(
            rows,
            [
                ("a", unknown, "odd", true),
                ("b", unknown, "the reply has no exit code", true),
                ("c", unknown, "denied", true),
                ("d", CheckState::Critical, "CRITICAL", true),
                ("e", CheckState::Warning, "hm", true),
                ("f", CheckState::Ok, "fine", true),
                ("g", unknown, "no reply", false),
                ("h", unknown, "not connected", false),
            ]
        );
        assert_eq!((check.count(unknown), check.reply_count()), (5, 6));
    }
}
