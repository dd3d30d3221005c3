//! `rpc org push`: gives the account's token to the running broker, and announces it.

use crate::clock;
use crate::error::Error;
use crate::exit::Exit;
use crate::organisation::Organisation;
use crate::printer::{GOOD, Printer};

/// Runs it.
pub async fn run(organisation: &Organisation, printer: &Printer) -> Result<Exit, Error> {
    organisation.push(clock::now()).await?;
    let urls = organisation.profile().broker.urls.join(", ");
    printer.say(format_args!(
        "{GOOD}pushed{GOOD:#} the account's token to {urls}, and announced it"
    ));
    Ok(Exit::Passed)
}
