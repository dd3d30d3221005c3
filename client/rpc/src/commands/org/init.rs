//! `rpc org init`: makes an organisation, and says what to do with it.

use crate::cli::org::Init;
use crate::clock;
use crate::diagnostics::code;
use crate::error::Error;
use crate::exit::Exit;
use crate::organisation::{self, Plan};
use crate::printer::{GOOD, Printer};

/// Runs it.
pub fn run(args: Init, printer: &Printer) -> Result<Exit, Error> {
    let plan = Plan {
        directory: args.directory,
        name: args.name,
        collectives: args.collectives,
        hosts: args.hosts,
        port: i32::from(args.port),
        tls: !args.no_tls,
    };
    let made = organisation::create(plan, clock::now())?;
    let (profile, directory) = (made.profile(), made.layout().directory().display());
    printer.say(format_args!(
        "{GOOD}made{GOOD:#} the organisation {} in {directory}",
        profile.name
    ));
    printer.say(format_args!("  operator  {}", profile.operator));
    printer.say(format_args!("  account   {}", profile.account));
    printer.say(format_args!(
        "  broker    {}",
        profile.broker.urls.join(", ")
    ));
    printer.say("Keep the directory like a safe: whoever has its keys is the organisation.");
    printer.say("\nNext:");
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
        printer.say(format_args!("  {}  {purpose}", code(command)));
    }
    Ok(Exit::Passed)
}
