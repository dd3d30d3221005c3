//! `rpc org`: makes and keeps an organisation.

pub mod add;
mod grant;
mod init;
pub mod list;
pub mod names;
pub mod newcomers;
mod push;
mod revoke;
pub mod show;

use crate::cli::org::{Org, Where};
use crate::environment::Environment;
use crate::error::Error;
use crate::exit::Exit;
use crate::organisation::{Organisation, OrganisationError};
use crate::printer::Printer;

/// Runs one of the commands.
pub async fn run(
    command: Org,
    environment: &Environment,
    printer: &Printer,
) -> Result<Exit, Error> {
    let find = |place: &Where| find(place, environment);
    match command {
        Org::Init(args) => init::run(args, printer),
        Org::Add(args) => add::run(args, find, printer).await,
        Org::List(args) => list::run(&args, &find(&args.place)?, printer),
        Org::Revoke(args) => revoke::run(&args, &find(&args.place)?, printer).await,
        Org::Grant(args) => grant::run(&args, &find(&args.place)?, printer),
        Org::Push(args) => push::run(&find(&args.place)?, args.replicas, printer).await,
        Org::Newcomers(args) => newcomers::run(find(&args.place)?, printer).await,
        Org::Show(args) => show::run(&args, &find(&args.place)?, printer),
    }
}

/// Opens the organisation that is meant.
pub fn find(place: &Where, environment: &Environment) -> Result<Organisation, OrganisationError> {
    Organisation::find(place.org.as_deref(), environment.organisation.as_deref())
}
