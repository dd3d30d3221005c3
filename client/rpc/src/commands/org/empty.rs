//! `rpc org empty`: removes keys from a store of the broker, after a stolen key has filled it.

use muster_base::{duration_millis, format_duration, unix_millis_now};
use muster_display::count_text;
use muster_display::printer::GOOD;
use muster_organisation::StoredKeys;

use crate::commands::org::args::OrgEmptyArgs;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};
use crate::session::form::confirm_on_terminal;

pub async fn run(args: &OrgEmptyArgs, cx: CommandContext<'_>) -> CommandResult {
    let (organisation, printer) = (cx.open_organisation(&args.organisation)?, cx.printer);
    let (store, now) = (&args.store, unix_millis_now());
    let instant = args.since.map_or(0, |age| now.saturating_sub(duration_millis(age)));
    let found = organisation.keys_written_since(store, instant, now).await?;
    let StoredKeys { keys, bytes } = &found;
    let written = args
        .since
        .map_or_else(String::new, |age| format!(", written in the last {}", format_duration(age)));
    let size = bytes / 1024;
    let description = format!(
        "{} of {} ({size} KiB{written})",
        count_text(keys.len(), "key", "keys"),
        store.name
    );
    let question = format_args!("Remove {description} permanently? [y/N]");
    if !args.yes && confirm_on_terminal(question, printer) == Some(false) {
        printer.print_message("nothing was removed");
        return Ok(CommandExitCode::Local);
    }
    if args.all {
        organisation.empty_store(store, now).await?;
    } else {
        organisation.delete_keys(store, keys, unix_millis_now).await?;
    }
    printer.print_message(format_args!("{GOOD}removed{GOOD:#} {description}"));
    Ok(CommandExitCode::Passed)
}
