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
use crate::commands::context::CommandResult;
use crate::environment::ProcessEnvironment;
use crate::organisation::{Organisation, OrganisationError};
use crate::printer::OutputPrinter;

/// Runs one of the commands.
pub async fn run(
    command: OrgCommand,
    environment: &ProcessEnvironment,
    printer: &OutputPrinter,
) -> CommandResult {
    let open = |directory: &OrgDirectoryArgs| open_organisation(directory, environment);
    match command {
        OrgCommand::Init(args) => init::run(args, printer),
        OrgCommand::Add(args) => add::run(args, open, printer).await,
        OrgCommand::List(args) => list::run(&args, &open(&args.organisation)?, printer),
        OrgCommand::Revoke(args) => revoke::run(&args, &open(&args.organisation)?, printer).await,
        OrgCommand::Grant(args) => grant::run(&args, &open(&args.organisation)?, printer),
        OrgCommand::Push(args) => {
            push::run(&open(&args.organisation)?, args.replicas, printer).await
        }
        OrgCommand::Newcomers(args) => newcomers::run(open(&args)?, printer).await,
        OrgCommand::Show(args) => show::run(&args, &open(&args.organisation)?, printer),
    }
}

/// Opens the selected organisation.
pub fn open_organisation(
    directory: &OrgDirectoryArgs,
    environment: &ProcessEnvironment,
) -> Result<Organisation, OrganisationError> {
    Organisation::open_selected(directory.org.as_deref(), environment.organisation.as_deref())
}
