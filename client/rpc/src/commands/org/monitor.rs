//! `rpc org monitor`: writes a directory for a monitoring system. Prints its path as data.

use muster_base::unix_millis_now;
use muster_display::printer::GOOD;

use crate::commands::org::args::OrgMonitorArgs;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

pub async fn run(args: &OrgMonitorArgs, cx: CommandContext<'_>) -> CommandResult {
    let (organisation, printer) = (cx.open_organisation(&args.organisation)?, cx.printer);
    let lock = organisation.lock()?;
    let (expires, replace, now) = (args.expires, args.replace, unix_millis_now());
    organisation.write_monitor_directory(&lock, &args.directory, expires, replace, now).await?;
    if args.replace {
        printer.print_message(format_args!(
            "{GOOD}ended{GOOD:#} all earlier credentials of monitoring systems"
        ));
    }
    printer.print_line(args.directory.display())?;
    printer.print_hint(format_args!(
        "copy it to the monitoring host, and run `rpc broker status --org {}` there",
        args.directory.display()
    ));
    Ok(CommandExitCode::Passed)
}
