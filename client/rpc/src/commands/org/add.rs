//! `rpc org add`: makes credentials. The path of what was made is printed as data.

use std::time::Duration;

use muster_wire::bundle::SIGN_TAG;
use muster_wire::identity::Name;
use muster_wire::limits::NODE_TOKEN_SECONDS;
use muster_wire::token::scope::Grant;

use super::names;
use crate::cli::org::{Add, Party, Where};
use crate::clock;
use crate::error::Error;
use crate::exit::Exit;
use crate::organisation::{Issued, Kind, Order, Organisation, OrganisationError, bundle};
use crate::printer::{GOOD, Printer};

/// The agent that everybody may ask: without it a node cannot even be found.
const ALWAYS: &str = "rpcutil";

/// How long the credentials of a node are valid where an enroller renews them.
const RENEWED_LIFETIME: Duration = Duration::from_secs(NODE_TOKEN_SECONDS);

/// Runs it.
pub async fn run(
    args: Add,
    find: impl FnOnce(&Where) -> Result<Organisation, OrganisationError>,
    printer: &Printer,
) -> Result<Exit, Error> {
    let (kind, party, tags, directory) = match args {
        Add::User(args) => {
            let signs = args.sign_plugins.then(|| SIGN_TAG.to_owned());
            let grants = grants(args.agents)?;
            let tags = grants.iter().map(Grant::tag).chain(signs).collect();
            (Kind::User, args.party, tags, args.bundle)
        }
        Add::Node(args) => (Kind::Node, args.party, Vec::new(), args.bundle),
        Add::Service(args) => (Kind::Service, args.party, Vec::new(), None),
        Add::Enroller(args) => (Kind::Enroller, args.party, Vec::new(), None),
    };
    let organisation = find(&party.place)?;
    let lock = organisation.lock()?;
    if let Some(directory) = directory.as_deref().filter(|_| !party.renew) {
        bundle::require_free(directory, kind)?;
    }
    let Party {
        name,
        expires,
        renew,
        out,
        ..
    } = party;
    let now = clock::now();
    let expires = match expires {
        Some(expiry) => expiry.lifetime(),
        None if kind == Kind::Node && organisation.has_enroller(now)? => Some(RENEWED_LIFETIME),
        None => None,
    };
    let order = Order {
        kind,
        name,
        tags,
        expires,
        renew,
        out,
    };
    let prepared = organisation.prepare(&lock, &order, now)?;
    names::reserve(&organisation, prepared.record(), now).await?;
    let issued = organisation.record(&lock, prepared)?;
    tell(&issued, printer);
    if kind == Kind::Enroller {
        names::publish(&organisation, printer).await?;
    }
    printer.line(issued.path.display())?;
    if let Some(directory) = directory {
        match kind {
            Kind::User => organisation.bundle_user(&directory, &issued.creds)?,
            _ => organisation.bundle_node(
                &directory,
                &issued.creds,
                &order.name,
                bundle::NoExtra {},
            )?,
        }
        printer.line(directory.display())?;
        next(kind, &directory.display().to_string(), printer);
    }
    Ok(Exit::Passed)
}

/// What the user may ask: everything, or what was named and the agent that all may ask.
pub fn grants(named: Vec<Grant>) -> Result<Vec<Grant>, OrganisationError> {
    if named.is_empty() || named.contains(&Grant::Everything) {
        return Ok(vec![Grant::Everything]);
    }
    let always = Name::parse(ALWAYS).map_err(|error| OrganisationError::Name(error.to_string()))?;
    let mut grants = named;
    grants.push(Grant::Agent(always));
    grants.sort();
    grants.dedup();
    Ok(grants)
}

/// Says what was issued, to whom and until when.
pub fn tell(issued: &Issued, printer: &Printer) {
    let record = &issued.record;
    let until = record.expires.map_or_else(
        || "without end".to_owned(),
        |at| format!("until {}", clock::written(at)),
    );
    let (kind, name) = (record.kind, &record.name);
    printer.say(format_args!(
        "{GOOD}issued{GOOD:#} credentials for {kind} {name}, valid {until}"
    ));
    printer.detail(format_args!("  key {}", record.key));
}

fn next(kind: Kind, directory: &str, printer: &Printer) {
    match kind {
        Kind::User => printer.hint(format_args!("export RPC_CONFIG={directory}/rpc.toml")),
        _ => printer.hint(format_args!(
            "copy {directory} to the node as /etc/muster, and start rpcd there"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::grants;

    #[test]
    fn everybody_may_ask_what_finds_nodes() {
        let tags = |words: &[&str]| -> Vec<String> {
            let named = words.iter().map(|word| word.parse().unwrap()).collect();
            grants(named)
                .unwrap()
                .iter()
                .map(super::Grant::tag)
                .collect()
        };
        assert_eq!(tags(&[]), ["agent:*"]);
        assert_eq!(tags(&["puppetral", "*"]), ["agent:*"]);
        assert_eq!(
            tags(&["service.status"]),
            ["agent:rpcutil", "agent:service.status"]
        );
        assert_eq!(tags(&["rpcutil", "rpcutil"]), ["agent:rpcutil"]);
    }
}
