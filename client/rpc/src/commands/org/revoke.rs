//! `rpc org revoke`: revokes credentials of one party or many with one new account token: here at once, and at the broker, nodes and
//! callers as soon as the broker is reached.

mod targets;

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, IsTerminal as _};

use muster_wire::identity::Identity;
use muster_wire::token::PublicKey;

use crate::cli::org::Revoke;
use crate::clock;
use crate::error::Error;
use crate::exit::Exit;
use crate::organisation::names::NameRegister;
use crate::organisation::push::PushError;
use crate::organisation::{Kind, Organisation, Realm};
use crate::printer::{GOOD, Printer};
use targets::RevokedKey;

/// Most parties that are listed one by one.
const MAX_LISTED: usize = 20;

/// Most nodes whose run permits are removed at once. Those of the others lapse within their lease.
const MAX_CLEARED: usize = 200;

/// Runs it.
pub async fn run(
    args: &Revoke,
    organisation: &Organisation,
    printer: &Printer,
) -> Result<Exit, Error> {
    let parties = targets::parties(args)?;
    let register = open_register(organisation, printer).await?;
    let now = clock::now();
    let meant = targets::resolve(
        organisation,
        register.as_ref(),
        &parties,
        args.kind,
        now / 1000,
    )
    .await?;
    warn_of_unlisted(&meant, printer);
    if !args.yes && !agreed(&meant, args.from.is_some(), printer) {
        printer.say("nothing was revoked");
        return Ok(Exit::Local);
    }
    mark_revoked(register, &meant).await?;
    let lock = organisation.lock()?;
    let trusts = organisation.trusts()?;
    let void: Vec<RevokedKey> = meant
        .into_iter()
        .filter(|meant| !meant.is_revoked(&trusts))
        .collect();
    if void.is_empty() {
        match parties.as_slice() {
            [party] => printer.say(format_args!("{party} was revoked before")),
            _ => printer.say(format_args!("all {} were revoked before", parties.len())),
        }
        return Ok(Exit::Passed);
    }
    let enrolled = void.iter().filter_map(RevokedKey::enrolled_record);
    organisation.record_enrolled(&lock, enrolled)?;
    for realm in [Realm::Fleet, Realm::Newcomers] {
        let of_realm = void.iter().filter(|revoked| revoked.realm == realm);
        let keys: Vec<_> = of_realm
            .map(|revoked| (revoked.key, revoked.issued_at))
            .collect();
        if !keys.is_empty() {
            organisation.revoke(&lock, realm, &keys, now)?;
        }
    }
    tell(&void, printer);
    push(organisation, &void, printer).await
}

/// The names of enrolled nodes, which the broker keeps; `None` where machines are not enrolled or the broker cannot be reached.
async fn open_register(
    organisation: &Organisation,
    printer: &Printer,
) -> Result<Option<NameRegister>, Error> {
    if !organisation.had_enroller()? {
        return Ok(None);
    }
    match organisation.open_names(clock::now()).await {
        Ok(register) if register.exists().await? => Ok(Some(register)),
        Ok(_) => Ok(None),
        Err(PushError::Bus(error)) => {
            printer.warn(format_args!(
                "enrolled nodes are not looked up, and their names not marked as revoked: {error}"
            ));
            printer.hint("run `rpc org push` when the broker is reachable: it marks them");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Marks the names in the register. The marks come before the revocation: a token that the enroller signs before its mark is older than
/// the revocation, and it signs none after it.
async fn mark_revoked(register: Option<NameRegister>, meant: &[RevokedKey]) -> Result<(), Error> {
    let Some(register) = register else {
        return Ok(());
    };
    let mut keys: BTreeMap<&Identity, Vec<PublicKey>> = BTreeMap::new();
    for revoked in meant {
        if let Some((_, name)) = &revoked.party {
            keys.entry(name).or_default().push(revoked.key);
        }
    }
    for (name, keys) in keys {
        register.mark_revoked(name, &keys).await?;
    }
    Ok(register.close().await?)
}

fn warn_of_unlisted(meant: &[RevokedKey], printer: &Printer) {
    let mut unlisted = meant.iter().filter(|meant| meant.party.is_none());
    match (unlisted.next(), unlisted.count()) {
        (None, _) => {}
        (Some(one), 0) => printer.warn(format_args!(
            "{} was issued neither here nor by an enroller that is known",
            one.key
        )),
        (Some(_), more) => printer.warn(format_args!(
            "{} keys were issued neither here nor by an enroller that is known",
            more + 1
        )),
    }
}

fn tell(void: &[RevokedKey], printer: &Printer) {
    for revoked in void.iter().take(MAX_LISTED) {
        match &revoked.party {
            Some((kind, name)) => printer.say(format_args!(
                "{GOOD}revoked{GOOD:#} {kind} {name} (key {})",
                revoked.key
            )),
            None => printer.say(format_args!(
                "{GOOD}revoked{GOOD:#} the key {}",
                revoked.key
            )),
        }
    }
    if void.len() > MAX_LISTED {
        let more = void.len() - MAX_LISTED;
        printer.say(format_args!("{GOOD}revoked{GOOD:#} {more} more"));
    }
}

/// A revocation that only this directory has is not in force: the exit code says so.
async fn push(
    organisation: &Organisation,
    void: &[RevokedKey],
    printer: &Printer,
) -> Result<Exit, Error> {
    match super::push::token(organisation, printer).await {
        Err(Error::Push(PushError::Bus(error))) => {
            printer.warn(format_args!("saved, but not yet in force: {error}"));
            printer.hint("run `rpc org push` when the broker is reachable; a broker that starts now knows it");
            Ok(Exit::Local)
        }
        Ok(exit) => {
            let parties = void.iter().filter_map(|revoked| revoked.party.as_ref());
            let nodes: Vec<&Identity> = parties
                .filter(|(kind, _)| *kind == Kind::Node)
                .map(|(_, name)| name)
                .take(MAX_CLEARED)
                .collect();
            if let Err(error) = organisation.clear_nodes(&nodes, clock::now()).await {
                printer.warn(format_args!(
                    "run permits of revoked nodes stay until they lapse: {error}"
                ));
            }
            Ok(exit)
        }
        failed => failed,
    }
}

/// Asks on a terminal. A list on standard input leaves nothing to answer with.
fn agreed(meant: &[RevokedKey], has_list: bool, printer: &Printer) -> bool {
    if !io::stdin().is_terminal() {
        return true;
    }
    for meant in meant.iter().take(MAX_LISTED) {
        if let Some((kind, name)) = &meant.party {
            let issued = clock::written(meant.issued_at);
            printer.ask(format_args!(
                "{kind} {name} (key {}, issued {issued})",
                meant.key
            ));
        }
    }
    if has_list || meant.len() > MAX_LISTED {
        printer.ask(format_args!("{} keys in all", meant.len()));
    }
    printer.ask("Revoke for good? [y/N]");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
