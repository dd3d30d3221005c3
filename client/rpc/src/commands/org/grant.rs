//! `rpc org grant`: more rights for a short time, as credentials of their own that end by themselves.
//!
//! They have a key of their own: to revoke a grant early must not void the credentials that its owner has anyway.

use muster_wire::token::claims::User;
use muster_wire::token::decode::{Decoded, decode};
use muster_wire::token::scope::Grant;

use super::add;
use crate::cli::org;
use crate::clock;
use crate::error::Error;
use crate::exit::Exit;
use crate::organisation::{Kind, Order, Organisation, OrganisationError, Record, State};
use crate::printer::{GOOD, Printer};

/// Runs it. The path of the credentials is printed as data.
pub fn run(
    args: &org::Grant,
    organisation: &Organisation,
    printer: &Printer,
) -> Result<Exit, Error> {
    let now = clock::now();
    let lock = organisation.lock()?;
    let had = held(organisation, args, now / 1000)?;
    if had.contains(&Grant::Everything) {
        printer.say(format_args!(
            "{} may ask every agent already; what else denies is the policy of a node",
            args.name
        ));
        return Ok(Exit::Passed);
    }
    let grants = add::grants(had.into_iter().chain(args.agents.clone()).collect())?;
    let until = (now / 1000).saturating_add(args.lifetime.as_secs());
    let path = args.out.clone().unwrap_or_else(|| {
        let usual = organisation.layout().party(Kind::User, &args.name);
        usual.with_file_name(format!("{}.until-{until}.creds", args.name))
    });
    let order = Order {
        kind: Kind::User,
        name: args.name.clone(),
        tags: grants.iter().map(Grant::tag).collect(),
        expires: Some(args.lifetime),
        renew: true,
        out: Some(path),
    };
    let issued = organisation.issue(&lock, &order, now)?;
    let tags: Vec<String> = args.agents.iter().map(Grant::tag).collect();
    printer.say(format_args!(
        "{GOOD}granted{GOOD:#} {} to {}, until {}",
        tags.join(" "),
        args.name,
        clock::written(until)
    ));
    printer.line(issued.path.display())?;
    printer.hint(format_args!(
        "{} asks with `RPC_CREDENTIALS={} rpc ...`; `rpc org revoke {}` ends it early",
        args.name,
        issued.path.display(),
        issued.record.key
    ));
    printer.hint("the nodes' policies have the last word: give a line for it `until=...`, too");
    Ok(Exit::Passed)
}

/// What the user may ask now: what the newest credentials that are valid for longest say. A grant widens what there is.
fn held(
    organisation: &Organisation,
    args: &org::Grant,
    now: u64,
) -> Result<Vec<Grant>, OrganisationError> {
    let trust = organisation.trust()?;
    let account = &trust.claims().nats;
    let records = organisation.records()?;
    let valid = |record: &&Record| {
        record.kind == Kind::User
            && record.name == args.name
            && record.state(account, now) == State::Valid
    };
    // Those without an end come after all others.
    let rank = |record: &&Record| (record.expires.unwrap_or(u64::MAX), record.issued_at);
    let newest = records
        .iter()
        .filter(valid)
        .max_by_key(rank)
        .ok_or_else(|| OrganisationError::Unknown(args.name.to_string()))?;
    let claims = decode::<User>(&newest.token)
        .and_then(Decoded::verify)
        .map_err(|source| OrganisationError::Token {
            path: organisation.layout().ledger(),
            source,
        })?;
    let named = claims.nats.tags.iter();
    let named = named.filter_map(|tag| tag.strip_prefix("agent:"));
    Ok(named.filter_map(|word| word.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use muster_wire::token::{Creds, TokenError};

    use super::{Grant, run};
    use crate::cli::org;
    use crate::clock;
    use crate::organisation::{Kind, Order, Organisation};
    use crate::printer::Talk;
    use crate::printer::testing::printer;

    fn organisation(directory: &Path) -> Organisation {
        let (printer, ..) = printer(Talk::Quiet);
        let args = org::Init {
            directory: directory.to_owned(),
            name: Some("acme".to_owned()),
            collectives: vec!["muster".parse().unwrap()],
            hosts: Vec::new(),
            port: 4222,
            no_tls: true,
        };
        crate::commands::org::init::run(args, &printer).unwrap();
        Organisation::open(directory).unwrap()
    }

    fn user(organisation: &Organisation, grants: &[&str]) -> Creds {
        let lock = organisation.lock().unwrap();
        let order = Order {
            kind: Kind::User,
            name: "anna".parse().unwrap(),
            tags: grants
                .iter()
                .map(|grant| grant.parse::<Grant>().unwrap().tag())
                .collect(),
            expires: None,
            renew: false,
            out: None,
        };
        organisation
            .issue(&lock, &order, clock::now())
            .unwrap()
            .creds
    }

    fn grant(organisation: &Organisation, directory: &Path) -> (crate::exit::Exit, Option<Creds>) {
        let (printer, data, _) = printer(Talk::Normal);
        let args = org::Grant {
            name: "anna".parse().unwrap(),
            agents: vec!["service.restart".parse().unwrap()],
            lifetime: Duration::from_hours(2),
            place: org::Where { org: None },
            out: Some(directory.join("grant.creds")),
        };
        let exit = run(&args, organisation, &printer).unwrap();
        let path = data.text();
        let creds = std::fs::read_to_string(path.trim()).ok();
        (exit, creds.map(|text| Creds::parse(&text).unwrap()))
    }

    #[test]
    fn a_grant_widens_what_there_is_and_ends_by_itself() {
        let scratch = tempfile::tempdir().unwrap();
        let organisation = organisation(&scratch.path().join("acme"));
        let usual = user(&organisation, &["rpcutil", "puppetral.plan"]);
        let (_, granted) = grant(&organisation, scratch.path());
        let granted = granted.unwrap();
        assert_eq!(granted.claims().name, "anna");
        assert_ne!(granted.claims().sub, usual.claims().sub);
        let mut tags = granted.claims().nats.tags.clone();
        tags.sort();
        assert_eq!(
            tags,
            [
                "agent:puppetral.plan",
                "agent:rpcutil",
                "agent:service.restart"
            ]
        );
        let trust = organisation.trust().unwrap();
        let now = clock::now();
        trust.verify_user(granted.jwt(), now).unwrap();
        let later = now + 3 * 60 * 60 * 1000;
        let over = trust.verify_user(granted.jwt(), later).unwrap_err();
        assert!(matches!(over, TokenError::Expired { .. }), "{over}");
        trust.verify_user(usual.jwt(), later).unwrap();
        assert_eq!(organisation.records().unwrap().len(), 2);
    }

    #[test]
    fn who_may_everything_is_granted_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let organisation = organisation(&scratch.path().join("acme"));
        user(&organisation, &["*"]);
        assert!(grant(&organisation, scratch.path()).1.is_none());
        assert_eq!(organisation.records().unwrap().len(), 1);
    }
}
