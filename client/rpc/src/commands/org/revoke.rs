//! `rpc org revoke`: revokes credentials of one or more principals with one new account token. The revocation takes effect in the directory
//! at once, and at the broker, nodes and callers when the broker is reached.

mod targets;

use std::collections::BTreeMap;
use std::io;
use std::io::IsTerminal as _;

use muster_base::{count_text, unix_millis_now};
use muster_display::printer::{GOOD, OutputPrinter};
use muster_display::time::format_time;
use muster_organisation::{AccountRealm, NameRegister, Organisation, PrincipalKind, PushError};
use muster_wire::identity::Identity;
use muster_wire::token::PublicKey;
use targets::RevokedKey;

use crate::commands::org::args::OrgRevokeArgs;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};
use crate::session::form::confirm_on_terminal;

/// Most principals that are listed individually.
const MAX_LISTED: usize = 20;

/// Most nodes whose run permits are removed at once. Those of other nodes expire within their lease.
const MAX_CLEARED: usize = 200;

pub async fn run(args: &OrgRevokeArgs, cx: CommandContext<'_>) -> CommandResult {
    let (organisation, printer) = (&cx.open_organisation(&args.organisation)?, cx.printer);
    let names = targets::read_names(args)?;
    let confirm = |selected: &[RevokedKey]| {
        args.yes || confirm_revocation(selected, args.from.is_some(), printer)
    };
    revoke_principals((organisation, printer), &names, args.kind, confirm).await
}

/// Revokes every token of these nodes, without a question.
pub async fn revoke_nodes(
    organisation: &Organisation,
    nodes: &[Identity],
    printer: &OutputPrinter,
) -> CommandResult {
    let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    let kind = Some(PrincipalKind::Node);
    revoke_principals((organisation, printer), &names, kind, |_| true).await
}

/// Revokes the keys of these names with one new account token, and pushes it.
async fn revoke_principals(
    (organisation, printer): (&Organisation, &OutputPrinter),
    names: &[String],
    kind: Option<PrincipalKind>,
    confirm: impl FnOnce(&[RevokedKey]) -> bool,
) -> CommandResult {
    let register = open_register(organisation, printer).await?;
    let now = unix_millis_now();
    let selected =
        targets::resolve_keys(organisation, register.as_ref(), names, kind, now / 1000).await?;
    warn_of_unlisted(&selected, printer);
    if !confirm(&selected) {
        printer.print_message("nothing was revoked");
        return Ok(CommandExitCode::Local);
    }
    mark_revoked(register, &selected).await?;
    let lock = organisation.lock()?;
    let trusts = organisation.account_trusts()?;
    let unrevoked: Vec<RevokedKey> =
        selected.into_iter().filter(|candidate| !candidate.is_revoked(&trusts)).collect();
    if unrevoked.is_empty() {
        match names {
            [name] => printer.print_message(format_args!("{name} is already revoked")),
            _ => printer.print_message(format_args!("all {} are already revoked", names.len())),
        }
        return Ok(CommandExitCode::Passed);
    }
    for realm in [AccountRealm::Fleet, AccountRealm::Newcomers] {
        let realm_keys = unrevoked.iter().filter(|revoked| revoked.realm == realm);
        let keys: Vec<_> = realm_keys.map(|revoked| (revoked.key, revoked.issued_at)).collect();
        if !keys.is_empty() {
            organisation.revoke_keys(&lock, realm, &keys, now)?;
        }
    }
    print_revoked(&unrevoked, printer);
    push_revocation(organisation, &unrevoked, printer).await
}

