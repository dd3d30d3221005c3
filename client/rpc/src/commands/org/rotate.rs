//! `rpc org rotate`: replaces a key that signs credentials, the operator's key, or the TLS authority. The first call adds a new one, the second one removes the old one.
//! A call that failed at the broker is repeated with the same command.

mod operator;

use muster_base::unix_millis_now;
use muster_display::list_first_nodes;
use muster_display::printer::{GOOD, OutputPrinter};
use muster_organisation::{Organisation, PrincipalKind, RotationStart};
use muster_wire::identity::Identity;

use crate::commands::org::args::{OrgRotateArgs, RotatedKey};
use crate::commands::org::{push, ssh_authority};
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};

/// Most names that are listed individually.
const MAX_LISTED: usize = 20;

pub async fn run(args: &OrgRotateArgs, cx: CommandContext<'_>) -> CommandResult {
    let (organisation, printer) = (&mut cx.open_organisation(&args.organisation)?, cx.printer);
    match (args.key, args.finish) {
        (RotatedKey::Administrator, _) => rotate_administrator_key(organisation, printer).await,
        (RotatedKey::System, _) => rotate_system_key(organisation, printer).await,
        (RotatedKey::Operator, false) => operator::start_rotation(organisation, printer).await,
        (RotatedKey::Operator, true) => {
            operator::finish_rotation(organisation, args.force, printer).await
        }
        (RotatedKey::SshAuthority, false) => {
            ssh_authority::start_rotation(organisation, printer).await
        }
        (RotatedKey::SshAuthority, true) => {
            ssh_authority::finish_rotation(organisation, printer).await
        }
        (RotatedKey::Authority, false) => start_authority(organisation, printer),
        (RotatedKey::Authority, true) => finish_authority(organisation, printer),
        (RotatedKey::Signing(kind), false) => start_rotation(organisation, kind, printer).await,
        (RotatedKey::Signing(kind), true) => {
            finish_rotation(organisation, kind, args.force, printer).await
        }
    }
}

/// Replaces the key that signs administrators. Their credentials are valid for one minute and belong to one command, so there is one step.
async fn rotate_administrator_key(
    organisation: &Organisation,
    printer: &OutputPrinter,
) -> CommandResult {
    let lock = organisation.lock()?;
    organisation.rotate_administrator_key(&lock, unix_millis_now())?;
    drop(lock);
    printer.print_message(format_args!("{GOOD}replaced{GOOD:#} the key that signs administrators"));
    push::push_account_tokens(organisation, printer).await
}

/// Replaces the key that signs users of the system account, and the credentials of the one that this directory has.
async fn rotate_system_key(organisation: &Organisation, printer: &OutputPrinter) -> CommandResult {
    let lock = organisation.lock()?;
    organisation.rotate_system_key(&lock, unix_millis_now()).await?;
    printer.print_message(format_args!(
        "{GOOD}replaced{GOOD:#} the key and the credentials of the system account; the old credentials are invalid now"
    ));
    printer.print_hint(format_args!(
        "copies of {}, such as those of a monitoring system, must be replaced",
        organisation.layout().system_creds().display()
    ));
    Ok(CommandExitCode::Passed)
}

/// Adds a new TLS authority to `ca.pem`.
fn start_authority(organisation: &Organisation, printer: &OutputPrinter) -> CommandResult {
    let lock = organisation.lock()?;
    let start = organisation.start_authority_rotation(&lock)?;
    let file = organisation.layout().authority_certificate();
    printer.print_message(match start {
        RotationStart::Started => format!("{GOOD}created{GOOD:#} a new TLS authority"),
        RotationStart::Continued => "the new TLS authority exists already".to_owned(),
    });
    printer.print_hint(format_args!(
        "install {} on all brokers; it contains both authorities; `rpc org push` gives it to nodes and users; then run `rpc org rotate authority --finish`",
        file.display()
    ));
    Ok(CommandExitCode::Passed)
}

