//! The commands of provisioning that need the organisation's keys: a bootstrap token, the files of a host, and the release of names.

use muster_base::unix_millis_now;
use muster_display::printer::GOOD;
use muster_organisation::bundle::{PROVISIONER_HOME, name};
use muster_organisation::{CredentialSpec, OrganisationError, PrincipalKind, bundle};
use muster_wire::enrol::TokenGrant;
use muster_wire::identity::Identity;
use muster_wire::token::ServiceRight;
use uuid::Uuid;

use crate::commands::org::{add, names, newcomers};
use crate::commands::provision::args::{
    BootstrapTokenArgs, ProvisionHostArgs, ProvisionReleaseArgs,
};
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

/// `rpc provision token`: issues a bootstrap token. Prints the path of the credentials as data.
pub async fn issue_token(args: BootstrapTokenArgs, cx: CommandContext<'_>) -> CommandResult {
    let mut organisation = cx.open_organisation(&args.organisation)?;
    let printer = cx.printer;
    let facts = args.facts.into_iter().map(|fact| (fact.name, fact.value));
    let grant = TokenGrant { names: args.names, uses: args.uses, facts: facts.collect() };
    let tags = grant.to_tags().map_err(OrganisationError::from)?;
    let lock = organisation.lock()?;
    newcomers::add_account(&mut organisation, &lock, printer).await?;
    let spec = CredentialSpec {
        kind: PrincipalKind::Newcomer,
        name: args.name.map_or_else(random_name, Ok)?,
        tags,
        expires: Some(args.expires),
        renew: false,
        out: args.out,
    };
    let issued = organisation.issue_credentials(&lock, &spec, unix_millis_now())?;
    add::print_issued(&issued, printer);
    for name in &grant.names {
        printer.print_message(format_args!("  admits    {name}"));
    }
    if let Some(uses) = grant.uses {
        printer.print_message(format_args!("  max uses  {uses}"));
    }
    printer.print_line(issued.path.display())?;
    printer.print_hint(format_args!("run `rpc org revoke {}` to end it early", spec.name));
    Ok(CommandExitCode::Passed)
}

/// An unused name from the random end of a UUID.
fn random_name() -> Result<Identity, OrganisationError> {
    let id = Uuid::now_v7().simple().to_string();
    let (_, random) = id.split_at(id.len().saturating_sub(8));
    Identity::parse(&format!("bootstrap-{random}"))
        .map_err(|error| OrganisationError::Name(error.to_string()))
}

/// `rpc provision host`: writes all files that the provisioner's host needs to one directory. Prints its path as data.
///
/// The directory is highly privileged: it allows creating nodes and calling any agent. It allows neither creating callers nor revoking keys.
pub async fn create_host_files(args: ProvisionHostArgs, cx: CommandContext<'_>) -> CommandResult {
    let mut organisation = cx.open_organisation(&args.organisation)?;
    let printer = cx.printer;
    let lock = organisation.lock()?;
    newcomers::add_account(&mut organisation, &lock, printer).await?;
    let credentials = [
        (
            PrincipalKind::Service,
            name::SERVICE_CREDS,
            ServiceRight::tags(&[ServiceRight::Provision]),
        ),
        (PrincipalKind::Enroller, name::NEWCOMERS_CREDS, Vec::new()),
    ];
    if !args.renew {
        bundle::require_absent(&args.out, &[name::SERVICE_CREDS, name::NEWCOMERS_CREDS])?;
    }
    for (kind, file, tags) in credentials {
        let spec = CredentialSpec {
            kind,
            name: args.name.clone(),
            tags,
            expires: args.expires,
            renew: args.renew,
            out: Some(args.out.join(file)),
        };
        let now = unix_millis_now();
        let prepared = organisation.prepare_credentials(&lock, &spec, now)?;
        // The name of renewed credentials is reserved already.
        if !args.renew {
            names::reserve_name(&organisation, prepared.record(), now).await?;
        }
        organisation.record_credentials(&lock, prepared)?;
    }
    organisation.bundle_provisioner(&args.out)?;
    names::publish_names(&organisation, printer).await?;
    printer.print_message(format_args!(
        "{GOOD}created{GOOD:#} the files of the provisioner {} for its host",
        args.name
    ));
    printer.print_warning(
        "anyone who has this directory can add nodes to the fleet and send them any request",
    );
    printer.print_line(args.out.display())?;
    printer.print_hint(format_args!(
        "move it to that host as {PROVISIONER_HOME}, owned by root with mode 0700, and its {} to /etc/muster/conf.d",
        name::PROVISIONER_CONFIG
    ));
    Ok(CommandExitCode::Passed)
}

/// `rpc provision release`: releases the names of revoked nodes. Stops with an error at the first name whose key is not revoked.
pub async fn release_names(args: &ProvisionReleaseArgs, cx: CommandContext<'_>) -> CommandResult {
    let (organisation, printer) = (&cx.open_organisation(&args.organisation)?, cx.printer);
    let trust = organisation.fleet_trust()?;
    let register = organisation.open_name_register(unix_millis_now()).await?;
    for node in &args.nodes {
        let entry = register.get_entry(node).await?;
        let entry = entry.ok_or_else(|| OrganisationError::Unknown(node.to_string()))?;
        if let Some(key) = entry.all_keys().find(|key| !trust.has_revocation(key)) {
            return Err(OrganisationError::NotRevoked(node.clone(), key).into());
        }
        register.release_name(node).await?;
        printer.print_message(format_args!(
            "{GOOD}released{GOOD:#} {node}: another machine may be enrolled under this name"
        ));
    }
    register.close().await?;
    Ok(CommandExitCode::Passed)
}
