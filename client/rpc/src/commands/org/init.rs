//! `rpc org init`: creates an organisation and prints the next steps.

use crate::cli::org::OrgInitArgs;
use crate::commands::context::{CommandContext, CommandExitCode, CommandResult};
use crate::diagnostics::highlight_code;
use crate::organisation::{self, OrganisationSpec};
use crate::printer::GOOD;
use muster_base::unix_millis_now;

/// Runs the command.
pub fn run(args: OrgInitArgs, cx: CommandContext<'_>) -> CommandResult {
    let printer = cx.printer;
    let spec = OrganisationSpec {
        directory: args.directory,
        name: args.name,
        collectives: args.collectives,
        hosts: args.hosts,
        port: i32::from(args.port),
        tls: !args.no_tls,
    };
    let organisation = organisation::create_organisation(spec, unix_millis_now())?;
    let (profile, directory) =
        (organisation.profile(), organisation.layout().directory().display());
    printer.print_message(format_args!(
        "{GOOD}created{GOOD:#} the organisation {} in {directory}",
        profile.name
    ));
    printer.print_message(format_args!("  operator  {}", profile.operator));
    printer.print_message(format_args!("  account   {}", profile.account));
    printer.print_message(format_args!("  broker    {}", profile.broker.urls.join(", ")));
    printer.print_message(
        "Protect this directory: anyone who has its keys controls the organisation.",
    );
    printer.print_message("\nNext:");
    for (command, purpose) in [
        (format!("export MUSTER_ORG={directory}"), "let the other commands find it"),
        ("rpc broker run".to_owned(), "start the broker"),
        ("rpc org add node web1.acme.net --bundle ./web1".to_owned(), "create all files of a node"),
        (
            "rpc org add user NAME --bundle ~/.config/muster".to_owned(),
            "create all files of a user",
        ),
    ] {
        printer.print_message(format_args!("  {}  {purpose}", highlight_code(command)));
    }
    Ok(CommandExitCode::Passed)
}
