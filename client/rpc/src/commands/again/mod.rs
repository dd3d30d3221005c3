//! `rpc again`: shows, cancels and permits runs of Puppet that were asked for by a run.

pub mod args;
pub mod output;

use muster_contract::again::{AgainAgent, AgainCancel, AgainHistory, AgainList, AgainReset};
use muster_ddl::{Action as _, AgentContract as _};

use crate::commands::again::args::{
    AgainCancelArgs, AgainCommand, AgainHistoryArgs, AgainListArgs, AgainResetArgs,
};
use crate::commands::again::output::{
    AgainHistoryDocument, AgainListDocument, read_history, read_list, render_history, render_list,
};
use crate::flags::filters::QueryArgs;
use crate::outcome::error::CommandError;
use crate::report::documents::ReportDocument;
use crate::request::inquiry::query_nodes;
use crate::request::send::send_words;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};

/// A change on all nodes must be asked for.
#[derive(Debug, thiserror::Error)]
#[error("`rpc again {action}` without a filter changes all nodes")]
struct AllNodesError {
    action: &'static str,
}

impl CommandError for AllNodesError {
    fn hints(&self) -> Vec<String> {
        vec![format!(
            "name nodes with a filter such as -C CLASS, or add --all to `rpc again {}`",
            self.action
        )]
    }

    fn exit_code(&self) -> CommandExitCode {
        CommandExitCode::Usage
    }
}

pub async fn run(command: AgainCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        AgainCommand::List(args) => list(args, cx).await,
        AgainCommand::History(args) => history(args, cx).await,
        AgainCommand::Cancel(AgainCancelArgs { all, group, query }) => {
            let mut words = vec![AgainCancel::NAME.to_owned()];
            words.extend(group.map(|group| format!("group={group}")));
            change(AgainCancel::NAME, words, (all, query), cx).await
        }
        AgainCommand::Reset(AgainResetArgs { all, query }) => {
            change(AgainReset::NAME, vec![AgainReset::NAME.to_owned()], (all, query), cx).await
        }
    }
}

async fn list(args: AgainListArgs, cx: CommandContext<'_>) -> CommandResult {
    let result = query_nodes::<AgainList>(&args.query, &[], cx).await?;
    let nodes = read_list(&result.report, args.all);
    let document =
        ReportDocument::new("muster.again.v1", AgainListDocument { nodes: &nodes }, &result.report);
    result.print_answered(&document, || {
        if nodes.is_empty() {
            cx.printer.print_message("no further run of Puppet was asked for");
        }
        Ok(cx.printer.print_text(render_list(&nodes, cx.table_width()))?)
    })
}

async fn history(args: AgainHistoryArgs, cx: CommandContext<'_>) -> CommandResult {
    let count = args.count.to_string();
    let inputs = [("count", count.as_str())];
    let result = query_nodes::<AgainHistory>(&args.query, &inputs, cx).await?;
    let entries = read_history(&result.report);
    let content = AgainHistoryDocument { entries: &entries };
    let document = ReportDocument::new("muster.again.history.v1", content, &result.report);
    result.print_answered(&document, || {
        if entries.is_empty() {
            cx.printer.print_message("no further run of Puppet was asked for yet");
        }
        Ok(cx.printer.print_text(render_history(&entries, cx.table_width()))?)
    })
}

async fn change(
    action: &'static str,
    words: Vec<String>,
    (all, query): (bool, QueryArgs),
    cx: CommandContext<'_>,
) -> CommandResult {
    check_is_meant(action, all, &query, cx)?;
    // `--all` is the confirmation, and a filter names what is meant.
    send_words(AgainAgent::NAME, words, true, query, cx).await
}

fn check_is_meant(
    action: &'static str,
    all: bool,
    query: &QueryArgs,
    cx: CommandContext<'_>,
) -> Result<()> {
    let is_meant = all || cx.read_target(&query.filters)?.is_filtered();
    if is_meant { Ok(()) } else { Err(AllNodesError { action }.into()) }
}
