//! `rpc facts`: counts the values of a fact across the fleet, or lists the names of all facts.

pub mod args;
pub mod fact_names;
pub mod output;

use muster_contract::rpcutil::{RpcutilAgent, RpcutilGetFact, RpcutilGetFactInput};
use muster_ddl::AgentContract as _;

use crate::commands::facts::args::FactsArgs;
use crate::commands::facts::fact_names::FactNameCounts;
use crate::commands::facts::output::{
    FactsDocument, group_fact_values, render_fact_bars, render_fact_table,
};
use crate::flags::filters::QueryArgs;
use crate::request::batches::{InventoryQuery, UnusableReplyError, successful_outputs};
use crate::request::inquiry::query_nodes;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};
use crate::session::seen_names::SeenNamesCache;

pub async fn run(args: FactsArgs, cx: CommandContext<'_>) -> CommandResult {
    let Some(fact) = &args.fact else {
        return list_names(&args.query, cx).await;
    };
    let input = RpcutilGetFactInput { fact: fact.clone() };
    let result = query_nodes::<RpcutilGetFact>(&args.query, &input, cx).await?;
    let mut groups = group_fact_values(&result.report);
    let mut seen = SeenNamesCache::default();
    for group in groups.iter().filter(|group| !group.value().is_null()) {
        seen.add_fact(fact, group.value());
    }
    cx.remember_names(seen);
    if args.reverse {
        groups.reverse();
    }
    let (show_nodes, screen) = (args.show_nodes || cx.is_verbose(), cx.printer.screen());
    let content = FactsDocument { fact, values: &groups };
    let has_values = groups.iter().any(|group| !group.value().is_null());
    let code = result.print_answer("muster.facts.v1", content, || {
        let text = if args.table {
            render_fact_table(&groups, show_nodes, screen)
        } else {
            render_fact_bars(fact, &groups, &result.report, show_nodes, screen)
        };
        Ok(cx.printer.print_text(text)?)
    })?;
    let replied = result.report.successes().count();
    if code != CommandExitCode::Passed || has_values || replied == 0 {
        return Ok(code);
    }
    cx.report_no_values(fact, replied);
    Ok(CommandExitCode::Local)
}

async fn list_names(args: &QueryArgs, cx: CommandContext<'_>) -> CommandResult {
    let target = cx.read_target(&args.filters)?.with_agent(RpcutilAgent::NAME)?;
    let json = args.json.form()?;
    let Some(query) = InventoryQuery::prepare(&target, None, cx).await? else {
        return Ok(CommandExitCode::Local);
    };
    let mut names = FactNameCounts::default();
    let total = query.ask_in_batches("its facts are left out", cx, |reply| {
        let counted = successful_outputs(reply)
            .and_then(|outputs| names.add_facts(outputs).map_err(UnusableReplyError::from));
        Ok(counted)
    });
    let total = total.await?;
    let document = names.to_document();
    cx.print_result(json.as_ref(), &document, || document.render_text(cx.table_width()))?;
    Ok(total.outcome().into())
}
