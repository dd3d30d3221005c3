//! `rpc org push`: gives the account's token to the running broker, announces it, and makes the fleet's stores.

use crate::clock;
use crate::diagnostics::chain;
use crate::error::Error;
use crate::exit::Exit;
use crate::organisation::Organisation;
use crate::printer::{GOOD, Printer};

/// Runs it.
pub async fn run(
    organisation: &Organisation,
    replicas: u8,
    printer: &Printer,
) -> Result<Exit, Error> {
    token(organisation, printer).await?;
    match organisation
        .declare_stores(replicas.into(), clock::now())
        .await
    {
        Ok(()) => printer.say(format_args!(
            "{GOOD}made{GOOD:#} the stores for run permits and provisioning, where they were missing"
        )),
        Err(error) => printer.warn(format_args!(
            "no stores for run permits and provisioning: {}",
            chain(&error)
        )),
    }
    Ok(Exit::Passed)
}

/// Gives the token alone.
pub async fn token(organisation: &Organisation, printer: &Printer) -> Result<Exit, Error> {
    organisation.push(clock::now()).await?;
    let urls = organisation.profile().broker.urls.join(", ");
    printer.say(format_args!(
        "{GOOD}pushed{GOOD:#} the account's token to {urls}, and announced it"
    ));
    Ok(Exit::Passed)
}
