//! `rpc provision token`: issues a bootstrap token. Prints the path of the credentials as data.

use muster_base::unix_millis_now;
use muster_wire::enrol::TokenGrant;
use muster_wire::identity::Identity;
use uuid::Uuid;

use crate::cli::provision::BootstrapTokenArgs;
use crate::commands::context::{CommandContext, CommandExitCode, CommandResult};
use crate::commands::org::{add, newcomers};
use crate::organisation::{CredentialSpec, OrganisationError, PrincipalKind};

/// Runs the command.
pub async fn run(args: BootstrapTokenArgs, cx: CommandContext<'_>) -> CommandResult {
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
