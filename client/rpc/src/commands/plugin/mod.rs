//! `rpc plugin`: shows agents and their actions from the known schemas, and fetches schemas from nodes.

pub mod args;
pub mod bundle_errors;
pub mod check_output;
pub mod generate;
pub mod output;
pub mod skeleton;

mod bundle;
pub mod check;
mod convert;

use muster_client::{AgentSchemas, DdlCache, FetchedDdl, FleetRequestError};
use muster_contract::rpcutil::{RpcutilDdl, RpcutilDdlInput};
use muster_ddl::doc;
use muster_display::node_count_text;

use crate::commands::plugin::args::{PluginCommand, PluginDocArgs, PluginFetchArgs};
use crate::commands::plugin::output::{PluginDocument, PluginListDocument, render_agent_list};
use crate::flags::json::JsonArgs;
use crate::request::inquiry::discover_and_ask;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

pub async fn run(command: PluginCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        PluginCommand::List(args) => list_agents(&args, cx),
        PluginCommand::Doc(args) => show_document(&args, cx),
        PluginCommand::Fetch(args) => fetch_ddl(args, cx).await,
        PluginCommand::Generate(args) => generate::run(&args, cx),
        PluginCommand::Check(args) => check::run(&args, cx),
        PluginCommand::Convert(args) => convert::run(&args, cx),
        PluginCommand::Pack(args) => bundle::pack_bundle(&args, cx),
        PluginCommand::Install(args) => bundle::install_bundle(&args, cx),
        PluginCommand::Remove(args) => bundle::remove_bundle(&args, cx),
    }
}

fn list_agents(args: &JsonArgs, cx: CommandContext<'_>) -> CommandResult {
    let schemas = cx.load_schemas()?;
    let json = args.form()?;
    let document = PluginListDocument::new(&schemas.store);
    cx.print_result(json.as_ref(), &document, || render_agent_list(&schemas.store))?;
    Ok(CommandExitCode::Passed)
}

fn show_document(args: &PluginDocArgs, cx: CommandContext<'_>) -> CommandResult {
    let schemas = cx.load_schemas()?;
    let ddl = schemas.find_agent(&args.agent)?;
    match (args.json.form()?, args.markdown) {
        (Some(json), _) => cx.print_json(&PluginDocument::new(ddl), &json)?,
        (_, true) => cx.printer.print_text(doc::render_markdown(ddl))?,
        _ => cx.printer.print_text(doc::render_text(ddl))?,
    }
    Ok(CommandExitCode::Passed)
}

/// Asks the nodes that offer the agent for its schema, and saves it if they agree.
async fn fetch_ddl(args: PluginFetchArgs, cx: CommandContext<'_>) -> CommandResult {
    let target = cx.read_target(&args.filters)?.with_agent(&args.agent)?;
    let settings = cx.load_settings()?;
    let schemas = AgentSchemas::load(Some(settings))?;
    let plan = schemas.plan::<RpcutilDdl>(&RpcutilDdlInput { agent: args.agent.clone() })?;
    let report = discover_and_ask(&plan, &target, true, cx).await?;
    cx.warn_of_gaps(&report);
    if report.stats.discovered == 0 {
        cx.report_no_nodes(&target);
        return Ok(report.stats.outcome().into());
    }
    for reply in report.failures() {
        let message = reply.message.line();
        cx.printer.print_warning(format_args!("{}: {message}", reply.node));
    }
    let fetched = FetchedDdl::from_report(&args.agent, &report).map_err(FleetRequestError::from)?;
    let path =
        DdlCache::for_settings(settings).store_ddl(&fetched).map_err(FleetRequestError::from)?;
    let (name, version) = (fetched.ddl.name(), fetched.ddl.version().to_owned());
    let nodes = node_count_text(report.stats.ok);
    cx.printer
        .print_line(format_args!("{name} {version} from {nodes}, saved in {}", path.display()))?;
    for warning in fetched.ddl.warnings() {
        cx.printer.print_warning(format_args!("{name}: {warning}"));
    }
    if schemas.store.get(name).is_some() {
        cx.printer.print_warning(format_args!(
            "another DDL of {name}, built in or in {}, takes precedence",
            settings.ddls.display()
        ));
    }
    Ok(report.stats.outcome().into())
}
