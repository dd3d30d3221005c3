//! Dispatches commands, one file per command. A command receives its inputs as values, prints through the printer and returns its exit code; it does
//! not read the command line or the environment.

mod approve;
pub mod audit;
mod broker;
mod cancel;
mod completion;
mod context;
pub mod contexts;
mod copy;
pub mod demo;
mod doctor;
mod events;
mod explain;
mod facts;
mod filter;
mod find;
pub mod form;
mod inquiry;
pub mod inventory;
mod job;
mod listen;
pub mod org;
mod permit;
mod ping;
pub mod plugin;
mod policy;
mod provision;
mod puppet;
mod request;
mod run;
mod schema;
mod seen;
mod stats;
pub mod table;
mod whoami;

use std::cell::OnceCell;

use context::CommandContext;

use crate::cli::{Cli, Command};
use crate::environment::ProcessEnvironment;
use crate::error::Error;
use crate::exit::CommandExitCode;
use crate::printer::OutputPrinter;

/// Runs the parsed command.
pub async fn run(
    cli: Cli,
    environment: &ProcessEnvironment,
    printer: &OutputPrinter,
) -> Result<CommandExitCode, Error> {
    let loaded_settings = &OnceCell::new();
    let config = cli.global.config.as_deref();
    let context = cli.global.context.as_deref();
    let cx = CommandContext { config, context, environment, loaded_settings, printer };
    match cli.command {
        Command::Ping(args) => ping::run(args, cx).await,
        Command::Find(args) => find::run(args, cx).await,
        Command::Facts(args) => facts::run(args, cx).await,
        Command::Inventory(args) => inventory::run(args, cx).await,
        Command::Do(args) => Box::pin(request::run(*args, cx)).await,
        Command::Run(args) => Box::pin(run::run(*args, cx)).await,
        Command::Cp(args) => Box::pin(copy::run(*args, cx)).await,
        Command::Listen(args) => Box::pin(listen::run(*args, cx)).await,
        Command::Events(args) => events::run(args, cx).await,
        Command::Cancel(args) => cancel::run(args, cx).await,
        Command::Stats(args) => stats::run(args, cx).await,
        Command::Doctor(args) => doctor::run(args, cx).await,
        Command::Approve(args) => approve::run(&args, cx),
        Command::Explain(args) => explain::run(args, cx).await,
        Command::Job(command) => job::run(command, cx).await,
        Command::Filter(command) => filter::run(&command, cx),
        Command::Puppet(command) => Box::pin(puppet::run(*command, cx)).await,
        Command::Permit(command) => Box::pin(permit::run(command, cx)).await,
        Command::Plugin(command) => plugin::run(command, cx).await,
        Command::Audit(command) => audit::run(command, cx),
        Command::Whoami(args) => whoami::run(&args, cx),
        Command::Context(command) => contexts::run(command, cx),
        Command::Policy(command) => policy::run(command, cx),
        Command::Org(command) => org::run(command, cx).await,
        Command::Provision(command) => provision::run(command, cx).await,
        Command::Broker(command) => broker::run(command, cx),
        Command::Demo(command) => demo::run(command, cx).await,
        Command::Schema(args) => schema::run(&args, cx),
        Command::Completion(args) => completion::run(&args, cx),
        Command::Complete(args) => completion::answer_shell(&args, cx),
        Command::Man(args) => completion::write_man_pages(&args),
    }
}
