//! `rpc permit`: shows the pools of run permits and their holders, and releases permits.

pub mod args;
pub mod output;

use muster_calls::{CountOrPercent, choose_nodes};
use muster_client::RequestReport;
use muster_contract::permit::{
    PermitAgent, PermitList, PermitListInput, PermitPoolRow, PermitRelease, PermitReleaseInput,
    PoolMemberRow,
};
use muster_ddl::{Action as _, AgentContract as _};

use crate::commands::permit::args::{PermitCommand, PermitReleaseArgs};
use crate::commands::permit::output::{
    PermitPoolsDocument, read_pools, release_question, render_pool_list, render_pools,
};
use crate::flags::filters::{ConditionArgs, FilterArgs, QueryArgs};
use crate::report::documents::ReportDocument;
use crate::report::progress::ProgressReporter;
use crate::request::inquiry::ask_node;
use crate::request::send::send_action;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};
use crate::session::form::JsonForm;
use crate::session::terminal::{PromptError, ask_confirmation, is_terminal};

/// Most nodes that are asked one after the other until one returns the pools. All nodes see the same pools.
const MAX_NODES_TRIED: usize = 3;

pub async fn run(command: PermitCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        PermitCommand::List(args) => {
            let pool = args.pool.as_deref();
            let (_, exit) = show_pools(pool, &args.query, render_pool_list, cx).await?;
            Ok(exit)
        }
        PermitCommand::Show(args) => {
            let pool = Some(args.pool.as_str());
            let (pools, exit) = show_pools(pool, &args.query, render_pools, cx).await?;
            // A pool exists while a node holds a permit of it or waits for one.
            let found = CommandExitCode::from_found(pools > 0);
            Ok(if exit == CommandExitCode::Passed { found } else { exit })
        }
        PermitCommand::Release(args) => release_permits(args, cx).await,
    }
}

/// Returns the number of pools in use, too.
async fn show_pools(
    pool: Option<&str>,
    query: &QueryArgs,
    render: fn(&[PermitPoolRow], usize) -> String,
    cx: CommandContext<'_>,
) -> Result<(usize, CommandExitCode)> {
    let json: Option<JsonForm> = query.json.form()?;
    let report = query_pools(pool, &query.filters, json.is_none(), cx).await?;
    let (pools, exit) = (read_pools(&report), report.stats.outcome().into());
    let is_used = |pool: &&PermitPoolRow| !pool.holders.is_empty() || !pool.waiting.is_empty();
    let in_use = pools.iter().filter(is_used).count();
    if let Some(json) = json {
        let content = PermitPoolsDocument { pools: &pools };
        cx.print_json(&ReportDocument::new("muster.permits.v1", content, &report), &json)?;
    } else if exit == CommandExitCode::Passed {
        if in_use == 0 {
            let of = pool.map(|pool| format!(" of the pool `{pool}`"));
            let of = of.unwrap_or_default();
            cx.printer.print_message(format_args!("no node holds a permit{of} or waits for one"));
        }
        cx.printer.print_text(render(&pools, cx.table_width()))?;
    }
    cx.warn_of_gaps(&report);
    Ok((in_use, exit))
}

/// Asks one node, and the next one if that fails.
async fn query_pools(
    pool: Option<&str>,
    filters: &FilterArgs,
    show_progress: bool,
    cx: CommandContext<'_>,
) -> Result<RequestReport> {
    let target = cx.read_target(filters)?.with_agent(PermitAgent::NAME)?;
    let schemas = cx.load_configured_schemas()?;
    let input = PermitListInput { pool: pool.map(str::to_owned) };
    let plan = schemas.plan::<PermitList>(&input)?;
    let fleet = cx.connect(&target).await?;
    let progress = ProgressReporter::new(cx.printer, show_progress);
    let found = fleet.locate(&target, &progress).await?;
    let mut report = RequestReport::empty(PermitAgent::NAME, PermitList::NAME);
    if found.nodes.is_empty() {
        cx.report_no_nodes(&target);
    }
    for node in choose_nodes(&found.nodes, CountOrPercent::Count(MAX_NODES_TRIED), None) {
        report = ask_node(&fleet, &plan, &node, &progress).await?;
        if report.stats.ok > 0 {
            break;
        }
    }
    for reply in report.failures() {
        let reason = reply.message.line();
        cx.printer.print_error(format_args!("{}: {reason}", reply.node));
    }
    Ok(report)
}

/// Releases permits after asking whether the runs that hold them shall be stopped.
async fn release_permits(args: PermitReleaseArgs, cx: CommandContext<'_>) -> CommandResult {
    let PermitReleaseArgs { pool, nodes, yes, json } = args;
    if !yes {
        let report = query_pools(Some(&pool), &FilterArgs::default(), false, cx).await?;
        let pools = read_pools(&report);
        let holders = pools.iter().flat_map(|pool| &pool.holders);
        let is_named =
            |holder: &&PoolMemberRow| nodes.iter().any(|node| holder.node == node.as_str());
        let live: Vec<_> = holders.filter(is_named).collect();
        if !live.is_empty() && !is_terminal() {
            let nodes = live.iter().map(|holder| holder.node.line().into_owned()).collect();
            return Err(PromptError::LiveHolders { pool, nodes }.into());
        }
        let question = release_question(&pool, &live);
        if !live.is_empty() && !ask_confirmation(&question, cx.printer).await? {
            return Err(PromptError::Declined.into());
        }
    }
    let conditions = ConditionArgs { identities: nodes, ..ConditionArgs::default() };
    let query = QueryArgs { json, filters: FilterArgs { conditions, ..FilterArgs::default() } };
    let input = PermitReleaseInput { pool, run: None, noop: None };
    send_action::<PermitRelease>(&input, true, query, cx).await
}
