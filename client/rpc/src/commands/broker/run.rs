//! `rpc broker run`: replaces the process with nats-server, so that signals and exit codes are those of the broker.

use std::os::unix::process::CommandExt as _;
#[expect(
    clippy::disallowed_types,
    reason = "replaces this process by the broker; starts no other process"
)]
use std::process::Command;

use crate::broker::program::{self, BrokerProgramError};
use crate::cli::broker::BrokerRunArgs;
use crate::commands::context::CommandResult;
use crate::environment::ProcessEnvironment;
use crate::organisation::Organisation;
use crate::printer::OutputPrinter;

/// Runs nats-server. Returns only if the exec fails.
#[expect(
    clippy::disallowed_types,
    reason = "replaces this process by the broker; starts no other process"
)]
pub fn run(
    args: &BrokerRunArgs,
    organisation: &Organisation,
    environment: &ProcessEnvironment,
    printer: &OutputPrinter,
) -> CommandResult {
    let path = program::find_nats_server(environment)?;
    let config = organisation.layout().broker_config();
    printer.print_detail(format_args!("{} --config {}", path.display(), config.display()));
    let source = Command::new(&path).arg("--config").arg(config).args(&args.arguments).exec();
    Err(BrokerProgramError::Run { path, source }.into())
}
