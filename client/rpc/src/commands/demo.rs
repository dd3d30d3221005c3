//! `rpc demo`: runs a broker and some nodes on this machine, each node with a scratch root, for trying out commands.
//!
//! ```text
//! DIR/.muster-demo    marks the directory as one of a demonstration
//! DIR/demo.json       processes that were started
//! DIR/rpc.toml        configuration of the client, with its credentials in the same directory
//! DIR/org/            the organisation
//! DIR/nodes/NAME/     a node: rpcd.toml, facts, classes, policies, state, and root/, its scratch root
//! DIR/virtual/        used instead for one process that runs many nodes
//! DIR/log/            logs of all processes
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
use crate::commands::context::{CommandContext, CommandResult};
use crate::environment::ProcessEnvironment;

pub use error::DemoError;

/// Runs one of the commands.
pub async fn run(command: DemoCommand, cx: CommandContext<'_>) -> CommandResult {
    let directory = |args: &DemoDirectoryArgs| demo_directory(args, cx.environment);
    match command {
        DemoCommand::Up(args) => up::run(&args, directory(&args.demo)?, cx).await,
        DemoCommand::Status(args) => status::run(&directory(&args)?, cx.printer),
        DemoCommand::Down(args) => down::run(&directory(&args)?, cx.printer).await,
    }
}

/// Directory of the demonstration.
fn demo_directory(
    args: &DemoDirectoryArgs,
    environment: &ProcessEnvironment,
) -> Result<PathBuf, DemoError> {
    let default_directory =
        || environment.cache_home.as_ref().map(|cache| cache.join("muster/demo"));
    let directory =
        args.directory.clone().or_else(default_directory).ok_or(DemoError::NoDirectory)?;
    Ok(std::path::absolute(&directory).unwrap_or(directory))
}
