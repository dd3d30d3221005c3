//! Asks for the sections of a node's page at the same time. Without a record there is no page; any other section can be missing.

use std::time::Duration;

use muster_base::{NodeText, error_chain, unix_millis_now};
use muster_calls::DirectoryError;
use muster_client::jobs::{JobHeader, JobStore, SavedJob, SavedJobError};
use muster_client::{
    AgentSchemas, FleetConnection, FleetRequestError, NodeReply, RequestReport, RpcSettings,
    is_record_authentic, show_registered,
};
use muster_contract::directory::{DirectoryNodeRow, DirectoryShowOutput};
use muster_contract::history::{
    HistoryQuery, HistoryQueryInput, HistoryQueryOutput, HistoryRuns, HistoryRunsInput,
    HistoryRunsOutput,
};
use muster_contract::nrpe::CHECKS_STATE_NAME;
use muster_contract::rpcutil::{
    AgentProblemRow, RpcutilDaemonStats, RpcutilInventory, RpcutilInventoryOutput,
};
use muster_ddl::EmptyInput;
use muster_filter::NodeFilter;
use muster_filter::state::NodeFacts;
use muster_operations::check::FleetCheckList;
use muster_wire::identity::Identity;
use muster_wire::node_record::ssh_host_keys;
use muster_wire::token::ServiceRight;
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::commands::node::NodeQuestion;
use crate::outcome::error::{CommandError, ResultWriteError};
use crate::report::progress::ProgressReporter;
use crate::request::inquiry::ask_node;
use crate::session::context::{CommandContext, CommandExitCode, Result};

/// Time for each section besides the record.
const SECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// The newest runs, rows of the history, and jobs that are shown.
const SHOWN_RUNS: u32 = 5;
const SHOWN_ROWS: u32 = 10;
const SHOWN_JOBS: usize = 5;

/// A section, or why it is missing.
pub type Section<T> = Result<T, String>;

/// All that was found out about a node.
#[derive(Debug)]
pub struct NodeSections {
    pub record: ShownRecord,
    pub checks: FleetCheckList,
    /// What the daemon says of itself.
    pub daemon: Section<Map<String, Value>>,
    pub runs: Section<HistoryRunsOutput>,
    pub history: Section<HistoryQueryOutput>,
    pub jobs: Section<Vec<SavedJob>>,
}

/// The record of a node, and what else its source says.
#[derive(Debug, Default)]
pub struct ShownRecord {
    pub output: DirectoryShowOutput,
    /// Whether the node signed it, if that was checked.
    pub verified: Option<bool>,
    /// What only the node itself says, if it was asked.
    pub live: Option<LiveDetails>,
    /// Why the directory was not able to answer.
    pub directory_problem: Option<String>,
}

/// What is in the reply of a node and in no record.
#[derive(Debug, Default)]
pub struct LiveDetails {
    pub data_sources: Vec<String>,
    pub agent_problems: Vec<AgentProblemRow>,
}

/// A node did not answer.
#[derive(Debug, thiserror::Error)]
pub enum NodeAnswerError {
    #[error("{0} is not connected")]
    NotConnected(Identity),
    #[error("{0} does not reply")]
    Silent(Identity),
    #[error("{node}: `rpcutil {action}` failed: {}", .message.line())]
    Failed { node: Identity, action: String, message: NodeText },
}

impl CommandError for NodeAnswerError {
    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::NotConnected(_) | Self::Silent(_) => CommandExitCode::NoneAnswered,
            Self::Failed { .. } => CommandExitCode::SomeFailed,
        }
    }
}

impl NodeSections {
    pub async fn ask(
        fleet: &FleetConnection,
        question: NodeQuestion<'_>,
        cx: CommandContext<'_>,
    ) -> Result<Self> {
        let settings = cx.load_settings()?;
        let schemas = AgentSchemas::load(Some(settings))?;
        let filter = filter_text(question.node)?;
        let runs = HistoryRunsInput {
            filter: Some(filter.clone()),
            limit: Some(SHOWN_RUNS),
            ..HistoryRunsInput::default()
        };
        // Questions, such as that of this command, are not shown.
        let rows = HistoryQueryInput {
            filter: Some(filter),
            changed: Some(true),
            limit: Some(SHOWN_ROWS),
            ..HistoryQueryInput::default()
        };
        let history = ServiceRight::History;
        let (record, daemon, runs, rows) = tokio::try_join!(
            find_record(fleet, &schemas, question, cx),
            within_time(ask_daemon(fleet, &schemas, question.node, cx)),
            within_time(fleet.client.call_service::<HistoryRuns>(history, &runs)),
            within_time(fleet.client.call_service::<HistoryQuery>(history, &rows)),
        )?;
        let checks = list_checks(&record.output);
        let jobs = list_jobs(question.node, settings, cx).map_err(|error| error_chain(&error));
        Ok(Self { record, checks, daemon, runs, history: rows, jobs })
    }
}

