//! `rpc org grant`: issues temporary credentials with additional permissions, which expire by themselves.
//!
//! They have a key of their own, so that revoking a grant early does not revoke the user's permanent credentials.

use muster_base::unix_millis_now;
use muster_display::printer::GOOD;
use muster_display::time::format_time;
use muster_organisation::{
    CredentialRecord, CredentialSpec, CredentialState, Organisation, OrganisationError,
    PrincipalKind,
};
use muster_wire::token::claims::UserClaims;
use muster_wire::token::decode::{DecodedToken, decode_token};
use muster_wire::token::scope::CallerGrant;

use crate::commands::org::{args as org, issue};
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

/// Prints the path of the credentials as data.
pub fn run(args: &org::OrgGrantArgs, cx: CommandContext<'_>) -> CommandResult {
    let (organisation, printer) = (&cx.open_organisation(&args.organisation)?, cx.printer);
    let now = unix_millis_now();
    let lock = organisation.lock()?;
    let current = current_grants(organisation, args, now / 1000)?;
    if current.contains(&CallerGrant::Everything) {
        printer.print_message(format_args!(
            "{} may already call every agent; only the policy of a node can deny a request",
            args.name
        ));
        return Ok(CommandExitCode::Passed);
    }
    let grants = issue::complete_grants(current.into_iter().chain(args.agents.clone()).collect())?;
    let until = (now / 1000).saturating_add(args.lifetime.as_secs());
    let path = args.out.clone().unwrap_or_else(|| {
        let default_path = organisation.layout().principal_creds(PrincipalKind::User, &args.name);
        default_path.with_file_name(format!("{}.until-{until}.creds", args.name))
    });
    let spec = CredentialSpec {
        kind: PrincipalKind::User,
        name: args.name.clone(),
        tags: grants.iter().map(CallerGrant::to_tag).collect(),
        expires: Some(args.lifetime),
        renew: true,
        out: Some(path),
    };
    let issued = organisation.issue_credentials(&lock, &spec, now)?;
    let tags: Vec<String> = args.agents.iter().map(CallerGrant::to_tag).collect();
    let (tags, until, name) = (tags.join(" "), format_time(until), &args.name);
    printer.print_message(format_args!("{GOOD}granted{GOOD:#} {tags} to {name}, until {until}"));
    printer.print_line(issued.path.display())?;
    let (path, key) = (issued.path.display(), issued.record.key);
    printer.print_hint(format_args!(
        "{name} uses the grant with `RPC_CREDENTIALS={path} rpc ...`; run `rpc org revoke {key}` to end it early"
    ));
    printer.print_hint(
        "the nodes' policies must allow the requests, too; add a policy line with `until=...`",
    );
    Ok(CommandExitCode::Passed)
}

