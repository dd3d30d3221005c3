//! `rpc org revoke`: voids credentials, here at once, and at the broker and the nodes as soon as it is reached.

use std::io::{self, BufRead as _, IsTerminal as _};

use muster_wire::token::{KeyKind, PublicKey};

use crate::cli::org::Revoke;
use crate::clock;
use crate::error::Error;
use crate::exit::Exit;
use crate::organisation::push::PushError;
use crate::organisation::{Kind, Organisation, OrganisationError, Realm, Record, State, ledger};
use crate::printer::{GOOD, Printer};

/// Runs it.
pub async fn run(
    args: &Revoke,
    organisation: &Organisation,
    printer: &Printer,
) -> Result<Exit, Error> {
    let records = organisation.records()?;
    let meant = match ledger::find(&records, &args.party, args.kind) {
        Err(OrganisationError::Unknown(_)) if PublicKey::parse(&args.party).is_ok() => {
            return unlisted(args, organisation, printer).await;
        }
        found => found?,
    };
    if !args.yes && !agreed(&meant, printer) {
        printer.say("nothing was revoked");
        return Ok(Exit::Local);
    }
    let now = clock::now();
    let lock = organisation.lock()?;
    let trusts = organisation.trusts()?;
    let void: Vec<&Record> = meant
        .into_iter()
        .filter(|record| trusts.state(record, now / 1000) != State::Revoked)
        .collect();
    let Some(first) = void.first() else {
        printer.say(format_args!("{} was revoked before", args.party));
        return Ok(Exit::Passed);
    };
    // All are of one kind, and so of one account.
    let keys: Vec<_> = void
        .iter()
        .map(|record| (record.key, record.issued_at))
        .collect();
    organisation.revoke(&lock, first.kind.realm(), &keys, now)?;
    for record in &void {
        printer.say(format_args!(
            "{GOOD}revoked{GOOD:#} {} {} (key {})",
            record.kind, record.name, record.key
        ));
    }
    push(organisation, printer).await
}

/// A key that is not in the list of what was issued here: that of a node which a provisioner let in.
async fn unlisted(
    args: &Revoke,
    organisation: &Organisation,
    printer: &Printer,
) -> Result<Exit, Error> {
    let unknown = || OrganisationError::Unknown(args.party.clone());
    let key = PublicKey::parse_kind(&args.party, KeyKind::User).map_err(|_| unknown())?;
    let realm = args.kind.map_or(Realm::Fleet, Kind::realm);
    printer.warn(format_args!(
        "{key} was not issued here; a provisioner may have issued it"
    ));
    if !args.yes && !agreed(&[], printer) {
        printer.say("nothing was revoked");
        return Ok(Exit::Local);
    }
    let now = clock::now();
    let lock = organisation.lock()?;
    organisation.revoke(&lock, realm, &[(key, now / 1000)], now)?;
    printer.say(format_args!("{GOOD}revoked{GOOD:#} the key {key}"));
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
