//! `rpc provision host`: all that the host of the provisioner needs, in one directory. Its path is printed as data.
//!
//! What is given away is much: who has the directory can make nodes, and ask any agent. It can neither make callers nor revoke.

use crate::cli::provision::Host;
use crate::clock;
use crate::commands::org::{names, newcomers};
use crate::error::Error;
use crate::exit::Exit;
use crate::organisation::bundle::{self, PROVISIONER_HOME, name};
use crate::organisation::{Kind, Order, Organisation};
use crate::printer::{GOOD, Printer};

/// Runs it.
pub async fn run(
    args: Host,
    mut organisation: Organisation,
    printer: &Printer,
) -> Result<Exit, Error> {
    let lock = organisation.lock()?;
    newcomers::add(&mut organisation, &lock, printer).await?;
    let credentials = [
        (Kind::Service, name::SERVICE_CREDS),
        (Kind::Enroller, name::NEWCOMERS_CREDS),
    ];
    if !args.renew {
        bundle::require_absent(&args.out, &credentials.map(|(_, file)| file))?;
    }
    for (kind, file) in credentials {
        let order = Order {
            kind,
            name: args.name.clone(),
            tags: Vec::new(),
            expires: args.expires,
            renew: args.renew,
            out: Some(args.out.join(file)),
        };
        let now = clock::now();
        let prepared = organisation.prepare(&lock, &order, now)?;
        // Renewed credentials have a name that is reserved already.
        if !args.renew {
            names::reserve(&organisation, prepared.record(), now).await?;
        }
        organisation.record(&lock, prepared)?;
    }
    organisation.bundle_provisioner(&args.out)?;
    names::publish(&organisation, printer).await?;
    printer.say(format_args!(
        "{GOOD}made{GOOD:#} what the provisioner {} needs on its host",
        args.name
    ));
    printer.warn("whoever has this directory can make nodes of the fleet, and ask them anything");
    printer.line(args.out.display())?;
    printer.hint(format_args!(
        "move it to that host as {PROVISIONER_HOME}, root's and mode 0700, and its {} to /etc/muster/conf.d",
        name::PROVISIONER_CONFIG
    ));
    Ok(Exit::Passed)
}
