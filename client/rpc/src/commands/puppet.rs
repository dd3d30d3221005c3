//! `rpc puppet`: what Puppet does on nodes, and runs of it on many of them.

mod change;
mod look;
mod output;
mod past;
mod runs;

use super::context::Context;
use crate::cli::puppet::Puppet;
use crate::error::Error;
use crate::exit::Exit;

/// The agent that all of it asks, but for restarts.
const AGENT: &str = "puppet";

/// Runs one of the commands.
pub async fn run(command: Puppet, cx: Context<'_>) -> Result<Exit, Error> {
    match command {
        Puppet::Status(args) => look::status(args, cx).await,
        Puppet::Count(args) => look::count(args, cx).await,
        Puppet::Summary(args) => look::summary(args, cx).await,
        Puppet::Runonce(args) => runs::once(&args, cx).await,
        Puppet::Runall(args) => runs::all(&args, cx).await,
        Puppet::Enable(args) => change::enable(args, cx).await,
        Puppet::Disable(args) => change::disable(args, cx).await,
        Puppet::Restart(args) => change::restart(args, cx).await,
    }
}
