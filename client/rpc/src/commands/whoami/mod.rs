//! `rpc whoami`: shows who the caller is to the nodes. Sends nothing.

pub mod args;
pub mod output;

use muster_base::unix_millis_now;
use muster_client::{CallerSummary, RpcSettings};

use crate::commands::whoami::args::WhoamiArgs;
use crate::commands::whoami::output::WhoamiDocument;
use crate::flags::json::JsonArgs;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

pub fn run(args: &WhoamiArgs, cx: CommandContext<'_>) -> CommandResult {
    let settings = cx.load_settings()?;
    let origin = cx.config_selection().select()?.origin;
    print_caller(settings, origin, &args.json, cx)
}

/// Returns [`CommandExitCode::Local`] if nodes reject its credentials.
pub fn print_caller(
    settings: &RpcSettings,
    origin: &str,
    json: &JsonArgs,
    cx: CommandContext<'_>,
) -> CommandResult {
    let json = json.form()?;
    let caller = CallerSummary::load(settings, unix_millis_now())?;
    let document = WhoamiDocument::new(settings, origin, &caller);
    cx.print_result(json.as_ref(), &document, || document.render_text())?;
    Ok(if caller.problem.is_none() { CommandExitCode::Passed } else { CommandExitCode::Local })
}
