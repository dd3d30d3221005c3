//! `rpc org init`: creates an organisation and prints the next steps.

use crate::cli::org::OrgInitArgs;
use crate::clock;
use crate::diagnostics::highlight_code;
use crate::error::Error;
use crate::exit::CommandExitCode;
use crate::organisation::{self, OrganisationSpec};
use crate::printer::{GOOD, OutputPrinter};

/// Runs the command.
pub fn run(args: OrgInitArgs, printer: &OutputPrinter) -> Result<CommandExitCode, Error> {
    let plan = OrganisationSpec {
        directory: args.directory,
        name: args.name,
        collectives: args.collectives,
        hosts: args.hosts,
        port: i32::from(args.port),
        tls: !args.no_tls,
    };
    let made = organisation::create_organisation(plan, clock::now())?;
    let (profile, directory) = (made.profile(), made.layout().directory().display());
    printer.print_message(format_args!(
        "{GOOD}made{GOOD:#} the organisation {} in {directory}",
        profile.name
    ));
    printer.print_message(format_args!("  operator  {}", profile.operator));
    printer.print_message(format_args!("  account   {}", profile.account));
    printer.print_message(format_args!(
        "  broker    {}",
        profile.broker.urls.join(", ")
    ));
    printer
        .print_message("Keep the directory like a safe: whoever has its keys is the organisation.");
    printer.print_message("\nNext:");
    for (command, purpose) in [
        (
            format!("export MUSTER_ORG={directory}"),
            "so that the other commands find it",
        ),
        ("rpc broker run".to_owned(), "starts the broker"),
        (
            "rpc org add node web1.acme.net --bundle ./web1".to_owned(),
            "all that a node needs",
        ),
        (
            "rpc org add user NAME --bundle ~/.config/muster".to_owned(),
            "all that you need",
        ),
    ] {
        printer.print_message(format_args!("  {}  {purpose}", highlight_code(command)));
    }
    Ok(CommandExitCode::Passed)
}
