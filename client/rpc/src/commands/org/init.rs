//! `rpc org init`: creates an organisation and prints the next steps.

use muster_base::unix_millis_now;
use muster_display::printer::{GOOD, highlight_code};
use muster_organisation;
use muster_organisation::{OrganisationSpec, create_organisation};

use crate::commands::org::args::OrgInitArgs;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

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
    let organisation = create_organisation(spec, unix_millis_now())?;
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
    printer.print_message("");
    printer.print_message("Next:");
    let steps = [
        (&*format!("export MUSTER_ORG={directory}"), "let the other commands find it"),
        ("rpc broker run", "start the broker"),
        ("rpc org add node web1.acme.net --bundle ./web1", "create all files of a node"),
        ("rpc org add user NAME --bundle ~/.config/muster", "create all files of a user"),
    ];
    for (command, purpose) in steps {
        printer.print_message(format_args!("  {}  {purpose}", highlight_code(command)));
    }
    Ok(CommandExitCode::Passed)
}
