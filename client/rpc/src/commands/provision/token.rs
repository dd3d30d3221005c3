//! `rpc provision token`: makes a bootstrap token. The path of the credentials is printed as data.

use muster_wire::enrol::Ticket;
use muster_wire::identity::Identity;
use uuid::Uuid;

use crate::cli::provision::Token;
use crate::clock;
use crate::commands::org::{add, newcomers};
use crate::error::Error;
use crate::exit::Exit;
use crate::organisation::{Kind, Order, Organisation, OrganisationError};
use crate::printer::Printer;

/// Runs it.
pub async fn run(
    args: Token,
    mut organisation: Organisation,
    printer: &Printer,
) -> Result<Exit, Error> {
    let facts = args.facts.into_iter().map(|fact| (fact.name, fact.value));
    let ticket = Ticket {
        names: args.names,
        uses: args.uses,
        facts: facts.collect(),
    };
    let tags = ticket.tags().map_err(OrganisationError::from)?;
    let lock = organisation.lock()?;
    newcomers::add(&mut organisation, &lock, printer).await?;
    let order = Order {
        kind: Kind::Newcomer,
        name: args.name.map_or_else(made_up, Ok)?,
        tags,
        expires: Some(args.expires),
        renew: false,
        out: args.out,
    };
    let issued = organisation.issue(&lock, &order, clock::now())?;
    add::tell(&issued, printer);
    for name in &ticket.names {
        printer.say(format_args!("  lets in  {name}"));
    }
    if let Some(uses) = ticket.uses {
        printer.say(format_args!("  at most  {uses}"));
    }
    printer.line(issued.path.display())?;
    printer.hint(format_args!(
        "`rpc org revoke {}` ends it early",
        order.name
    ));
    Ok(Exit::Passed)
}

/// A name that nobody has: the random end of a UUID.
fn made_up() -> Result<Identity, OrganisationError> {
    let id = Uuid::now_v7().simple().to_string();
    let (_, random) = id.split_at(id.len().saturating_sub(8));
    Identity::parse(&format!("bootstrap-{random}"))
        .map_err(|error| OrganisationError::Name(error.to_string()))
}
