//! `rpc org newcomers`: adds the account for machines that are nobody yet, where an organisation lacks it.

use crate::clock;
use crate::error::Error;
use crate::exit::Exit;
use crate::organisation::push::PushError;
use crate::organisation::{Lock, Organisation};
use crate::printer::{GOOD, Printer};

/// Runs it.
pub async fn run(mut organisation: Organisation, printer: &Printer) -> Result<Exit, Error> {
    let lock = organisation.lock()?;
    if !add(&mut organisation, &lock, printer).await? {
        printer.say("there is an account for newcomers already");
    }
    Ok(Exit::Passed)
}

/// Adds the account if it is missing, and tells the broker, which is told later if it cannot be reached now. Whether it was missing.
pub async fn add(
    organisation: &mut Organisation,
    lock: &Lock,
    printer: &Printer,
) -> Result<bool, Error> {
    if !organisation.add_newcomers(lock, clock::now())? {
        return Ok(false);
    }
    printer.say(format_args!(
        "{GOOD}added{GOOD:#} an account for newcomers to the organisation {}",
        organisation.profile().name
    ));
    match organisation.push(clock::now()).await {
        Ok(()) => {}
        Err(PushError::Bus(error)) => {
            printer.warn(format_args!("the broker does not know it yet: {error}"));
            printer.hint("run `rpc org push` when the broker is reachable; a broker that starts now knows it");
        }
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}
