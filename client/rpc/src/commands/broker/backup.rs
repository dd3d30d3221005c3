//! `rpc broker backup` and `rpc broker restore`: the keys of the broker's stores in a file, and back.

use muster_base::{format_duration, unix_millis_now};
use muster_display::count_text;
use muster_display::printer::GOOD;
use muster_display::time::format_time;
use muster_organisation::{MissingStores, StoreBackup};

use crate::commands::broker::args::{BrokerBackupArgs, BrokerRestoreArgs};
use crate::report::store_changes::print_store_changes;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};
use crate::session::form::confirm_on_terminal;

pub async fn back_up(args: &BrokerBackupArgs, cx: CommandContext<'_>) -> CommandResult {
    let (organisation, printer) = (cx.open_organisation(&args.organisation)?, cx.printer);
    let backup = organisation.back_up_stores(unix_millis_now()).await?;
    backup.write(&args.file)?;
    let (keys, path) = (describe_keys(&backup), args.file.display());
    printer.print_message(format_args!("{GOOD}saved{GOOD:#} {keys} in {path}"));
    Ok(CommandExitCode::Passed)
}

/// Writes the keys of a file into the stores.
pub async fn restore(args: &BrokerRestoreArgs, cx: CommandContext<'_>) -> CommandResult {
    let (organisation, printer) = (cx.open_organisation(&args.organisation)?, cx.printer);
    let backup = organisation.read_backup(&args.file)?;
    let age = unix_millis_now().saturating_sub(backup.time());
    let question = format!(
        "Restore {} of {} ({} old)? Keys that were written or removed since stay. [y/N]",
        describe_keys(&backup),
        format_time(backup.time() / 1000),
        format_duration(std::time::Duration::from_millis(age)),
    );
    if !args.yes && confirm_on_terminal(question, printer) == Some(false) {
        printer.print_message("nothing was changed");
        return Ok(CommandExitCode::Local);
    }
    let options = args.stores.options(MissingStores::CreateLost);
    let restored = organisation.restore_stores(&backup, options, unix_millis_now).await?;
    print_store_changes(&restored.changes, printer);
    let written = count_text(restored.written, "key", "keys");
    let kept = count_text(restored.kept, "key was", "keys were");
    printer.print_message(format_args!(
        "{GOOD}restored{GOOD:#} {written}; {kept} written or removed since, and not changed"
    ));
    printer.print_hint("run `rpc org push`, which writes the account token and the names that the organisation issued");
    Ok(CommandExitCode::Passed)
}

fn describe_keys(backup: &StoreBackup) -> String {
    let counts = backup.counts();
    let total = count_text(counts.values().sum::<usize>(), "key", "keys");
    let stores: Vec<String> =
        counts.iter().map(|(store, count)| format!("{store} {count}")).collect();
    format!("{total} ({})", stores.join(", "))
}
