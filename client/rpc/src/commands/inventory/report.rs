//! `rpc inventory --template`: renders a user-defined template for each node, in order of names.

use muster_client::TargetSelection;
use muster_contract::rpcutil::RpcutilAgent;
use muster_ddl::AgentContract as _;

use crate::commands::inventory::args::InventoryArgs;
use crate::report::template_values::{INVENTORY_TEMPLATE_NAMES, InventoryTemplateValues};
use crate::request::batches::{InventoryQuery, successful_outputs};
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};
use crate::session::form;

/// Asks the named node, or all matching ones, and prints the rendered template for each.
pub async fn run(text: &str, args: &InventoryArgs, cx: CommandContext<'_>) -> CommandResult {
    let filters = &args.query.filters;
    let target = match &args.node {
        Some(_) => TargetSelection::for_collective(filters.target.clone()),
        None => cx.read_target(filters)?.with_agent(RpcutilAgent::NAME)?,
    };
    let template = form::parse_template(text, &INVENTORY_TEMPLATE_NAMES)?;
    let Some(query) = InventoryQuery::prepare(&target, args.node.as_ref(), cx).await? else {
        return Ok(CommandExitCode::Local);
    };
    let total = query.ask_in_batches("nothing printed", cx, |reply| {
        let rendered = successful_outputs(reply)
            .and_then(|_| Ok(template.render(&InventoryTemplateValues::new(reply))?));
        match rendered {
            Ok(text) => Ok(Ok(cx.printer.print_value(&text)?)),
            Err(error) => Ok(Err(error)),
        }
    });
    Ok(total.await?.outcome().into())
}
