//! Writes issued names to the broker, where the enroller checks a name before it admits a machine.

use muster_base::{error_chain, unix_millis_now};
use muster_bus::BucketError;
use muster_display::printer::OutputPrinter;
use muster_organisation::{AccountRealm, CredentialRecord, Organisation, PushError};
use muster_wire::Millis;

use crate::session::context::Error;

/// Reserves the name before credentials are issued. Does nothing if no enroller has credentials: an enroller that is added later admits no
/// machine before all names are in the broker.
///
/// With an enroller the broker must be reachable, because an issued name without a reservation could be given to a machine.
pub async fn reserve_name(
    organisation: &Organisation,
    record: &CredentialRecord,
    now: Millis,
) -> Result<(), Error> {
    if record.kind.realm() != AccountRealm::Fleet || !organisation.has_enroller(now)? {
        return Ok(());
    }
    let register = match organisation.open_name_register(now).await {
        Ok(register) => register,
        Err(PushError::Bus(error)) => {
            let name = record.name.to_string();
            return Err(PushError::NotReserved { name, error }.into());
        }
        Err(error) => return Err(error.into()),
    };
    match register.reserve_name(record).await {
        // Without the store no machine is enrolled, and `rpc org push` writes all names when it creates the store.
        Ok(()) | Err(PushError::Stores(BucketError::Missing { .. })) => {
            Ok(register.close().await?)
        }
        Err(error) => Err(error.into()),
    }
}

/// Publishes the token of a new node, which an enroller renews. Prints a warning if the broker cannot be reached.
pub async fn publish_token(
    organisation: &Organisation,
    record: &CredentialRecord,
    now: Millis,
    printer: &OutputPrinter,
) -> Result<(), Error> {
    if record.token_life().is_none() || !organisation.has_enroller(now)? {
        return Ok(());
    }
    if let Err(error) = organisation.publish_token(record, now).await {
        let reason = error_chain(&error);
        printer.print_warning(format_args!(
            "the enroller cannot renew the token of {} yet: {reason}",
            record.name
        ));
        printer.print_hint("run `rpc org push` before the token expires");
    }
    Ok(())
}

/// Writes all names to the broker, which an enroller waits for. Prints a warning if the broker cannot be reached.
pub async fn publish_names(
    organisation: &Organisation,
    printer: &OutputPrinter,
) -> Result<(), Error> {
    let trust = organisation.fleet_trust()?;
    match organisation.push_names(&trust, unix_millis_now()).await {
        Ok(_) => Ok(()),
        Err(PushError::Bus(_) | PushError::Stores(_)) => {
            printer.print_hint("run `rpc org push` before the first machine is enrolled: the enroller waits for the names that were issued here");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
