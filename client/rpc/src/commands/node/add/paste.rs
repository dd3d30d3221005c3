//! `rpc node add` without `--ssh`: a line for root's shell on the machine, which has rpcd.

use muster_organisation::machines::payload::paste_line;
use muster_organisation::machines::script::InstalledProgram;

use crate::commands::node::add::args::NodeAddArgs;
use crate::commands::node::add::credentials::NodeIssuer;
use crate::commands::node::add::error::NodeAddError;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

pub async fn run(
    args: &NodeAddArgs,
    mut issuer: NodeIssuer<'_>,
    cx: CommandContext<'_>,
) -> CommandResult {
    let [host] = args.hosts.as_slice() else { return Err(NodeAddError::NotOne.into()) };
    let name = host.node_name().ok_or(NodeAddError::NotOne)?;
    let script = issuer.issue_script(&name, InstalledProgram::Present).await?;
    let published = issuer.publish_services().await?;
    if published != CommandExitCode::Passed {
        return Ok(published);
    }
    let line = paste_line(&script).map_err(NodeAddError::Line)?;
    cx.printer.print_line(line)?;
    cx.printer.print_hint(format_args!(
        "it contains the key of {name}: paste it into root's shell there, after the package muster-node is installed"
    ));
    Ok(CommandExitCode::Passed)
}
