//! `rpc config`: deploys files to the daemons of nodes, reverts deployments, and shows them.

pub mod args;
pub mod output;

use std::path::Path;

use muster_client::BatchPace;
use muster_contract::config::{
    ConfigAgent, ConfigDeploy, ConfigRevert, ConfigStatus, ConfigUpgrade,
};
use muster_ddl::EmptyInput;
use muster_ddl::{Action as _, AgentContract as _};
use muster_operations::NodeResults;
use muster_operations::deploy::{
    DeployChange, DeployDirectory, DeployDirectoryError, DeployRequest, NodeDeployResult,
    deploy_config,
};
use muster_policy::{GROUPS_FILE_NAME, PolicySet, PolicySource, RuleVerdict};

use crate::commands::config::args::{ConfigChangeArgs, ConfigCommand, ConfigDeployArgs};
use crate::commands::config::output::{
    ConfigStatusDocument, DeployView, read_states, render_states,
};
use crate::flags::filters::QueryArgs;
use crate::report::progress::ProgressReporter;
use crate::report::rollout_preview::RolloutPreview;
use crate::request::chosen_nodes::find_chosen_nodes;
use crate::request::inquiry::query_nodes;
use crate::session::context::{CommandContext, CommandError, CommandExitCode, CommandResult};
use crate::session::errors::AllNodesError;

/// The directory of policies in a deployment.
const POLICIES_DIRECTORY: &str = "policies/";

impl CommandError for DeployDirectoryError {}

/// A policy of the directory has an error: every node would refuse it.
#[derive(Debug, thiserror::Error)]
#[error("{0}; nothing was sent")]
struct BrokenPolicyError(String);

impl CommandError for BrokenPolicyError {
    fn hints(&self) -> Vec<String> {
        vec!["run `rpc policy check DIR/policies` to list all errors and warnings".to_owned()]
    }
}

pub async fn run(command: ConfigCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        ConfigCommand::Deploy(args) => deploy(*args, cx).await,
        ConfigCommand::Revert(args) => {
            if !args.all && !cx.read_target(&args.change.filters)?.is_filtered() {
                let command = "rpc config revert".to_owned();
                return Err(AllNodesError { command, effect: "changes" }.into());
            }
            change_nodes(DeployChange::Revert, "the last deployment", &args.change, cx).await
        }
        ConfigCommand::Status(args) => show_states(*args, cx).await,
    }
}

async fn deploy(args: ConfigDeployArgs, cx: CommandContext<'_>) -> CommandResult {
    let directory = DeployDirectory::read(&args.directory)?;
    check_policies(&args.directory, &directory)?;
    let what = args.directory.display().to_string();
    let change = DeployChange::Deploy { directory: &directory, noop: args.noop };
    change_nodes(change, &what, &args.change, cx).await
}

/// Finds typing errors before anything is sent. Each node checks the policies together with its own.
fn check_policies(path: &Path, directory: &DeployDirectory) -> Result<(), BrokenPolicyError> {
    let is_policy = |name: &str| name.starts_with(POLICIES_DIRECTORY);
    let policies = directory.files.iter().filter(|(name, _)| is_policy(name));
    let source = |(name, text): (&String, &String)| PolicySource {
        path: path.join(name),
        text: Ok(text.clone()),
    };
    let is_groups = |source: &PolicySource| {
        source.path.file_name().is_some_and(|name| name == GROUPS_FILE_NAME)
    };
    let (groups, policies): (Vec<_>, Vec<_>) = policies.map(source).partition(is_groups);
    let (_, problems) = PolicySet::new(policies, groups.into_iter().next(), RuleVerdict::Deny);
    match problems.first() {
        Some(problem) => Err(BrokenPolicyError(problem.to_string())),
        None => Ok(()),
    }
}

pub async fn change_nodes(
    change: DeployChange<'_>,
    what: &str,
    args: &ConfigChangeArgs,
    cx: CommandContext<'_>,
) -> CommandResult {
    let json = args.json.form()?;
    let target = cx.read_target(&args.filters)?.with_agent(ConfigAgent::NAME)?;
    let progress = ProgressReporter::new(cx.printer, json.is_none());
    let (fleet, found) = find_chosen_nodes(&target, &args.pace, &progress, cx).await?;
    let (limits, pause) = (args.pace.batches.limits(), args.pace.pause());
    let (action, is_noop) = match change {
        DeployChange::Deploy { noop, .. } => (ConfigDeploy::NAME, noop),
        DeployChange::Upgrade { noop, .. } => (ConfigUpgrade::NAME, noop),
        DeployChange::Revert => (ConfigRevert::NAME, false),
    };
    let name = format!("{action} {what}");
    let request = (ConfigAgent::NAME, name.as_str());
    let preview = RolloutPreview { request, nodes: &found.nodes, limits, pause };
    let conditions = (is_noop, found.nodes.len(), args.yes);
    cx.confirm_request(conditions, || preview.render_text()).await?;
    let pace = BatchPace { limits, pause };
    let request = DeployRequest { change, confirm: args.confirm(), pace };
    let report = deploy_config(&fleet, &request, found, &progress).await?;
    let view = DeployView { report: &report, confirm: args.confirm() };
    if let Some(form) = &json {
        cx.print_json(&view.document(), form)?;
    } else if report.results.nodes.is_empty() {
        cx.report_no_nodes(&target);
    } else {
        cx.printer.print_text(view.render_nodes())?;
        cx.printer.print_message(view.render_totals());
        print_next_steps(&report.results, cx);
    }
    Ok(CommandExitCode::from(report.results.outcome()))
}

fn print_next_steps(report: &NodeResults<NodeDeployResult>, cx: CommandContext<'_>) {
    let has = |name: &str| report.nodes.values().any(|result| result.outcome.as_str() == name);
    if has("unconfirmed") || has("no_reply") {
        cx.printer
            .print_hint("run `rpc config status` to see which files and programs these nodes have");
    }
    if report.stop.is_some() && has("confirmed") {
        cx.printer.print_hint("run `rpc config revert` to undo the change on the nodes that have it, or run the command again: these nodes stay as they are");
    }
}

async fn show_states(args: QueryArgs, cx: CommandContext<'_>) -> CommandResult {
    let result = query_nodes::<ConfigStatus>(&args, &EmptyInput {}, cx).await?;
    let states = read_states(&result.report);
    let content = ConfigStatusDocument { nodes: &states };
    result.print_answered("muster.config.status.v1", content, || {
        Ok(cx.printer.print_text(render_states(&states, cx.table_width()))?)
    })
}
