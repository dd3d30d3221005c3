//! The commands, one file each. A command gets what it needs as values, prints through the printer, and says how it
//! ended; it reads neither the command line nor the environment.

mod broker;
pub mod demo;
mod org;
pub mod table;

use crate::cli::{Cli, Command};
use crate::environment::Environment;
use crate::error::Error;
use crate::exit::Exit;
use crate::printer::Printer;

/// Runs the command that was typed. Commands that ask the fleet begin with [`crate::settings::Settings::load`].
pub async fn run(cli: Cli, environment: &Environment, printer: &Printer) -> Result<Exit, Error> {
    match cli.command {
        Command::Org(command) => org::run(command, environment, printer).await,
        Command::Broker(command) => broker::run(command, environment, printer),
        Command::Demo(command) => demo::run(command, environment, printer).await,
    }
}
