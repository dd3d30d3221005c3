//! `rpc again`: shows, cancels and permits runs of Puppet that were asked for by a run.

pub mod args;
pub mod output;

use muster_contract::again::{
    AgainAgent, AgainCancel, AgainCancelInput, AgainHistory, AgainHistoryInput, AgainList,
    AgainReset, AgainResetInput,
};
use muster_ddl::{Action, EmptyInput};

use crate::commands::again::args::{
    AgainCancelArgs, AgainCommand, AgainHistoryArgs, AgainListArgs, AgainResetArgs,
};
use crate::commands::again::output::{
    AgainHistoryDocument, AgainListDocument, read_history, read_list, render_history, render_list,
};
use crate::flags::filters::QueryArgs;
use crate::request::inquiry::query_nodes;
use crate::request::send::send_action;
use crate::session::context::{CommandContext, CommandResult};
use crate::session::errors::AllNodesError;

pub async fn run(command: AgainCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        AgainCommand::List(args) => list(args, cx).await,
        AgainCommand::History(args) => history(args, cx).await,
        AgainCommand::Cancel(AgainCancelArgs { all, group, query }) => {
            let input = AgainCancelInput { group, noop: None };
            change::<AgainCancel>(&input, all, query, cx).await
        }
        AgainCommand::Reset(AgainResetArgs { all, query }) => {
            change::<AgainReset>(&AgainResetInput { noop: None }, all, query, cx).await
        }
    }
}

async fn list(args: AgainListArgs, cx: CommandContext<'_>) -> CommandResult {
    let result = query_nodes::<AgainList>(&args.query, &EmptyInput {}, cx).await?;
    let nodes = read_list(&result.report, args.all);
    result.print_answered("muster.again.v1", AgainListDocument { nodes: &nodes }, || {
        if nodes.is_empty() {
            cx.printer.print_message("no further run of Puppet was asked for");
        }
        Ok(cx.printer.print_text(render_list(&nodes, cx.table_width()))?)
    })
}

async fn history(args: AgainHistoryArgs, cx: CommandContext<'_>) -> CommandResult {
    let input = AgainHistoryInput { count: Some(args.count) };
    let result = query_nodes::<AgainHistory>(&args.query, &input, cx).await?;
    let entries = read_history(&result.report);
    let content = AgainHistoryDocument { entries: &entries };
    result.print_answered("muster.again.history.v1", content, || {
        if entries.is_empty() {
            cx.printer.print_message("no further run of Puppet was asked for yet");
        }
        Ok(cx.printer.print_text(render_history(&entries, cx.table_width()))?)
    })
}

async fn change<A: Action<Agent = AgainAgent>>(
    input: &A::Input,
    all: bool,
    query: QueryArgs,
    cx: CommandContext<'_>,
) -> CommandResult {
    if !all && !cx.read_target(&query.filters)?.is_filtered() {
        let command = format!("rpc again {}", A::NAME);
        return Err(AllNodesError { command, effect: "changes" }.into());
    }
    // `--all` is the confirmation, and a filter names what is meant.
    send_action::<A>(input, true, query, cx).await
}
