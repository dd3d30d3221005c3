//! Issues the credentials of new nodes, and of the services that they run.

use muster_base::unix_millis_now;
use muster_organisation::machines::MachineFile;
use muster_organisation::machines::script::{InstalledProgram, node_script};
use muster_organisation::{
    CredentialSpec, MissingStores, Organisation, OrganisationError, PrincipalKind, StoreOptions,
    bundle,
};
use muster_wire::identity::Identity;
use muster_wire::token::{ServiceRight, UserCredentials};

use crate::commands::node::add::args::NodeAddArgs;
use crate::commands::org::issue::{default_lifetime, issue};
use crate::commands::org::push;
use crate::commands::org::site::read_site;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};

/// The services of `--services`: their sections of `[plugins]`, and the rights of their credentials.
const SERVICES: [(&str, ServiceRight); 3] = [
    ("directory", ServiceRight::Directory),
    ("schedule", ServiceRight::Schedule),
    ("history", ServiceRight::History),
];
/// Credentials of the services, below the configuration directory.
const SERVICE_CREDS: &str = "services.creds";
const SERVICE_CONFIG: &str = "conf.d/services.toml";

/// Issues credentials, one machine after the other.
pub struct NodeIssuer<'a> {
    organisation: Organisation,
    /// The files that each node gets.
    site: Vec<MachineFile>,
    has_services: bool,
    cx: CommandContext<'a>,
}

impl<'a> NodeIssuer<'a> {
    pub fn open(args: &NodeAddArgs, cx: CommandContext<'a>) -> Result<Self> {
        let organisation = cx.open_organisation(&args.organisation)?;
        let site = read_site(&organisation)?;
        if site.is_empty() {
            cx.printer.print_warning(format_args!(
                "{} does not exist: the nodes get no policies, and deny all changes",
                organisation.layout().site_directory().display()
            ));
        }
        Ok(Self { organisation, site, has_services: args.services, cx })
    }

    /// The credentials of a node; returns the script that makes its machine the node. It contains their key.
    pub async fn issue_script(
        &mut self,
        name: &Identity,
        program: InstalledProgram,
    ) -> Result<String> {
        let organisation = &self.organisation;
        let creds = self.issue(PrincipalKind::Node, name.clone(), Vec::new()).await?;
        let mut node = organisation.node_files(&creds, name, bundle::NoExtraConfig {})?;
        // The configuration is the last file: without it, the machine is no node.
        let config = node.pop();
        let mut files = self.site.clone();
        files.extend(node);
        if self.has_services {
            files.extend(self.issue_services(name).await?);
        }
        files.extend(config);
        Ok(node_script(name, organisation.profile().operator, &files, program))
    }

    /// Credentials and settings of the services of one node. Policies of the samples know a directory by the beginning of its name.
    async fn issue_services(&self, node: &Identity) -> Result<Vec<MachineFile>> {
        let name =
            Identity::parse(&format!("directory.{node}")).map_err(OrganisationError::from)?;
        let tags = ServiceRight::tags(&SERVICES.map(|(_, right)| right));
        let creds = self.issue(PrincipalKind::Service, name, tags).await?;
        let sections = SERVICES.map(|(section, _)| {
            format!("[plugins.{section}]\nenabled = true\ncredentials = \"../{SERVICE_CREDS}\"\n")
        });
        Ok(vec![
            MachineFile::secret(SERVICE_CREDS, creds.to_text().as_str()),
            MachineFile::public(SERVICE_CONFIG, sections.join("\n")),
        ])
    }

    /// Those of an earlier attempt, while they are valid, so that a repeated command leaves no further key behind.
    async fn issue(
        &self,
        kind: PrincipalKind,
        name: Identity,
        tags: Vec<String>,
    ) -> Result<UserCredentials> {
        let now = unix_millis_now();
        let expires = default_lifetime(&self.organisation, kind, now)?;
        let spec = CredentialSpec { kind, name, tags, expires, renew: true, out: None };
        match self.organisation.valid_credentials(&spec, now)? {
            Some(creds) => Ok(creds),
            None => Ok(issue(&self.organisation, &spec, self.cx.printer).await?.creds),
        }
    }

    /// Makes the services known to callers, if some were issued.
    pub async fn publish_services(self) -> CommandResult {
        if !self.has_services {
            return Ok(CommandExitCode::Passed);
        }
        let options = StoreOptions { replicas: None, missing: MissingStores::CreateNew };
        push::push_all(self.organisation, options, self.cx.printer).await
    }
}
