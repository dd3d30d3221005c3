//! `rpc broker run`: becomes nats-server, so that signals and exit codes are the broker's own.

use std::os::unix::process::CommandExt as _;
#[expect(
    clippy::disallowed_types,
    reason = "becomes the broker; starts nothing beside itself"
)]
use std::process::Command;

use crate::broker::program::{self, BrokerError};
use crate::cli::broker::Run;
use crate::environment::Environment;
use crate::error::Error;
use crate::exit::Exit;
use crate::organisation::Organisation;
use crate::printer::Printer;

/// Runs it. Returns only if nats-server cannot be run.
#[expect(
    clippy::disallowed_types,
    reason = "becomes the broker; starts nothing beside itself"
)]
pub fn run(
    args: &Run,
    organisation: &Organisation,
    environment: &Environment,
    printer: &Printer,
) -> Result<Exit, Error> {
    let path = program::find(environment)?;
    let config = organisation.layout().broker_config();
    printer.detail(format_args!(
        "{} --config {}",
        path.display(),
        config.display()
    ));
    let source = Command::new(&path)
        .arg("--config")
        .arg(config)
        .args(&args.arguments)
        .exec();
    Err(BrokerError::Run { path, source }.into())
}
