//! `rpc org newcomers`: adds the bootstrap account to an organisation that lacks it.

use muster_base::unix_millis_now;
use muster_display::printer::{GOOD, OutputPrinter};
use muster_organisation::{Organisation, OrganisationLock, PushError};

use crate::flags::org_directory::OrgDirectoryArgs;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};

pub async fn run(args: &OrgDirectoryArgs, cx: CommandContext<'_>) -> CommandResult {
    let (mut organisation, printer) = (cx.open_organisation(args)?, cx.printer);
    let lock = organisation.lock()?;
    if !add_account(&mut organisation, &lock, printer).await? {
        printer.print_message("the organisation already has a bootstrap account");
    }
    Ok(CommandExitCode::Passed)
}

/// Adds the account if it is missing and pushes it to the broker. If the broker cannot be reached, a later push does so. Returns whether the
/// account was missing.
pub async fn add_account(
    organisation: &mut Organisation,
    lock: &OrganisationLock,
    printer: &OutputPrinter,
) -> Result<bool> {
    if !organisation.add_newcomers_account(lock, unix_millis_now())? {
        return Ok(false);
    }
    printer.print_message(format_args!(
        "{GOOD}added{GOOD:#} a bootstrap account to the organisation {}",
        organisation.profile().name
    ));
    match organisation.push_tokens(unix_millis_now()).await {
        Ok(()) => {}
        Err(PushError::Bus(error)) => {
            printer.print_warning(format_args!("the broker does not have it yet: {error}"));
            printer.print_hint("run `rpc org push` when the broker is reachable; a broker that is started from now on has it already");
        }
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}