/// A filter that only this node matches.
fn filter_text(node: &Identity) -> Result<String> {
    let filter = NodeFilter::default().with_identity(node.as_str());
    let filter = filter.map_err(DirectoryError::Filter).map_err(FleetRequestError::from)?;
    Ok(serde_json::to_string(&filter).map_err(ResultWriteError::from)?)
}

/// The answer as a section. It is joined with the record, so its type can fail, too.
async fn within_time<T, E: std::error::Error>(
    answer: impl Future<Output = Result<T, E>>,
) -> Result<Section<T>> {
    Ok(match timeout(SECTION_TIMEOUT, answer).await {
        Ok(answer) => answer.map_err(|error| error_chain(&error)),
        Err(_) => Err(format!("no answer within {} s", SECTION_TIMEOUT.as_secs())),
    })
}

async fn find_record(
    fleet: &FleetConnection,
    schemas: &AgentSchemas,
    question: NodeQuestion<'_>,
    cx: CommandContext<'_>,
) -> Result<ShownRecord> {
    let NodeQuestion { node, live, verify } = question;
    if live {
        return ask_for_record(fleet, schemas, node, cx).await;
    }
    match show_registered(fleet, node.as_str(), verify).await {
        Ok(mut output) => {
            let record = output.record.take();
            let is_signed = |record: String| is_record_authentic(fleet, node, &record, &output);
            let verified = verify.then(|| record.is_some_and(is_signed));
            Ok(ShownRecord { output, verified, ..ShownRecord::default() })
        }
        Err(error) if error.is_directory_away() && !verify => {
            let problem = error_chain(&error);
            let record = ask_for_record(fleet, schemas, node, cx).await;
            let record = record.inspect_err(|_| cx.printer.print_warning(&problem))?;
            Ok(ShownRecord { directory_problem: Some(problem), ..record })
        }
        Err(error) => {
            cx.suggest_nodes([node]);
            Err(error.into())
        }
    }
}

/// The record in the node's own words.
async fn ask_for_record(
    fleet: &FleetConnection,
    schemas: &AgentSchemas,
    node: &Identity,
    cx: CommandContext<'_>,
) -> Result<ShownRecord> {
    let plan = schemas.plan::<RpcutilInventory>(&EmptyInput {})?;
    let report = ask_node(fleet, &plan, node, &ProgressReporter::new(cx.printer, false)).await?;
    cx.remember_inventories(&report);
    cx.suggest_nodes(&report.stats.not_connected);
    cx.warn_of_gaps(&report);
    Ok(live_record(node, read_reply(&report, node)?.typed_outputs()))
}

/// The reply of the node as a record of the directory. It has no versions of agents.
fn live_record(node: &Identity, inventory: RpcutilInventoryOutput) -> ShownRecord {
    let RpcutilInventoryOutput { agents, facts, classes, state, version, .. } = inventory;
    let (main, mut collectives) = (inventory.main_collective, inventory.collectives);
    collectives.sort_by_key(|name| Some(name) != main.as_ref());
    let state = state.unwrap_or_default();
    let known_state = NodeFacts::from_value(Value::Object(state.clone())).ok();
    let row = DirectoryNodeRow {
        node: node.to_string(),
        state: "present".to_owned(),
        seen: Some(0),
        last_seen: Some(unix_millis_now()),
        version,
        collectives,
        classes: classes.len(),
        ..DirectoryNodeRow::default()
    };
    let output = DirectoryShowOutput {
        node: row,
        classes: Some(classes),
        agents: agents.into_iter().map(|name| (name, String::new())).collect(),
        facts,
        ssh_host_keys: ssh_host_keys(known_state.as_ref()),
        state,
        ..DirectoryShowOutput::default()
    };
    let live = LiveDetails {
        data_sources: inventory.data_plugins,
        agent_problems: inventory.agent_problems,
    };
    ShownRecord { output, live: Some(live), ..ShownRecord::default() }
}

