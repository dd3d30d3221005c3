//! `rpc org push`: pushes the account tokens to the running broker, creates the fleet's stores, and writes the token to them.

use muster_base::{error_chain, unix_millis_now};
use muster_display::count_text;
use muster_display::printer::{GOOD, OutputPrinter};
use muster_organisation::{
    AccountRealm, MissingStores, Organisation, OrganisationLock, PushError, StoreChange,
    StoreOptions,
};

use crate::commands::org::args::OrgPushArgs;
use crate::report::store_changes::print_store_changes;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};

pub async fn run(args: &OrgPushArgs, cx: CommandContext<'_>) -> CommandResult {
    let organisation = cx.open_organisation(&args.organisation)?;
    push_all(organisation, args.stores.options(MissingStores::CreateNew), cx.printer).await
}

/// Pushes the tokens, creates the stores, and writes what belongs into them.
pub async fn push_all(
    mut organisation: Organisation,
    options: StoreOptions,
    printer: &OutputPrinter,
) -> CommandResult {
    move_stores(&mut organisation, options, printer).await?;
    let organisation = &organisation;
    organisation.check_storage_space().await?;
    refresh_scopes(organisation, printer)?;
    push_to_broker(organisation, printer).await?;
    let declared = organisation.declare_stores(options, unix_millis_now()).await;
    match &declared {
        Ok(changes) => {
            print_store_changes(changes, printer);
            if changes.is_empty() {
                printer.print_message("the stores are up to date");
            }
            restore_names(organisation, printer).await?;
            push_names(organisation, printer).await?;
            renew_tokens(organisation, printer).await?;
        }
        Err(error) => printer.print_error(format_args!(
            "cannot create or update the stores: {}",
            error_chain(error)
        )),
    }
    warn_of_services(organisation, printer)?;
    let published = organisation.publish_account(unix_millis_now()).await;
    let is_same_error = matches!((&declared, &published), (Err(declared), Err(published))
        if error_chain(declared) == error_chain(published));
    if !is_same_error {
        let published = report_published(published, printer);
        if declared.is_ok() || published != CommandExitCode::Passed {
            return Ok(published);
        }
    }
    printer.print_hint("run `rpc org push` until it ends with code 0");
    Ok(CommandExitCode::Local)
}

/// Gives the stores of an organisation of an earlier version an account of their own.
async fn move_stores(
    organisation: &mut Organisation,
    options: StoreOptions,
    printer: &OutputPrinter,
) -> Result<()> {
    let lock = organisation.lock()?;
    if let Some(count) = organisation.move_stores(&lock, options, unix_millis_now()).await? {
        let keys = count_text(count, "key", "keys");
        printer.print_message(format_args!(
            "{GOOD}moved{GOOD:#} the stores to an account of their own, with {keys}"
        ));
    }
    Ok(())
}

/// Names services whose credentials are of an earlier version and name no right: the broker refuses what they serve.
fn warn_of_services(organisation: &Organisation, printer: &OutputPrinter) -> Result<()> {
    for name in organisation.services_without_rights(unix_millis_now())? {
        printer.print_warning(format_args!(
            "the credentials of the service {name} have no right, and the broker refuses what it serves"
        ));
        printer.print_hint(format_args!(
            "run `rpc org add service {name} --renew --serve directory` (or schedule, provision, compiler, history, gateway), and give it the new file"
        ));
    }
    Ok(())
}

/// Signs account tokens again if their permissions differ from those of this version, or if the services have changed.
fn refresh_scopes(organisation: &Organisation, printer: &OutputPrinter) -> Result<()> {
    let lock = organisation.lock()?;
    for realm in organisation.refresh_scopes(&lock, unix_millis_now())? {
        let account = match realm {
            AccountRealm::Fleet => "fleet",
            AccountRealm::Storage => "stores",
            AccountRealm::Newcomers => "newcomers",
        };
        printer.print_message(format_args!(
            "{GOOD}signed{GOOD:#} the account token of the {account} again, with the permissions of this version and the present services"
        ));
    }
    Ok(())
}

/// Restores lost names of enrolled machines, and prints them as a warning: the loss has a cause, which the administrator must find.
async fn restore_names(organisation: &Organisation, printer: &OutputPrinter) -> Result<()> {
    let restored = organisation.restore_names(unix_millis_now()).await?;
    if restored.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = restored.iter().map(ToString::to_string).collect();
    printer.print_warning(format_args!(
        "the store PROVISION had lost {}; restored from the tokens of these machines: {}",
        count_text(names.len(), "name of an enrolled machine", "names of enrolled machines"),
        names.join(", ")
    ));
    printer.print_hint(
        "machines that were not connected since are missing until they connect: run `rpc org push` again within a day; the histories of provisioning are lost, unless you restore a backup of the broker",
    );
    Ok(())
}

