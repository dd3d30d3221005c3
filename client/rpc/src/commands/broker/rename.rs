//! `rpc broker rename`: changes the broker's host names in its certificate and in the URLs of nodes and clients.

use crate::cli::broker::BrokerRenameArgs;
use crate::commands::context::{CommandExitCode, CommandResult};
use crate::organisation::Organisation;
use crate::printer::{GOOD, OutputPrinter};

/// Runs the command.
pub fn run(
    args: &BrokerRenameArgs,
    mut organisation: Organisation,
    printer: &OutputPrinter,
) -> CommandResult {
    let lock = organisation.lock()?;
    organisation.rename_broker(&lock, &args.hosts)?;
    let urls = organisation.profile().broker.urls.join(", ");
    printer
        .print_message(format_args!("{GOOD}renamed{GOOD:#} the broker; its addresses are {urls}"));
    printer.print_hint(
        "restart the broker, and write the new addresses to the configurations of nodes and users",
    );
    Ok(CommandExitCode::Passed)
}
