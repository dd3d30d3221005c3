//! `rpc provision`: brings new machines in. What is done with the organisation's files is here; the service that lets machines in
//! is asked by the other commands.

mod token;

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
    }
}
