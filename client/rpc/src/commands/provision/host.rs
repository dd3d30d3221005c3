//! `rpc provision host`: writes all files that the provisioner's host needs to one directory. Prints its path as data.
//!
//! The directory is highly privileged: it allows creating nodes and calling any agent. It allows neither creating callers nor revoking keys.

use crate::cli::provision::ProvisionHostArgs;
use crate::commands::context::{CommandContext, CommandExitCode, CommandResult};
use crate::commands::org::{names, newcomers};
use crate::organisation::bundle::{self, PROVISIONER_HOME, name};
use crate::organisation::{CredentialSpec, PrincipalKind};
use crate::printer::GOOD;
use muster_base::unix_millis_now;

/// Runs the command.
pub async fn run(args: ProvisionHostArgs, cx: CommandContext<'_>) -> CommandResult {
    let mut organisation = cx.open_organisation(&args.organisation)?;
    let printer = cx.printer;
    let lock = organisation.lock()?;
    newcomers::add_account(&mut organisation, &lock, printer).await?;
    let credentials = [
        (PrincipalKind::Service, name::SERVICE_CREDS),
        (PrincipalKind::Enroller, name::NEWCOMERS_CREDS),
    ];
    if !args.renew {
        bundle::require_absent(&args.out, &credentials.map(|(_, file)| file))?;
    }
    for (kind, file) in credentials {
        let spec = CredentialSpec {
            kind,
            name: args.name.clone(),
            tags: Vec::new(),
            expires: args.expires,
            renew: args.renew,
            out: Some(args.out.join(file)),
        };
        let now = unix_millis_now();
        let prepared = organisation.prepare_credentials(&lock, &spec, now)?;
        // The name of renewed credentials is reserved already.
        if !args.renew {
            names::reserve_name(&organisation, prepared.record(), now).await?;
        }
        organisation.record_credentials(&lock, prepared)?;
    }
    organisation.bundle_provisioner(&args.out)?;
    names::publish_names(&organisation, printer).await?;
    printer.print_message(format_args!(
        "{GOOD}created{GOOD:#} the files of the provisioner {} for its host",
        args.name
    ));
    printer.print_warning(
        "anyone who has this directory can add nodes to the fleet and send them any request",
    );
    printer.print_line(args.out.display())?;
    printer.print_hint(format_args!(
        "move it to that host as {PROVISIONER_HOME}, owned by root with mode 0700, and its {} to /etc/muster/conf.d",
        name::PROVISIONER_CONFIG
    ));
    Ok(CommandExitCode::Passed)
}