/// The current permissions of the user: those of the valid credentials with the latest expiry, and of these the newest. A grant extends them.
fn current_grants(
    organisation: &Organisation,
    args: &org::OrgGrantArgs,
    now: u64,
) -> Result<Vec<CallerGrant>, OrganisationError> {
    let trust = organisation.fleet_trust()?;
    let account = &trust.claims().nats;
    let records = organisation.read_records()?;
    let is_valid = |record: &&CredentialRecord| {
        record.kind == PrincipalKind::User
            && record.name == args.name
            && record.credential_state(account, now) == CredentialState::Valid
    };
    // Credentials that never expire rank highest.
    let rank = |record: &&CredentialRecord| (record.expires.unwrap_or(u64::MAX), record.issued_at);
    let newest = records
        .iter()
        .filter(is_valid)
        .max_by_key(rank)
        .ok_or_else(|| OrganisationError::Unknown(args.name.to_string()))?;
    let claims = decode_token::<UserClaims>(&newest.token)
        .and_then(DecodedToken::verify_signature)
        .map_err(|source| OrganisationError::Token(organisation.layout().ledger_file(), source))?;
    let grants = claims.nats.tags.iter();
    let grants = grants.filter_map(|tag| tag.strip_prefix("agent:"));
    Ok(grants.filter_map(|text| text.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use muster_display::printer::VerbosityLevel;
    use muster_wire::token::{TokenError, UserCredentials};

    use muster_base::unix_millis_now;

    use super::{CallerGrant, CommandContext, run};
    use crate::commands::org::args as org;
    use crate::report::testing::printer;
    use crate::session::context::Configuration;
    use crate::session::environment::ProcessEnvironment;

    use muster_organisation::{
        CredentialSpec, Organisation, OrganisationSpec, PrincipalKind, create_organisation,
    };

    fn organisation(directory: &Path) -> Organisation {
        let spec = OrganisationSpec {
            directory: directory.to_owned(),
            name: Some("acme".to_owned()),
            collectives: vec!["muster".parse().unwrap()],
            hosts: Vec::new(),
            port: 4222,
            tls: false,
        };
        create_organisation(spec, unix_millis_now()).unwrap()
    }

    fn user(organisation: &Organisation, grants: &[&str]) -> UserCredentials {
        let lock = organisation.lock().unwrap();
        let order = CredentialSpec {
            kind: PrincipalKind::User,
            name: "anna".parse().unwrap(),
            tags: grants
                .iter()
                .map(|grant| grant.parse::<CallerGrant>().unwrap().to_tag())
                .collect(),
            expires: None,
            renew: false,
            out: None,
        };
        organisation.issue_credentials(&lock, &order, unix_millis_now()).unwrap().creds
    }

    fn grant(
        organisation: &Organisation,
        directory: &Path,
    ) -> (crate::outcome::exit::CommandExitCode, Option<UserCredentials>) {
        let (printer, data, _) = printer(VerbosityLevel::Normal);
        let args = org::OrgGrantArgs {
            name: "anna".parse().unwrap(),
            agents: vec!["service.restart".parse().unwrap()],
            lifetime: Duration::from_hours(2),
            organisation: crate::flags::org_directory::OrgDirectoryArgs {
                org: Some(organisation.layout().directory().to_owned()),
            },
            out: Some(directory.join("grant.creds")),
        };
        let environment = ProcessEnvironment::default();
        let cx = CommandContext {
            config: None,
            context: None,
            environment: &environment,
            configuration: &Configuration::default(),
            printer: &printer,
        };
        let exit = run(&args, cx).unwrap();
        let path = data.text();
        let creds = std::fs::read_to_string(path.trim()).ok();
        (exit, creds.map(|text| UserCredentials::parse(&text).unwrap()))
    }

    #[test]
    fn grant_adds_a_permission_that_expires() {
        let scratch = tempfile::tempdir().unwrap();
        let organisation = organisation(&scratch.path().join("acme"));
        let usual = user(&organisation, &["rpcutil", "puppetral.plan"]);
        let (_, granted) = grant(&organisation, scratch.path());
        let granted = granted.unwrap();
        assert_eq!(granted.claims().name, "anna");
        assert_ne!(granted.claims().sub, usual.claims().sub);
        let mut tags = granted.claims().nats.tags.clone();
        tags.sort();
        assert_eq!(tags, ["agent:puppetral.plan", "agent:rpcutil", "agent:service.restart"]);
        let trust = organisation.fleet_trust().unwrap();
        let now = unix_millis_now();
        trust.verify_user(granted.jwt(), now).unwrap();
        let later = now + 3 * 60 * 60 * 1000;
        let over = trust.verify_user(granted.jwt(), later).unwrap_err();
        assert!(matches!(over, TokenError::Expired { .. }), "{over}");
        trust.verify_user(usual.jwt(), later).unwrap();
        assert_eq!(organisation.read_records().unwrap().len(), 2);
    }

    #[test]
    fn unrestricted_user_gets_no_grant() {
        let scratch = tempfile::tempdir().unwrap();
        let organisation = organisation(&scratch.path().join("acme"));
        user(&organisation, &["*"]);
        assert!(grant(&organisation, scratch.path()).1.is_none());
        assert_eq!(organisation.read_records().unwrap().len(), 1);
    }
}
