//! `rpc org init`: creates an organisation, with `--quick` also its first user and the files of new nodes, and prints the next steps.

use std::path::{Path, PathBuf};

use muster_base::unix_millis_now;
use muster_display::printer::{GOOD, OutputPrinter, highlight_code};
use muster_organisation::{
    CredentialSpec, Organisation, OrganisationError, OrganisationSpec, PrincipalKind, bundle,
    create_organisation,
};
use muster_wire::identity::Identity;
use nix::unistd::{Uid, User};

use crate::commands::org::args::OrgInitArgs;
use crate::commands::org::issue::{complete_grants, issue};
use crate::session::context::{
    CommandContext, CommandError, CommandExitCode, CommandResult, Result,
};

/// Name of an organisation whose broker has no domain.
const DEFAULT_NAME: &str = "muster";

#[derive(Debug, thiserror::Error)]
pub enum OrgInitError {
    #[error("--quick needs a home directory: set HOME")]
    NoHome,
    #[error("you are a user of a fleet already")]
    IsUser(#[source] OrganisationError),
    #[error("your login name cannot be found, or is no name of a user; use --user NAME")]
    NoUser,
}

impl CommandError for OrgInitError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::IsUser(_) => vec![
                "create the organisation without --quick, or with XDG_CONFIG_HOME set to another directory"
                    .to_owned(),
            ],
            _ => Vec::new(),
        }
    }

    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::IsUser(_) => CommandExitCode::Local,
            _ => CommandExitCode::Usage,
        }
    }
}

pub async fn run(args: OrgInitArgs, cx: CommandContext<'_>) -> CommandResult {
    if args.quick {
        return create_quickly(args, cx).await;
    }
    let directory = args.directory.clone().unwrap_or_default();
    let organisation = create(args, directory)?;
    print_created(&organisation, cx.printer);
    let directory = organisation.layout().directory().display();
    let steps = [
        (&*format!("export MUSTER_ORG={directory}"), "let the other commands find it"),
        ("rpc broker run", "start the broker"),
        ("rpc org add node web1.acme.net --bundle ./web1", "create all files of a node"),
        ("rpc org add user NAME --bundle ~/.config/muster", "create all files of a user"),
    ];
    print_steps(&steps, cx.printer);
    Ok(CommandExitCode::Passed)
}

/// Creates the organisation, its first user, and what new nodes get.
async fn create_quickly(mut args: OrgInitArgs, cx: CommandContext<'_>) -> CommandResult {
    let home = cx.environment.client_directory().ok_or(OrgInitError::NoHome)?;
    let user = args.user.take().or_else(login_name).ok_or(OrgInitError::NoUser)?;
    bundle::require_free(&home, PrincipalKind::User).map_err(OrgInitError::IsUser)?;
    let default = cx.environment.default_organisation().ok_or(OrgInitError::NoHome)?;
    let directory = args.directory.clone().unwrap_or_else(|| default.clone());
    if args.name.is_none() && args.directory.is_none() {
        args.name = Some(name_of_domain(args.hosts.first().map_or("", String::as_str)));
    }
    let host = args.hosts.first().cloned().unwrap_or_default();
    let organisation = create(args, directory)?;
    organisation.write_starter_site(&user)?;
    print_created(&organisation, cx.printer);
    create_user(&organisation, &user, &home, cx.printer).await?;
    let site = organisation.layout().site_directory().display().to_string();
    let present = organisation.layout().directory();
    let export = format!("export MUSTER_ORG={}", present.display());
    let install = format!("rpc broker install {host}");
    let services = format!("rpc node add {host} --ssh --services");
    let mut steps = vec![
        (&*install, "install and start the broker, over ssh"),
        (&*services, "make its machine a node that keeps directory, schedules and history"),
        ("rpc node add HOST... --ssh", "make other machines nodes"),
        ("rpc ping", "see which nodes answer"),
    ];
    if present != default {
        steps.insert(0, (&*export, "let the other commands find it"));
    }
    print_steps(&steps, cx.printer);
    cx.printer.print_message("");
    cx.printer.print_message(format_args!(
        "What you may do on the nodes is in {site}; change it, then `rpc config deploy {site}`."
    ));
    Ok(CommandExitCode::Passed)
}

async fn create_user(
    organisation: &Organisation,
    name: &Identity,
    home: &Path,
    printer: &OutputPrinter,
) -> Result<()> {
    let grants = complete_grants(Vec::new())?;
    let spec = CredentialSpec {
        kind: PrincipalKind::User,
        name: name.clone(),
        tags: grants.iter().map(muster_wire::token::scope::CallerGrant::to_tag).collect(),
        expires: None,
        renew: false,
        out: None,
    };
    let issued = issue(organisation, &spec, printer).await?;
    organisation.bundle_user(home, &issued.creds)?;
    printer.print_message(format_args!(
        "{GOOD}created{GOOD:#} the user {name}, with all files in {}",
        home.display()
    ));
    Ok(())
}

fn create(args: OrgInitArgs, directory: PathBuf) -> Result<Organisation, OrganisationError> {
    let spec = OrganisationSpec {
        directory,
        name: args.name,
        collectives: args.collectives,
        hosts: args.hosts,
        port: i32::from(args.port),
        tls: !args.no_tls,
    };
    create_organisation(spec, unix_millis_now())
}

fn print_created(organisation: &Organisation, printer: &OutputPrinter) {
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
}

fn print_steps(steps: &[(&str, &str)], printer: &OutputPrinter) {
    printer.print_message("");
    printer.print_message("Next:");
    for (command, purpose) in steps {
        printer.print_message(format_args!("  {}  {purpose}", highlight_code(command)));
    }
}

fn login_name() -> Option<Identity> {
    let user = User::from_uid(Uid::current()).ok().flatten()?;
    Identity::parse(&user.name).ok()
}

/// `acme` for the broker `broker.acme.net`.
fn name_of_domain(host: &str) -> String {
    let labels: Vec<&str> = host.split('.').collect();
    match labels.as_slice() {
        [.., name, _] if labels.len() > 2 && host.parse::<std::net::IpAddr>().is_err() => {
            (*name).to_owned()
        }
        _ => DEFAULT_NAME.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::name_of_domain;

    #[test]
    fn organisation_has_the_name_of_the_domain() {
        assert_eq!(name_of_domain("broker.acme.net"), "acme");
        assert_eq!(name_of_domain("nats1.eu.acme.net"), "acme");
        for host in ["10.0.0.1", "2001:db8::1", "broker", "acme.net", ""] {
            assert_eq!(name_of_domain(host), "muster");
        }
    }
}
