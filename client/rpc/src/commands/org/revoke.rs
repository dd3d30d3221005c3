//! `rpc org revoke`: voids credentials, here at once, and at the broker and the nodes as soon as it is reached.

use std::io::{self, BufRead as _, IsTerminal as _};

use crate::cli::org::Revoke;
use crate::clock;
use crate::error::Error;
use crate::exit::Exit;
use crate::organisation::push::PushError;
use crate::organisation::{Organisation, Record, State, ledger};
use crate::printer::{GOOD, Printer};

/// Runs it.
pub async fn run(
    args: &Revoke,
    organisation: &Organisation,
    printer: &Printer,
) -> Result<Exit, Error> {
    let records = organisation.records()?;
    let meant = ledger::find(&records, &args.party, args.kind)?;
    if !args.yes && !agreed(&meant, printer) {
        printer.say("nothing was revoked");
        return Ok(Exit::Local);
    }
    let now = clock::now();
    let lock = organisation.lock()?;
    let trust = organisation.trust()?;
    let state = |record: &Record| record.state(&trust.claims().nats, now / 1000);
    let void: Vec<&Record> = meant
        .into_iter()
        .filter(|record| state(record) != State::Revoked)
        .collect();
    if void.is_empty() {
        printer.say(format_args!("{} was revoked before", args.party));
        return Ok(Exit::Passed);
    }
    organisation.revoke(&lock, &void, now)?;
    for record in &void {
        printer.say(format_args!(
            "{GOOD}revoked{GOOD:#} {} {} (key {})",
            record.kind, record.name, record.key
        ));
    }
    push(organisation, printer).await
}

/// A revocation that only this directory knows of is not in force: the exit code says so.
async fn push(organisation: &Organisation, printer: &Printer) -> Result<Exit, Error> {
    match super::push::token(organisation, printer).await {
        Err(Error::Push(PushError::Bus(error))) => {
            printer.warn(format_args!("saved, but not yet in force: {error}"));
            printer.hint("run `rpc org push` when the broker is reachable; a broker that starts now knows it");
            Ok(Exit::Local)
        }
        pushed => pushed,
    }
}

/// Asks, where there is somebody to ask.
fn agreed(records: &[&Record], printer: &Printer) -> bool {
    if !io::stdin().is_terminal() {
        return true;
    }
    for record in records {
        let issued = clock::written(record.issued_at);
        printer.ask(format_args!(
            "{} {} (key {}, issued {issued})",
            record.kind, record.name, record.key
        ));
    }
    printer.ask("Revoke for good? [y/N]");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
