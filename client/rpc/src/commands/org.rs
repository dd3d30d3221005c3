//! `rpc org`: creates and manages an organisation.

pub mod add;
mod grant;
mod init;
pub mod list;
pub mod names;
pub mod newcomers;
mod push;
mod revoke;
pub mod show;

use crate::cli::org::{OrgCommand, OrgDirectoryArgs};
use crate::environment::ProcessEnvironment;
use crate::error::Error;
use crate::exit::CommandExitCode;
use crate::organisation::{Organisation, OrganisationError};
use crate::printer::OutputPrinter;

/// Runs one of the commands.
pub async fn run(
    command: OrgCommand,
    environment: &ProcessEnvironment,
    printer: &OutputPrinter,
) -> Result<CommandExitCode, Error> {
    let find = |place: &OrgDirectoryArgs| open_organisation(place, environment);
    match command {
        OrgCommand::Init(args) => init::run(args, printer),
        OrgCommand::Add(args) => add::run(args, find, printer).await,
        OrgCommand::List(args) => list::run(&args, &find(&args.place)?, printer),
        OrgCommand::Revoke(args) => revoke::run(&args, &find(&args.place)?, printer).await,
        OrgCommand::Grant(args) => grant::run(&args, &find(&args.place)?, printer),
        OrgCommand::Push(args) => push::run(&find(&args.place)?, args.replicas, printer).await,
        OrgCommand::Newcomers(args) => newcomers::run(find(&args.place)?, printer).await,
        OrgCommand::Show(args) => show::run(&args, &find(&args.place)?, printer),
    }
}

/// Opens the selected organisation.
pub fn open_organisation(
    place: &OrgDirectoryArgs,
    environment: &ProcessEnvironment,
) -> Result<Organisation, OrganisationError> {
    Organisation::open_selected(place.org.as_deref(), environment.organisation.as_deref())
}