/// The register of enrolled nodes in the broker. `None` if machines are not enrolled or the broker cannot be reached.
async fn open_register(
    organisation: &Organisation,
    printer: &OutputPrinter,
) -> Result<Option<NameRegister>> {
    if !organisation.had_enroller()? {
        return Ok(None);
    }
    match organisation.open_name_register(unix_millis_now()).await {
        Ok(register) if register.store_exists().await? => Ok(Some(register)),
        Ok(_) => Ok(None),
        Err(PushError::Bus(error)) => {
            printer.print_warning(format_args!(
                "cannot look up enrolled nodes, or mark their names as revoked: {error}"
            ));
            printer.print_hint("run `rpc org push` when the broker is reachable to mark them");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Marks the names in the register as revoked. This must precede the revocation: a token that the enroller signed before the mark is older
/// than the revocation, and it signs none after the mark.
async fn mark_revoked(register: Option<NameRegister>, selected: &[RevokedKey]) -> Result<()> {
    let Some(register) = register else {
        return Ok(());
    };
    let mut keys: BTreeMap<&Identity, Vec<PublicKey>> = BTreeMap::new();
    for revoked in selected {
        if let Some((_, name)) = &revoked.principal {
            keys.entry(name).or_default().push(revoked.key);
        }
    }
    for (name, keys) in keys {
        register.mark_revoked(name, &keys).await?;
    }
    Ok(register.close().await?)
}

fn warn_of_unlisted(selected: &[RevokedKey], printer: &OutputPrinter) {
    let mut unlisted = selected.iter().filter(|candidate| candidate.principal.is_none());
    match (unlisted.next(), unlisted.count()) {
        (None, _) => {}
        (Some(one), 0) => printer.print_warning(format_args!(
            "{} was issued neither here nor by a known enroller",
            one.key
        )),
        (Some(_), more) => printer.print_warning(format_args!(
            "{} keys were issued neither here nor by a known enroller",
            more + 1
        )),
    }
}

fn print_revoked(revoked_keys: &[RevokedKey], printer: &OutputPrinter) {
    for revoked in revoked_keys.iter().take(MAX_LISTED) {
        let key = revoked.key;
        let owner = match &revoked.principal {
            Some((kind, name)) => format!("{kind} {name} (key {key})"),
            None => format!("the key {key}"),
        };
        printer.print_message(format_args!("{GOOD}revoked{GOOD:#} {owner}"));
    }
    if revoked_keys.len() > MAX_LISTED {
        let more = revoked_keys.len() - MAX_LISTED;
        printer.print_message(format_args!("{GOOD}revoked{GOOD:#} {more} more"));
    }
}

/// The exit code reports a failed push, because the revocation is then not in force.
async fn push_revocation(
    organisation: &Organisation,
    revoked_keys: &[RevokedKey],
    printer: &OutputPrinter,
) -> CommandResult {
    let is_of_fleet = revoked_keys.iter().any(|revoked| revoked.realm == AccountRealm::Fleet);
    let pushed = if is_of_fleet {
        crate::commands::org::push::push_account_tokens(organisation, printer).await
    } else {
        // Enrollers get the token of their account from the broker.
        crate::commands::org::push::push_to_broker(organisation, printer)
            .await
            .map(|()| CommandExitCode::Passed)
    };
    match pushed {
        Err(error) => {
            let Some(PushError::Bus(cause)) = error.downcast_ref() else {
                return Err(error);
            };
            printer.print_warning(format_args!("saved, but not yet in force: {cause}"));
            printer.print_hint("run `rpc org push` when the broker is reachable; a broker that is started from now on has it already");
            Ok(CommandExitCode::Local)
        }
        Ok(exit) => {
            let principals = revoked_keys.iter().filter_map(|revoked| revoked.principal.as_ref());
            let nodes: Vec<&Identity> = principals
                .filter(|(kind, _)| *kind == PrincipalKind::Node)
                .map(|(_, name)| name)
                .take(MAX_CLEARED)
                .collect();
            if let Err(error) = organisation.clear_nodes(&nodes, unix_millis_now()).await {
                printer.print_warning(format_args!(
                    "cannot remove run permits of revoked nodes; they remain until they expire: {error}"
                ));
            }
            Ok(exit)
        }
    }
}

/// Asks for confirmation on a terminal. Impossible if the list of names comes from standard input.
fn confirm_revocation(selected: &[RevokedKey], has_list: bool, printer: &OutputPrinter) -> bool {
    if !io::stdin().is_terminal() {
        return true;
    }
    for candidate in selected.iter().take(MAX_LISTED) {
        if let Some((kind, name)) = &candidate.principal {
            let issued = format_time(candidate.issued_at);
            printer.print_question(format_args!(
                "{kind} {name} (key {}, issued {issued})",
                candidate.key
            ));
        }
    }
    if has_list || selected.len() > MAX_LISTED {
        printer
            .print_question(format_args!("{} in total", count_text(selected.len(), "key", "keys")));
    }
    confirm_on_terminal("Revoke permanently? [y/N]", printer) == Some(true)
}
