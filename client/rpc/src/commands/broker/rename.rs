//! `rpc broker rename`: gives the broker other names, in its certificate and for everybody who looks for it.

use crate::cli::broker::Rename;
use crate::error::Error;
use crate::exit::Exit;
use crate::organisation::Organisation;
use crate::printer::{GOOD, Printer};

/// Runs it.
pub fn run(
    args: &Rename,
    mut organisation: Organisation,
    printer: &Printer,
) -> Result<Exit, Error> {
    let lock = organisation.lock()?;
    organisation.move_broker(&lock, &args.hosts)?;
    let urls = organisation.profile().broker.urls.join(", ");
    printer.say(format_args!(
        "{GOOD}renamed{GOOD:#} the broker; it is found at {urls}"
    ));
    printer.hint("restart the broker, and write the new addresses into the configurations that you gave away");
    Ok(Exit::Passed)
}