/// Issues the broker's certificate from the new TLS authority.
fn finish_authority(organisation: &Organisation, printer: &OutputPrinter) -> CommandResult {
    let lock = organisation.lock()?;
    if !organisation.finish_authority_rotation(&lock)? {
        printer.print_message("there is only one TLS authority");
        return Ok(CommandExitCode::Passed);
    }
    printer.print_message(format_args!(
        "{GOOD}issued{GOOD:#} a certificate of the new TLS authority for the broker"
    ));
    printer.print_hint("install broker.pem and broker.key at each broker, and reload it with HUP; after that, install ca.pem there and run `rpc org push`, which gives it to nodes and users");
    Ok(CommandExitCode::Passed)
}

/// Adds a new key, pushes the account token that lists both keys, and signs the tokens of nodes with the new one.
async fn start_rotation(
    organisation: &Organisation,
    kind: PrincipalKind,
    printer: &OutputPrinter,
) -> CommandResult {
    let lock = organisation.lock()?;
    let start = organisation.start_rotation(&lock, kind, unix_millis_now())?;
    drop(lock);
    printer.print_message(match start {
        RotationStart::Started => {
            format!("{GOOD}created{GOOD:#} a new key that signs the credentials of each {kind}")
        }
        RotationStart::Continued => {
            format!("the new key that signs the credentials of each {kind} exists already")
        }
    });
    push::push_to_broker(organisation, printer).await?;
    if kind == PrincipalKind::Node {
        sign_node_tokens(organisation, printer).await?;
    }
    let exit = push::publish_account(organisation, printer).await?;
    let now = unix_millis_now();
    let outdated = organisation.names_of_old_keys(kind, now)?;
    print_names(&outdated, "need new credentials", printer);
    printer.print_hint(match kind {
        PrincipalKind::Node => "connected nodes get their new tokens within a minute; replace the key of the provisioner's host, then run `rpc org rotate node --finish`".to_owned(),
        kind => format!("create new credentials with `rpc org add ... --renew` and install them, then run `rpc org rotate {kind} --finish`"),
    });
    Ok(exit)
}

/// The tokens must be in the trust bucket before the new account token is: nodes look for theirs at that moment.
async fn sign_node_tokens(organisation: &Organisation, printer: &OutputPrinter) -> Result<()> {
    push::push_names(organisation, printer).await?;
    let lock = organisation.lock()?;
    let signed = organisation.sign_node_tokens_again(&lock, unix_millis_now()).await?;
    printer.print_message(format_args!(
        "{GOOD}signed{GOOD:#} new tokens for nodes with the new key: {}",
        signed.len()
    ));
    Ok(())
}

/// Removes the old key, unless valid credentials of it have no replacement.
async fn finish_rotation(
    organisation: &Organisation,
    kind: PrincipalKind,
    force: bool,
    printer: &OutputPrinter,
) -> CommandResult {
    let outdated = if force { Vec::new() } else { find_outdated(organisation, kind).await? };
    if !outdated.is_empty() {
        print_names(&outdated, "have credentials of the old key only", printer);
        printer
            .print_error("the rotation was not finished: these credentials would become invalid");
        printer.print_hint(format_args!(
            "run `rpc org rotate {kind}` again for nodes, or `rpc org add ... --renew` for others; --force makes them invalid"
        ));
        return Ok(CommandExitCode::Local);
    }
    let lock = organisation.lock()?;
    let removed = organisation.finish_rotation(&lock, kind, unix_millis_now())?;
    drop(lock);
    printer.print_message(match removed {
        0 => format!("only one key signs the credentials of each {kind}"),
        _ => format!("{GOOD}removed{GOOD:#} the old key; its credentials are invalid now"),
    });
    push::push_account_tokens(organisation, printer).await
}

/// The names that would lose access.
async fn find_outdated(organisation: &Organisation, kind: PrincipalKind) -> Result<Vec<Identity>> {
    let now = unix_millis_now();
    let mut outdated: Vec<Identity> = organisation.names_of_old_keys(kind, now)?;
    if kind == PrincipalKind::Node {
        outdated.extend(organisation.nodes_of_old_keys(now).await?);
    }
    outdated.sort();
    outdated.dedup();
    Ok(outdated)
}

fn print_names(names: &[Identity], state: &str, printer: &OutputPrinter) {
    if !names.is_empty() {
        let names = list_first_nodes(names, MAX_LISTED, ", ");
        printer.print_warning(format_args!("{state}: {names}"));
    }
}
