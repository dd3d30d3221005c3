//! `rpc upgrade`: runs another program of the daemon on nodes, batch by batch.

pub mod args;

use muster_operations::deploy::DeployChange;

use crate::commands::config;
use crate::commands::upgrade::args::UpgradeArgs;
use crate::session::context::{CommandContext, CommandResult};
use crate::session::errors::AllNodesError;

pub async fn run(args: UpgradeArgs, cx: CommandContext<'_>) -> CommandResult {
    if !args.all && !args.noop && !cx.read_target(&args.change.filters)?.is_filtered() {
        let command = "rpc upgrade".to_owned();
        return Err(AllNodesError { command, effect: "upgrades" }.into());
    }
    let program = args.program.as_str();
    let change = DeployChange::Upgrade { program, noop: args.noop };
    config::change_nodes(change, program, &args.change, cx).await
}