/// Writes the issued names for the enroller. Revokes a key again if it got a token after its revocation.
pub(super) async fn push_names(organisation: &Organisation, printer: &OutputPrinter) -> Result<()> {
    let lock = organisation.lock()?;
    let now = unix_millis_now();
    let outdated = organisation.push_names(&organisation.fleet_trust()?, now).await?;
    if outdated.is_empty() {
        return Ok(());
    }
    organisation.revoke_keys(&lock, AccountRealm::Fleet, &outdated, now)?;
    drop(lock);
    for (key, _) in &outdated {
        printer.print_warning(format_args!(
            "{key} was enrolled again before its revocation reached the broker; revoked again"
        ));
    }
    push_account_tokens(organisation, printer).await.map(drop)
}

/// Renews node tokens once a third of their validity has passed.
async fn renew_tokens(organisation: &Organisation, printer: &OutputPrinter) -> Result<()> {
    let lock = organisation.lock()?;
    let renewed = organisation.renew_tokens(&lock, unix_millis_now()).await?;
    match renewed.as_slice() {
        [] => {}
        [node] => printer.print_message(format_args!("{GOOD}renewed{GOOD:#} the token of {node}")),
        nodes => printer.print_message(format_args!(
            "{GOOD}renewed{GOOD:#} the tokens of {} nodes",
            nodes.len()
        )),
    }
    Ok(())
}

/// Pushes the tokens to the broker, and publishes the fleet's token for its nodes and callers.
pub async fn push_account_tokens(
    organisation: &Organisation,
    printer: &OutputPrinter,
) -> CommandResult {
    push_to_broker(organisation, printer).await?;
    publish_account(organisation, printer).await
}

/// Publishes the fleet's token for nodes and callers. The exit code reports a failure: the broker rejects revoked principals itself, but nodes still
/// execute a request of a revoked caller that another connection delivers.
pub(super) async fn publish_account(
    organisation: &Organisation,
    printer: &OutputPrinter,
) -> CommandResult {
    Ok(report_published(organisation.publish_account(unix_millis_now()).await, printer))
}

fn report_published(
    published: Result<Vec<StoreChange>, PushError>,
    printer: &OutputPrinter,
) -> CommandExitCode {
    let error = match published {
        Ok(created) => {
            print_store_changes(&created, printer);
            return CommandExitCode::Passed;
        }
        Err(error) => error,
    };
    printer.print_error(format_args!(
        "the broker has the account's token, but nodes and callers do not: {}",
        error_chain(&error)
    ));
    printer.print_hint("run `rpc org push` until it ends with code 0; the broker needs JetStream");
    CommandExitCode::Local
}

/// Adds the role of leaf nodes to the account token if it is missing, and pushes it. If the broker cannot be reached, a later push does so.
pub(super) async fn add_leaf_role(
    organisation: &Organisation,
    lock: &OrganisationLock,
    printer: &OutputPrinter,
) -> Result<()> {
    if !organisation.add_leaf_role(lock, unix_millis_now())? {
        return Ok(());
    }
    printer
        .print_message(format_args!("{GOOD}added{GOOD:#} the role of leaf nodes to the account"));
    match organisation.push_tokens(unix_millis_now()).await {
        Err(PushError::Bus(error)) => {
            printer.print_warning(format_args!("the broker does not have it yet: {error}"));
            printer.print_hint("run `rpc org push` before the leaf node connects");
            Ok(())
        }
        pushed => Ok(pushed?),
    }
}

pub(super) async fn push_to_broker(
    organisation: &Organisation,
    printer: &OutputPrinter,
) -> Result<()> {
    organisation.push_tokens(unix_millis_now()).await?;
    let urls = organisation.profile().broker.urls.join(", ");
    printer.print_message(format_args!("{GOOD}pushed{GOOD:#} the account's token to {urls}"));
    print_leaf_hint(organisation, printer)
}

/// Names the leaf nodes, which have account tokens of their own. `rpc` never connects to them with credentials of the system account: a leaf node could relay
/// the connection to the broker, because a signed nonce is bound to no server.
fn print_leaf_hint(organisation: &Organisation, printer: &OutputPrinter) -> Result<()> {
    for leaf in organisation.valid_leafs(unix_millis_now())? {
        printer.print_hint(format_args!(
            "the leaf node {name} gets the account's token with a new bundle (`rpc broker config --name {name} --leaf ...`) and a restart; until then it accepts connections of revoked users, whose requests nodes refuse",
            name = leaf.name
        ));
    }
    Ok(())
}
