//! Keeps the names that are issued here in the broker, where the enroller looks before it gives a name to a machine.

use muster_bus::BucketError;
use muster_wire::Millis;

use crate::clock;
use crate::error::Error;
use crate::organisation::push::PushError;
use crate::organisation::{AccountRealm, CredentialRecord, Organisation};
use crate::printer::OutputPrinter;

/// Reserves the name of credentials that are about to be issued. Where no enroller has credentials there is nothing to do: an enroller that
/// is made later enrols no machine before all names are in the broker.
///
/// With an enroller the broker has to be reached. A name that is issued and not reserved could be given to a machine.
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
        // Without the store no machine is enrolled, and `rpc org push` writes all names when it makes the store.
        Ok(()) | Err(PushError::Stores(BucketError::Missing { .. })) => {
            Ok(register.close().await?)
        }
        Err(error) => Err(error.into()),
    }
}

/// Writes all names to the broker, which an enroller waits for; says so when the broker cannot be reached.
pub async fn publish_names(
    organisation: &Organisation,
    printer: &OutputPrinter,
) -> Result<(), Error> {
    let trust = organisation.fleet_trust()?;
    match organisation.push_names(&trust, clock::now()).await {
        Ok(_) => Ok(()),
        Err(PushError::Bus(_) | PushError::Stores(_)) => {
            printer.print_hint("run `rpc org push` before the first machine is enrolled: the enroller waits for the names that were issued here");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
