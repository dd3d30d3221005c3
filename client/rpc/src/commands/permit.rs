//! `rpc permit`: shows the pools of run permits and their holders, and releases permits.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_client::{CountOrPercent, choose_nodes};
use muster_contract::permit::PermitPoolRow;
use muster_request::{DiscoveredNodes, FleetConnection, RequestReport};

use super::context::CommandContext;
use super::form::{self, JsonForm};
use super::request::report_no_nodes;
use super::{inquiry, request};
use crate::cli::approval::ApprovalArgs;
use crate::cli::filters::{ConditionArgs, FilterArgs};
use crate::cli::output::OutputArgs;
use crate::cli::permit::{PermitCommand, PermitListArgs, PermitReleaseArgs, PermitShowArgs};
use crate::cli::request::RequestArgs;
use crate::cli::request_flags::RequestFlags;
use crate::cli::rollout_flags::PaceArgs;
use crate::error::Error;
use crate::exit::CommandExitCode;
use crate::progress::ProgressReporter;
use crate::render::permit::{
    PermitPoolsDocument, read_pools, release_question, render_pool_list, render_pools,
};
use crate::terminal::{PromptError, ask_confirmation, is_terminal};

/// The agent of the request.
const PERMIT_AGENT: &str = "permit";
/// Most nodes that are asked one after the other until one returns the pools. All nodes see the same pools.
const MAX_NODES_TRIED: usize = 3;

/// Runs one of the commands.
pub async fn run(command: PermitCommand, cx: CommandContext<'_>) -> Result<CommandExitCode, Error> {
    match command {
        PermitCommand::List(PermitListArgs { pool, json, filters }) => {
            let json = form::parse_json_form(&json)?;
            let result = query_pools(pool.as_deref(), &filters, json.is_none(), cx).await?;
            result.print_pools(json.as_ref(), render_pool_list, cx)
        }
        PermitCommand::Show(PermitShowArgs { pool, json, filters }) => {
            let json = form::parse_json_form(&json)?;
            let result = query_pools(Some(&pool), &filters, json.is_none(), cx).await?;
            result.print_pools(json.as_ref(), render_pools, cx)
        }
        PermitCommand::Release(args) => release_permits(args, cx).await,
    }
}

/// The pools as returned by a node.
struct PoolQueryResult {
    report: RequestReport,
    pools: Vec<PermitPoolRow>,
}

/// Asks one node, and the next one if that fails.
async fn query_pools(
    pool: Option<&str>,
    filters: &FilterArgs,
    show_progress: bool,
    cx: CommandContext<'_>,
) -> Result<PoolQueryResult, Error> {
    let target = cx.read_target(filters)?.with_agent(PERMIT_AGENT)?;
    let settings = cx.load_settings()?;
    let schemas = cx.load_schemas(Some(&settings))?;
    let inputs = pool.map(|pool| ("pool".to_owned(), pool.to_owned()));
    let plan =
        inquiry::plan_action(&schemas, (PERMIT_AGENT, "list"), inputs.into_iter().collect())?;
    let fleet = FleetConnection::connect(&settings, &target).await?;
    let progress = ProgressReporter::new(cx.printer, show_progress);
    let found = fleet.discover_nodes(&target, &progress).await?;
    let mut report = RequestReport::empty(PERMIT_AGENT, "list");
    if found.nodes.is_empty() {
        report_no_nodes(&target, cx);
    }
    for node in choose_nodes(&found.nodes, CountOrPercent::Count(MAX_NODES_TRIED), None) {
        let target_node = DiscoveredNodes::from_names(BTreeSet::from([node]));
        report = inquiry::ask_nodes(&fleet, &plan, target_node, &progress).await?;
        if report.stats.ok > 0 {
            break;
        }
    }
    for reply in report.replies.iter().filter(|reply| !reply.is_ok()) {
        let (node, reason) =
            (&reply.node, crate::render::printable::escape_to_line(&reply.message));
        cx.printer.print_error(format_args!("{node}: {reason}"));
    }
    let pools = read_pools(&report);
    Ok(PoolQueryResult { report, pools })
}

impl PoolQueryResult {
    fn print_pools(
        &self,
        json: Option<&JsonForm>,
        render: fn(&[PermitPoolRow], usize) -> String,
        cx: CommandContext<'_>,
    ) -> Result<CommandExitCode, Error> {
        let exit = self.report.stats.outcome().into();
        if let Some(json) = json {
            cx.print_json(&PermitPoolsDocument::new(&self.pools, &self.report), json)?;
        } else if exit == CommandExitCode::Passed {
            if self.pools.is_empty() {
                cx.printer.print_message("no node holds a permit or waits for one");
            }
            cx.printer.print_text(render(&self.pools, cx.printer.screen().width))?;
        }
        cx.warn_of_gaps(&self.report);
        Ok(exit)
    }
}

/// Releases permits after asking whether the runs that hold them shall be stopped.
async fn release_permits(
    args: PermitReleaseArgs,
    cx: CommandContext<'_>,
) -> Result<CommandExitCode, Error> {
    let filters = FilterArgs {
        conditions: ConditionArgs { identities: args.nodes.clone(), ..ConditionArgs::default() },
        ..FilterArgs::default()
    };
    if !args.yes {
        let result = query_pools(Some(&args.pool), &FilterArgs::default(), false, cx).await?;
        let holders = result.pools.iter().flat_map(|pool| &pool.holders);
        let live: Vec<_> = holders.filter(|holder| args.nodes.contains(&holder.node)).collect();
        if !live.is_empty() && !is_terminal() {
            let nodes = live.iter().map(|holder| holder.node.clone());
            return Err(PromptError::LiveHolders { pool: args.pool, nodes: nodes.collect() }.into());
        }
        if !live.is_empty()
            && !ask_confirmation(&release_question(&args.pool, &live), cx.printer).await?
        {
            return Err(PromptError::Declined.into());
        }
    }
    let request = RequestArgs {
        agent: Some(PERMIT_AGENT.to_owned()),
        words: vec!["release".to_owned(), format!("pool={}", args.pool)],
        timeout: None,
        ttl: Duration::from_mins(1),
        output: OutputArgs { json: args.json.json, jq: args.json.jq, ..OutputArgs::default() },
        approval: ApprovalArgs { propose: None, lifetime: Duration::from_hours(1), approve: None },
        flags: RequestFlags { yes: true, ..RequestFlags::default() },
        pace: PaceArgs::default(),
        filters,
        bare: false,
        help: false,
    };
    Box::pin(request::run(request, cx)).await
}
