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

use crate::cli::demo::{Demo, Place};
use crate::environment::Environment;
use crate::error::Error;
use crate::exit::Exit;
use crate::printer::Printer;

pub use error::DemoError;

/// Runs one of the commands.
pub async fn run(
    command: Demo,
    environment: &Environment,
    printer: &Printer,
) -> Result<Exit, Error> {
    match command {
        Demo::Up(args) => {
            up::run(
                &args,
                directory(&args.place, environment)?,
                environment,
                printer,
            )
            .await
        }
        Demo::Status(place) => status::run(&directory(&place, environment)?, printer),
        Demo::Down(place) => down::run(&directory(&place, environment)?, printer).await,
    }
}

/// The demonstration's directory.
fn directory(place: &Place, environment: &Environment) -> Result<PathBuf, DemoError> {
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
