//! `rpc demo`: a broker and some nodes on this machine, each with a scratch root, so that everything can be tried.
//!
//! ```text
//! DIR/.muster-demo    says that the directory is a demonstration's
//! DIR/demo.json       what was started
//! DIR/rpc.toml        the client's configuration, with its credentials beside it
//! DIR/org/            the organisation
//! DIR/nodes/NAME/     a node: rpcd.toml, facts, classes, policies, state, and root/, which is its machine
//! DIR/virtual/        instead of them, what one process needs that runs many
//! DIR/log/            what everybody said
//! ```

mod broker;
mod down;
mod error;
mod fleet;
mod node;
mod process;
mod ready;
mod record;
mod status;
mod up;
mod virtual_nodes;

use std::path::PathBuf;

use crate::cli::demo::{DemoCommand, DemoDirectoryArgs};
use crate::environment::ProcessEnvironment;
use crate::error::Error;
use crate::exit::CommandExitCode;
use crate::printer::OutputPrinter;

pub use error::DemoError;

/// Runs one of the commands.
pub async fn run(
    command: DemoCommand,
    environment: &ProcessEnvironment,
    printer: &OutputPrinter,
) -> Result<CommandExitCode, Error> {
    match command {
        DemoCommand::Up(args) => {
            up::run(
                &args,
                demo_directory(&args.place, environment)?,
                environment,
                printer,
            )
            .await
        }
        DemoCommand::Status(place) => status::run(&demo_directory(&place, environment)?, printer),
        DemoCommand::Down(place) => down::run(&demo_directory(&place, environment)?, printer).await,
    }
}

/// The demonstration's directory.
fn demo_directory(
    place: &DemoDirectoryArgs,
    environment: &ProcessEnvironment,
) -> Result<PathBuf, DemoError> {
    let own = || {
        environment
            .cache_home
            .as_ref()
            .map(|cache| cache.join("muster/demo"))
    };
    let directory = place
        .directory
        .clone()
        .or_else(own)
        .ok_or(DemoError::NoPlace)?;
    Ok(std::path::absolute(&directory).unwrap_or(directory))
}
