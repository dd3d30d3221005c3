//! `rpc broker`: configures and runs nats-server.

mod config;
mod rename;
mod run;

use super::org::open_organisation;
use crate::cli::broker::BrokerCommand;
use crate::commands::context::CommandResult;
use crate::environment::ProcessEnvironment;
use crate::printer::OutputPrinter;

/// Runs one of the commands.
pub fn run(
    command: BrokerCommand,
    environment: &ProcessEnvironment,
    printer: &OutputPrinter,
) -> CommandResult {
    match command {
        BrokerCommand::Config(args) => {
            config::run(&args, &open_organisation(&args.organisation, environment)?, printer)
        }
        BrokerCommand::Rename(args) => {
            rename::run(&args, open_organisation(&args.organisation, environment)?, printer)
        }
        BrokerCommand::Run(args) => run::run(
            &args,
            &open_organisation(&args.organisation, environment)?,
            environment,
            printer,
        ),
    }
}
