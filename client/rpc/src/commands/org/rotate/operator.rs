//! `rpc org rotate operator`: replaces the operator's key. The first call makes it name its successor, the second one lets the successor sign.
//! Brokers read operator.jwt at their start only, so they are restarted after each call.

use muster_base::unix_millis_now;
use muster_display::printer::{GOOD, OutputPrinter};
use muster_organisation::{BrokerOperators, Organisation, RotationStart};
use muster_wire::token::PublicKey;

use crate::commands::org::push;
use crate::session::context::{CommandExitCode, CommandResult};

/// Adds the statement that names the next operator to the account tokens, and pushes them.
pub(super) async fn start_rotation(
    organisation: &Organisation,
    printer: &OutputPrinter,
) -> CommandResult {
    let lock = organisation.lock()?;
    let start = organisation.start_operator_rotation(&lock, unix_millis_now())?;
    drop(lock);
    printer.print_message(match start {
        RotationStart::Started => {
            format!("{GOOD}created{GOOD:#} a new operator key; the present one names it as its successor")
        }
        RotationStart::Continued => "the new operator key exists already".to_owned(),
    });
    let exit = push::push_account_tokens(organisation, printer).await?;
    let token = organisation.layout().operator_token();
    printer.print_hint(format_args!(
        "copy {} to each broker, and restart the brokers one at a time; then run `rpc org rotate operator --finish`",
        token.display()
    ));
    Ok(exit)
}

/// Signs all account tokens with the new key, unless a server of the broker would refuse them.
pub(super) async fn finish_rotation(
    organisation: &mut Organisation,
    force: bool,
    printer: &OutputPrinter,
) -> CommandResult {
    let Some(next) = organisation.next_operator()? else {
        printer.print_message("the operator has no successor");
        // An earlier call may have failed at the broker.
        return push::push_account_tokens(organisation, printer).await;
    };
    if !force && !is_accepted_by_broker(organisation, next, printer).await? {
        return Ok(CommandExitCode::Local);
    }
    let lock = organisation.lock()?;
    organisation.finish_operator_rotation(&lock, unix_millis_now())?;
    drop(lock);
    printer.print_message(format_args!(
        "{GOOD}replaced{GOOD:#} the operator's key; nodes refuse account tokens of the old one from now on"
    ));
    let exit = push::push_account_tokens(organisation, printer).await?;
    printer.print_hint(format_args!(
        "copy {} to each broker again, and restart the brokers one at a time; set `trust.operator` of nodes and clients to {next}, and replace their account.jwt, at the next opportunity",
        organisation.layout().operator_token().display()
    ));
    Ok(exit)
}

/// Whether all servers of the broker accept tokens of the next operator; explains what to do if not.
async fn is_accepted_by_broker(
    organisation: &Organisation,
    next: PublicKey,
    printer: &OutputPrinter,
) -> crate::session::context::Result<bool> {
    let BrokerOperators { accepting, refusing } = organisation.find_broker_operators(next).await?;
    if refusing.is_empty() {
        printer.print_message(format_args!(
            "servers of the broker that accept the new operator: {}",
            accepting.join(", ")
        ));
        return Ok(true);
    }
    printer.print_error(format_args!(
        "the rotation was not finished: these servers of the broker do not accept the new operator {next}: {}",
        refusing.join(", ")
    ));
    printer.print_hint(format_args!(
        "copy {} to them, restart them, and run the command again",
        organisation.layout().operator_token().display()
    ));
    Ok(false)
}