async fn ask_daemon(
    fleet: &FleetConnection,
    schemas: &AgentSchemas,
    node: &Identity,
    cx: CommandContext<'_>,
) -> Result<Map<String, Value>> {
    let plan = schemas.plan::<RpcutilDaemonStats>(&EmptyInput {})?;
    let report = ask_node(fleet, &plan, node, &ProgressReporter::new(cx.printer, false)).await?;
    Ok(read_reply(&report, node)?.data.clone())
}

/// The reply of the only node, if it is a success.
fn read_reply<'a>(
    report: &'a RequestReport,
    node: &Identity,
) -> Result<&'a NodeReply, NodeAnswerError> {
    let node = node.clone();
    match report.replies.first() {
        Some(reply) if reply.is_ok() => Ok(reply),
        Some(NodeReply { message, .. }) => {
            let (action, message) = (report.action.clone(), message.clone());
            Err(NodeAnswerError::Failed { node, action, message })
        }
        None if report.stats.not_connected.contains(&node) => {
            Err(NodeAnswerError::NotConnected(node))
        }
        None => Err(NodeAnswerError::Silent(node)),
    }
}

/// The scheduled checks in the state of the node.
fn list_checks(output: &DirectoryShowOutput) -> FleetCheckList {
    let mut row = output.node.clone();
    let checks = output.state.get(CHECKS_STATE_NAME).cloned();
    row.fields.extend(checks.map(|checks| (CHECKS_STATE_NAME.to_owned(), checks)));
    FleetCheckList::from_directory(&[row], CHECKS_STATE_NAME, output.freshness.current)
}

/// The newest jobs of this user that were sent to the node.
fn list_jobs(
    node: &Identity,
    settings: &RpcSettings,
    cx: CommandContext<'_>,
) -> Result<Vec<SavedJob>, SavedJobError> {
    let store = JobStore::new(cx.environment.state_home.as_deref())?;
    let fleet = settings.fleet_key();
    let account = |job: &JobHeader| job.fleet.as_ref().map(|fleet| fleet.account);
    let is_ours = |job: &JobHeader| account(job) == fleet && job.nodes.contains(node);
    let headers = store.recent_headers(usize::MAX)?.into_iter().filter(is_ours);
    headers.take(SHOWN_JOBS).map(|header| store.load_job(&header.id)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::testing::{reply, report};

    #[test]
    fn record_of_a_reply_has_the_parts_of_a_published_one() {
        let inventory = json!({
            "agents": ["nrpe", "rpcutil"], "facts": {"country": "de"}, "classes": ["apache"],
            "state": {"ssh": {"host_keys": ["ssh-ed25519 AAAA"]},
                      "checks": {"checks": {"load": {"state": "ok", "attempts": 3}}}},
            "version": "1.0.0", "main_collective": "muster", "collectives": ["eu", "muster"],
            "data_plugins": ["puppet"],
        });
        let report = report("rpcutil", "inventory", vec![reply("db1", 0, "OK", inventory)]);
        let node = "db1".parse().unwrap();
        let record = live_record(&node, read_reply(&report, &node).unwrap().typed_outputs());
        assert_eq!(record.output.node.collectives, ["muster", "eu"]);
        assert_eq!(record.output.ssh_host_keys, ["ssh-ed25519 AAAA"]);
        assert_eq!(record.output.classes, Some(vec!["apache".to_owned()]));
        assert_eq!(list_checks(&record.output).checks.len(), 1);
        assert_eq!(record.live.unwrap().data_sources, ["puppet"]);
    }

    #[test]
    fn node_without_an_answer_says_why() {
        let node = "db1".parse().unwrap();
        let mut answers =
            report("rpcutil", "inventory", vec![reply("db1", 5, "denied", json!({}))]);
        let failed = read_reply(&answers, &node).unwrap_err();
        assert_eq!(failed.to_string(), "db1: `rpcutil inventory` failed: denied");
        assert_eq!(failed.exit_code(), CommandExitCode::SomeFailed);
        answers.replies.clear();
        assert_eq!(read_reply(&answers, &node).unwrap_err().to_string(), "db1 does not reply");
        answers.stats.not_connected.insert(node.clone());
        let error = read_reply(&answers, &node).unwrap_err();
        assert_eq!(error.to_string(), "db1 is not connected");
        assert_eq!(error.exit_code(), CommandExitCode::NoneAnswered);
    }
}
