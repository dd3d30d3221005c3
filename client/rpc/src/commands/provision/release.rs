//! `rpc provision release`: releases the names of revoked nodes.

use crate::cli::provision::ProvisionReleaseArgs;
use crate::commands::context::{CommandContext, CommandExitCode, CommandResult};
use crate::organisation::OrganisationError;
use crate::printer::GOOD;
use muster_base::unix_millis_now;

/// Runs the command. Stops with an error at the first name whose key is not revoked.
pub async fn run(args: &ProvisionReleaseArgs, cx: CommandContext<'_>) -> CommandResult {
    let (organisation, printer) = (&cx.open_organisation(&args.organisation)?, cx.printer);
    let trust = organisation.fleet_trust()?;
    let register = organisation.open_name_register(unix_millis_now()).await?;
    for node in &args.nodes {
        let entry = register.get_entry(node).await?;
        let entry = entry.ok_or_else(|| OrganisationError::Unknown(node.to_string()))?;
        if let Some(key) = entry.all_keys().find(|key| !trust.has_revocation(key)) {
            let name = node.to_string();
            return Err(OrganisationError::NotRevoked { name, key }.into());
        }
        register.release_name(node).await?;
        printer.print_message(format_args!(
            "{GOOD}released{GOOD:#} {node}: another machine may be enrolled under this name"
        ));
    }
    register.close().await?;
    Ok(CommandExitCode::Passed)
}
