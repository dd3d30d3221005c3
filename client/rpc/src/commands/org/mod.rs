//! `rpc org`: creates and manages an organisation.

pub mod add;
pub mod args;
mod backup;
mod empty;
pub mod errors;
mod grant;
mod init;
pub mod issue;
pub mod list;
mod monitor;
pub mod names;
pub mod newcomers;
pub mod program;
pub mod push;
pub mod revoke;
mod rotate;
pub mod show;
pub mod site;
mod ssh_authority;

use crate::commands::org::args::OrgCommand;
use crate::session::context::{CommandContext, CommandResult};

pub async fn run(command: OrgCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        OrgCommand::Init(args) => init::run(args, cx).await,
        OrgCommand::Add(args) => add::run(args, cx).await,
        OrgCommand::List(args) => list::run(&args, cx),
        OrgCommand::Revoke(args) => revoke::run(&args, cx).await,
        OrgCommand::Grant(args) => grant::run(&args, cx),
        OrgCommand::Rotate(args) => rotate::run(&args, cx).await,
        OrgCommand::Push(args) => push::run(&args, cx).await,
        OrgCommand::Empty(args) => empty::run(&args, cx).await,
        OrgCommand::Backup(args) => backup::back_up(&args, cx).await,
        OrgCommand::Restore(args) => backup::restore(&args, cx).await,
        OrgCommand::Monitor(args) => monitor::run(&args, cx).await,
        OrgCommand::Newcomers(args) => newcomers::run(&args, cx).await,
        OrgCommand::Show(args) => show::run(&args, cx),
        OrgCommand::Program(command) => program::run(command, cx).await,
        OrgCommand::SshCa(command) => ssh_authority::run(command, cx).await,
    }
}
