//! `rpc provision status` and `watch`: shows the enrolment state of new nodes.

use std::time::Duration;

use muster_contract::provisioner::{ProvisionerStatus, ProvisionerStatusOutput};
use muster_ddl::Action as _;

use crate::commands::provision::args::{ProvisionStatusArgs, ProvisionWatchArgs};
use crate::commands::provision::output::{
    ProvisioningDocument, describe_changes, has_failed, is_settled, render_history,
    render_overview_table,
};
use crate::commands::provision::service::ProvisionerClient;
use crate::flags::values::value_name;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};
use crate::session::form;

/// Shows the state once.
pub async fn run(args: ProvisionStatusArgs, cx: CommandContext<'_>) -> CommandResult {
    let json = form::parse_json_form(&args.json)?;
    let Some(service) = ProvisionerClient::find_hosts(cx).await? else {
        return Ok(CommandExitCode::Local);
    };
    let node = args.node.as_ref().map(|node| ("node", node.as_str()));
    let state = args.state.as_ref().map(value_name);
    let state = state.as_deref().map(|state| ("state", state));
    let with_history = args.node.is_some() || json.is_some();
    let history = with_history.then_some(("history", "true"));
    let inputs: Vec<_> = [node, state, history].into_iter().flatten().collect();
    let overview = match query_overview(&service, &inputs, cx).await? {
        Ok(overview) => overview,
        Err(exit) => return Ok(exit),
    };
    if let Some(json) = &json {
        let document = ProvisioningDocument { schema: "muster.provision.v1", overview: &overview };
        cx.print_json(&document, json)?;
    } else {
        let width = cx.table_width();
        cx.printer.print_text(render_overview_table(&overview, width))?;
        if args.node.is_some() {
            cx.printer.print_text(render_history(&overview))?;
        }
    }
    Ok(CommandExitCode::from_verdict(!has_failed(&overview)))
}

/// Shows the state until no node is pending. Redraws the table on a terminal; otherwise prints a line for each change.
pub async fn watch_nodes(args: &ProvisionWatchArgs, cx: CommandContext<'_>) -> CommandResult {
    let Some(service) = ProvisionerClient::find_hosts(cx).await? else {
        return Ok(CommandExitCode::Local);
    };
    let state = args.state.as_ref().map(value_name);
    let state = state.as_deref().map(|state| ("state", state));
    let screen = cx.printer.screen();
    let mut previous: Option<ProvisionerStatusOutput> = None;
    let mut drawn_lines = 0;
    loop {
        let overview = match query_overview(&service, state.as_slice(), cx).await? {
            Ok(overview) => overview,
            Err(exit) => return Ok(exit),
        };
        if screen.is_terminal {
            let text = render_overview_table(&overview, screen.table_width);
            cx.printer.print_redrawn(drawn_lines, &text)?;
            drawn_lines = text.lines().count();
        } else {
            for change in describe_changes(previous.as_ref(), &overview) {
                cx.printer.print_line(change)?;
            }
        }
        if is_settled(&overview) {
            return Ok(CommandExitCode::from_verdict(!has_failed(&overview)));
        }
        previous = Some(overview);
        tokio::time::sleep(Duration::from_secs(args.every)).await;
    }
}

async fn query_overview(
    service: &ProvisionerClient<'_>,
    inputs: &[(&str, &str)],
    cx: CommandContext<'_>,
) -> Result<Result<ProvisionerStatusOutput, CommandExitCode>> {
    let Some(reply) = service.ask_first_host(ProvisionerStatus::NAME, inputs).await? else {
        return Ok(Err(CommandExitCode::NoneAnswered));
    };
    if reply.is_ok() {
        return Ok(Ok(reply.typed_outputs()));
    }
    cx.printer.print_error(format_args!("{}: {}", reply.node, reply.message.line()));
    Ok(Err(CommandExitCode::SomeFailed))
}
