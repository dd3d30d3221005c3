//! `rpc broker`: configures and runs nats-server.

mod config;
mod rename;
mod run;

use super::org::find;
use crate::cli::broker::Broker;
use crate::environment::Environment;
use crate::error::Error;
use crate::exit::Exit;
use crate::printer::Printer;

/// Runs one of the commands.
pub fn run(command: Broker, environment: &Environment, printer: &Printer) -> Result<Exit, Error> {
    match command {
        Broker::Config(args) => config::run(&args, &find(&args.place, environment)?, printer),
        Broker::Rename(args) => rename::run(&args, find(&args.place, environment)?, printer),
        Broker::Run(args) => run::run(
            &args,
            &find(&args.place, environment)?,
            environment,
            printer,
        ),
    }
}
