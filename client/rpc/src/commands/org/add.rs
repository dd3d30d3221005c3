//! `rpc org add`: issues credentials. Prints the path of the new file as data.

use muster_base::unix_millis_now;
use muster_display::printer::{GOOD, OutputPrinter};
use muster_display::time::format_time;
use muster_operations::bundle::PLUGIN_SIGN_TAG;
use muster_organisation::{CredentialSpec, IssuedCredentials, PrincipalKind, bundle};
use muster_wire::token::ServiceRight;
use muster_wire::token::leaf_scope::LeafNodePattern;
use muster_wire::token::scope::CallerGrant;

use crate::commands::org::args::{AddLeafArgs, CredentialArgs, OrgAddCommand};
use crate::commands::org::issue::{complete_grants, default_lifetime, issue};
use crate::commands::org::{names, push};
use crate::flags::lifetime::CredentialExpiry;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult};

pub async fn run(args: OrgAddCommand, cx: CommandContext<'_>) -> CommandResult {
    let printer = cx.printer;
    let (kind, credentials, tags, directory) = match args {
        OrgAddCommand::User(args) => {
            let sign_tag = args.sign_plugins.then(|| PLUGIN_SIGN_TAG.to_owned());
            let grants = complete_grants(args.agents)?;
            let tags = grants.iter().map(CallerGrant::to_tag).chain(sign_tag).collect();
            (PrincipalKind::User, args.credentials, tags, args.bundle)
        }
        OrgAddCommand::Node(args) => {
            (PrincipalKind::Node, args.credentials, Vec::new(), args.bundle)
        }
        OrgAddCommand::Service(args) => {
            let mut tags = ServiceRight::tags(&args.rights);
            tags.extend(args.environments.iter().map(|name| ServiceRight::environment_tag(name)));
            (PrincipalKind::Service, args.credentials, tags, None)
        }
        OrgAddCommand::Enroller(args) => (PrincipalKind::Enroller, args, Vec::new(), None),
        OrgAddCommand::Leaf(args) => return add_leaf(args, cx).await,
    };
    let organisation = cx.open_organisation(&credentials.organisation)?;
    if let Some(directory) = directory.as_deref().filter(|_| !credentials.renew) {
        bundle::require_free(directory, kind)?;
    }
    let CredentialArgs { name, expires, renew, out, .. } = credentials;
    let expires = match expires {
        Some(expiry) => expiry.lifetime(),
        None => default_lifetime(&organisation, kind, unix_millis_now())?,
    };
    let spec = CredentialSpec { kind, name, tags, expires, renew, out };
    let issued = issue(&organisation, &spec, printer).await?;
    print_issued(&issued, printer);
    match kind {
        PrincipalKind::Enroller => names::publish_names(&organisation, printer).await?,
        PrincipalKind::Service => printer.print_hint(
            "run `rpc org push`: callers ask the services that the account token lists",
        ),
        _ => {}
    }
    printer.print_line(issued.path.display())?;
    if let Some(directory) = directory {
        match kind {
            PrincipalKind::User => organisation.bundle_user(&directory, &issued.creds)?,
            _ => organisation.bundle_node(
                &directory,
                &issued.creds,
                &spec.name,
                bundle::NoExtraConfig {},
            )?,
        }
        printer.print_line(directory.display())?;
        print_next_step(kind, &directory.display().to_string(), printer);
    }
    Ok(CommandExitCode::Passed)
}

/// Issues the credentials of a leaf node, and records its addresses.
async fn add_leaf(args: AddLeafArgs, cx: CommandContext<'_>) -> CommandResult {
    let printer = cx.printer;
    let CredentialArgs { name, organisation, expires, renew, out } = args.credentials;
    let mut organisation = cx.open_organisation(&organisation)?;
    let lock = organisation.lock()?;
    organisation.record_leaf(&lock, &name, &args.hosts, args.port)?;
    // The lock is held on `organisation.toml`, which has just been replaced: lock the new file.
    drop(lock);
    let lock = organisation.lock()?;
    push::add_leaf_role(&organisation, &lock, printer).await?;
    let expires = expires.and_then(CredentialExpiry::lifetime);
    let kind = PrincipalKind::Leaf;
    let nodes = if args.nodes.is_empty() { vec![LeafNodePattern::any()] } else { args.nodes };
    let tags = nodes.iter().map(LeafNodePattern::to_tag).collect();
    let spec = CredentialSpec { kind, name, tags, expires, renew, out };
    let issued = organisation.issue_credentials(&lock, &spec, unix_millis_now())?;
    print_issued(&issued, printer);
    printer.print_line(issued.path.display())?;
    printer.print_hint(format_args!(
        "run `rpc broker config --name {} --leaf BROKER --bundle DIR` to write the configuration of its server",
        spec.name
    ));
    Ok(CommandExitCode::Passed)
}

/// Prints the issued credentials: name, kind and expiry.
pub fn print_issued(issued: &IssuedCredentials, printer: &OutputPrinter) {
    let record = &issued.record;
    let expiry = record
        .expires
        .map_or_else(|| "never expires".to_owned(), |at| format!("expires {}", format_time(at)));
    let (kind, name) = (record.kind, &record.name);
    printer.print_message(format_args!(
        "{GOOD}issued{GOOD:#} credentials for {kind} {name} ({expiry})"
    ));
    printer.print_detail(format_args!("  key {}", record.key));
}

fn print_next_step(kind: PrincipalKind, directory: &str, printer: &OutputPrinter) {
    match kind {
        PrincipalKind::User => {
            printer.print_hint(format_args!("export RPC_CONFIG={directory}/rpc.toml"));
        }
        _ => printer.print_hint(format_args!(
            "copy {directory} to the node as /etc/muster, and start rpcd there"
        )),
    }
}
