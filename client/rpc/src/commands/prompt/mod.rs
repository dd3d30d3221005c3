//! `rpc prompt`: prints what a shell's prompt shows of this machine. Reads one file; needs no configuration and no connection.

pub mod args;
pub mod output;

use std::time::{Duration, SystemTime};

use muster_client::read_cache_file;
use muster_contract::motd::{MAX_PROMPT_CACHE_BYTES, PROMPT_REFRESH_SECONDS, PromptStatus};

use crate::commands::prompt::args::PromptArgs;
use crate::commands::prompt::output::{PromptOptions, init_script, render_prompt};
use crate::flags::values::ColorMode;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

/// A file that is missing or unusable is no error, because a prompt appears every few seconds; `-v` says why.
pub fn run(args: &PromptArgs, color: ColorMode, cx: CommandContext<'_>) -> CommandResult {
    if let Some(shell) = args.init {
        cx.printer.print_text(init_script(shell))?;
        return Ok(CommandExitCode::Passed);
    }
    let Some((status, is_stale)) = read_status(args, cx) else {
        return Ok(CommandExitCode::Passed);
    };
    let options = PromptOptions {
        shell: args.shell,
        width: args.width,
        has_colors: match color {
            ColorMode::Always => true,
            ColorMode::Auto => !cx.environment.is_plain,
            ColorMode::Never => false,
        },
        is_stale,
    };
    cx.printer.print_text(render_prompt(&status, options))?;
    Ok(CommandExitCode::Passed)
}

/// The content of the file, and whether the daemon has not updated it for a long time.
fn read_status(args: &PromptArgs, cx: CommandContext<'_>) -> Option<(PromptStatus, bool)> {
    let explain = |problem: &str| {
        cx.printer.print_detail(format_args!("{}: {problem}", args.file.display()));
    };
    // Opening a pipe would wait for its writer.
    let Ok(metadata) =
        args.file.metadata().and_then(|found| Ok((found.is_file(), found.modified()?)))
    else {
        explain("does not exist; set prompt_cache in [plugins.motd] and start rpcd");
        return None;
    };
    let (true, modified) = metadata else {
        explain("is not a regular file");
        return None;
    };
    let limit = usize::try_from(MAX_PROMPT_CACHE_BYTES).unwrap_or(usize::MAX);
    let status = read_cache_file(&args.file, limit)
        .and_then(|content| serde_json::from_slice(&content).ok());
    if status.is_none() {
        explain("cannot be read, or its content is invalid");
    }
    let age = SystemTime::now().duration_since(modified).unwrap_or_default();
    Some((status?, age > 2 * Duration::from_secs(PROMPT_REFRESH_SECONDS)))
}
