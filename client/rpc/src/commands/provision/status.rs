//! `rpc provision status` and `watch`: shows the enrolment state of new nodes.

use std::time::Duration;

use muster_contract::provisioner::{
    ProvisionerStatus, ProvisionerStatusInput, ProvisionerStatusOutput, ProvisioningState,
};

use crate::commands::provision::args::{ProvisionStatusArgs, ProvisionWatchArgs};
use crate::commands::provision::output::{
    ProvisioningDocument, describe_changes, has_failed, is_settled, render_history,
    render_overview_table,
};
use crate::commands::provision::service::ProvisionerClient;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};

/// Shows the state once.
pub async fn run(args: ProvisionStatusArgs, cx: CommandContext<'_>) -> CommandResult {
    let json = args.json.form()?;
    let Some(service) = ProvisionerClient::find_hosts(cx).await? else {
        return Ok(CommandExitCode::Local);
    };
    let input = ProvisionerStatusInput {
        node: args.node.as_ref().map(ToString::to_string),
        state: args.state.map(ProvisioningState::from),
        history: args.node.is_some() || json.is_some(),
    };
    let overview = match query_overview(&service, &input, cx).await? {
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
    let state = args.state.map(ProvisioningState::from);
    let input = ProvisionerStatusInput { node: None, state, history: false };
    let screen = cx.printer.screen();
    let mut previous: Option<ProvisionerStatusOutput> = None;
    let mut drawn_lines = 0;
    loop {
        let overview = match query_overview(&service, &input, cx).await? {
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
    input: &ProvisionerStatusInput,
    cx: CommandContext<'_>,
) -> Result<Result<ProvisionerStatusOutput, CommandExitCode>> {
    let Some(reply) = service.ask_first_host::<ProvisionerStatus>(input).await? else {
        return Ok(Err(CommandExitCode::NoneAnswered));
    };
    if reply.is_ok() {
        return Ok(Ok(reply.typed_outputs()));
    }
    cx.printer.print_error(format_args!("{}: {}", reply.node, reply.message.line()));
    Ok(Err(CommandExitCode::SomeFailed))
}
