//! `rpc puppet`: shows Puppet's state on nodes, and starts runs on many nodes.

pub mod args;
mod change;
pub mod output;
mod query;
mod resume;
pub mod run_output;
mod runs;

use crate::commands::puppet::args::PuppetCommand;
use crate::session::context::{CommandContext, CommandResult};

pub async fn run(command: PuppetCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        PuppetCommand::Status(args) => query::show_status(args, cx).await,
        PuppetCommand::Count(args) => query::show_counts(args, cx).await,
        PuppetCommand::Summary(args) => query::show_summary(args, cx).await,
        PuppetCommand::Runonce(args) => runs::run_once(&args, cx).await,
        PuppetCommand::Runall(args) => runs::run_all(&args, cx).await,
        PuppetCommand::Enable(args) => change::enable_runs(args, cx).await,
        PuppetCommand::Disable(args) => change::disable_runs(args, cx).await,
        PuppetCommand::Restart(args) => change::restart_daemon(args, cx).await,
    }
}
