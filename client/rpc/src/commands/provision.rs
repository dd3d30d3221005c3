//! `rpc provision`: brings new machines in. What is done with the organisation's files is here; the service that lets machines in
//! is asked by the other commands.

mod host;
mod release;
mod service;
mod status;
mod token;
mod user_data;
mod wish;

use crate::cli::provision::Provision;
use crate::commands::context::Context;
use crate::commands::org::find;
use crate::error::Error;
use crate::exit::Exit;

/// Runs one of the commands.
pub async fn run(command: Provision, cx: Context<'_>) -> Result<Exit, Error> {
    match command {
        Provision::Token(args) => {
            let organisation = find(&args.place, cx.environment)?;
            token::run(args, organisation, cx.printer).await
        }
        Provision::Status(args) => status::run(args, cx).await,
        Provision::Watch(args) => status::watch(&args, cx).await,
        Provision::Retry(args) => wish::run("retry", &args.nodes, cx).await,
        Provision::Pause(args) => wish::run("pause", &args.nodes, cx).await,
        Provision::Resume(args) => wish::run("resume", &args.nodes, cx).await,
        Provision::Retire(args) => wish::retire(&args, cx).await,
        Provision::Release(args) => {
            let organisation = find(&args.place, cx.environment)?;
            release::run(&args, &organisation, cx.printer).await
        }
        Provision::Host(args) => {
            let organisation = find(&args.place, cx.environment)?;
            host::run(args, organisation, cx.printer).await
        }
        Provision::UserData(args) => {
            let organisation = find(&args.place, cx.environment)?;
            user_data::run(&args, &organisation, cx.printer)
        }
    }
}
