//! `rpc provision`: enrols new machines. Some commands work on the organisation's files; the others call the provisioning service.

pub mod args;
mod control;
mod issue;
pub mod output;
mod service;
mod status;
mod user_data;

use muster_contract::provisioner::{ProvisionerPause, ProvisionerResume, ProvisionerRetry};

use crate::commands::provision::args::ProvisionCommand;
use crate::session::context::{CommandContext, CommandResult};

pub async fn run(command: ProvisionCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        ProvisionCommand::Token(args) => issue::issue_token(args, cx).await,
        ProvisionCommand::Status(args) => status::run(args, cx).await,
        ProvisionCommand::Watch(args) => status::watch_nodes(&args, cx).await,
        ProvisionCommand::Retry(args) => control::run::<ProvisionerRetry>(&args.nodes, cx).await,
        ProvisionCommand::Pause(args) => control::run::<ProvisionerPause>(&args.nodes, cx).await,
        ProvisionCommand::Resume(args) => control::run::<ProvisionerResume>(&args.nodes, cx).await,
        ProvisionCommand::Retire(args) => Box::pin(control::retire_nodes(&args, cx)).await,
        ProvisionCommand::Release(args) => issue::release_names(&args, cx).await,
        ProvisionCommand::Host(args) => issue::create_host_files(args, cx).await,
        ProvisionCommand::UserData(args) => user_data::run(&args, cx),
    }
}
