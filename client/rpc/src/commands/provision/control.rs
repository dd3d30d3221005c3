//! `rpc provision retry|pause|resume|retire`: stores the command in the provisioning service, whose leader executes it. `retire` first revokes the
//! nodes' tokens with the organisation's keys, which the service does not have.

use muster_contract::provisioner::{
    NodeControlInput, NodeControlOutput, ProvisionerAgent, ProvisionerRetire,
};
use muster_ddl::Action;
use muster_display::printer::{BAD, GOOD};
use muster_wire::identity::Identity;

use crate::commands::org::revoke::revoke_nodes;
use crate::commands::provision::args::ProvisionRetireArgs;
use crate::commands::provision::service::ProvisionerClient;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};
use crate::session::terminal::{ask_confirmation, is_terminal};

pub async fn run<A>(nodes: &[Identity], cx: CommandContext<'_>) -> CommandResult
where
    A: Action<Agent = ProvisionerAgent, Input = NodeControlInput>,
{
    match ProvisionerClient::find_hosts(cx).await? {
        Some(service) => send_commands::<A>(&service, nodes, cx).await,
        None => Ok(CommandExitCode::Local),
    }
}

async fn send_commands<A>(
    service: &ProvisionerClient<'_>,
    nodes: &[Identity],
    cx: CommandContext<'_>,
) -> CommandResult
where
    A: Action<Agent = ProvisionerAgent, Input = NodeControlInput>,
{
    let mut exit = CommandExitCode::Passed;
    for node in nodes {
        let input = NodeControlInput { node: node.to_string() };
        let Some(reply) = service.ask_first_host::<A>(&input).await? else {
            return Ok(CommandExitCode::NoneAnswered);
        };
        if !reply.is_ok() {
            let reason = reply.message.line();
            cx.printer.print_line(format_args!("{node}: {BAD}{reason}{BAD:#}"))?;
            exit = CommandExitCode::SomeFailed;
            continue;
        }
        let NodeControlOutput { state, changed, .. } = reply.typed_outputs();
        let (result, state) = (if changed { A::NAME } else { "nothing to do" }, state.line());
        cx.printer.print_line(format_args!("{node}: {GOOD}{result}{GOOD:#} ({state})"))?;
    }
    Ok(exit)
}

/// Retires nodes after confirmation, because neither a revoked certificate nor a revoked token can be restored. The tokens are revoked first: the
/// name is released last, and a released name of a revoked key is free.
pub async fn retire_nodes(args: &ProvisionRetireArgs, cx: CommandContext<'_>) -> CommandResult {
    let organisation = if args.keep_tokens {
        None
    } else {
        match cx.open_organisation(&args.organisation) {
            Ok(organisation) => Some(organisation),
            Err(error) => {
                cx.printer.print_hint(
                    "retiring a node revokes its token, which needs the organisation's keys: run the command where they are, or pass `--keep-tokens` and run `rpc org revoke NODE` there",
                );
                return Err(error.into());
            }
        }
    };
    if !args.yes {
        let names = args.nodes.iter().map(Identity::as_str).collect::<Vec<_>>().join(", ");
        if !is_terminal() {
            cx.printer.print_error(format_args!(
                "retiring {names} cannot be undone; pass `--yes` to do it without confirmation"
            ));
            return Ok(CommandExitCode::Usage);
        }
        let question = format!(
            "Revoke the tokens and certificates of {names} and remove them from the fleet? [y/N] "
        );
        if !ask_confirmation(&question, cx.printer).await? {
            cx.printer.print_message("Nothing was done");
            return Ok(CommandExitCode::Local);
        }
    }
    let Some(service) = ProvisionerClient::find_hosts(cx).await? else {
        return Ok(CommandExitCode::Local);
    };
    let revoked = match &organisation {
        Some(organisation) => revoke_nodes(organisation, &args.nodes, cx.printer).await?,
        None => CommandExitCode::Passed,
    };
    let retired = send_commands::<ProvisionerRetire>(&service, &args.nodes, cx).await?;
    if organisation.is_none() {
        cx.printer.print_hint(
            "the nodes' own tokens remain valid; to revoke them, run `rpc org revoke NODE` where the organisation's keys are",
        );
    }
    Ok(if retired == CommandExitCode::Passed { revoked } else { retired })
}
