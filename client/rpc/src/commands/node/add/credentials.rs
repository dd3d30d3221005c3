//! Issues the credentials of new nodes, and of the services that they run.

use muster_base::unix_millis_now;
use muster_organisation::machines::MachineFile;
use muster_organisation::machines::script::{InstalledProgram, node_script};
use muster_organisation::{
    CredentialSpec, MissingStores, Organisation, OrganisationError, PrincipalKind, StoreOptions,
    bundle,
};
use muster_wire::identity::Identity;
use muster_wire::token::ServiceRight;

use crate::commands::node::add::args::NodeAddArgs;
use crate::commands::org::issue::{default_lifetime, issue};
use crate::commands::org::push;
use crate::session::context::{CommandContext, Result};

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
        let site = organisation.site_files()?;
        if site.is_empty() {
            cx.printer.print_warning(format_args!(
                "{} does not exist: the nodes get no policies, and deny all changes",
                organisation.layout().site_directory().display()
            ));
        }
        Ok(Self { organisation, site, has_services: args.services, cx })
    }

    /// Issues the credentials of a node; returns the script that makes its machine the node. It contains their key.
    pub async fn issue_script(
        &mut self,
        name: &Identity,
        program: InstalledProgram,
    ) -> Result<String> {
        let organisation = &self.organisation;
        let spec = self.spec(PrincipalKind::Node, name.clone(), Vec::new())?;
        let issued = issue(organisation, &spec, self.cx.printer).await?;
        let mut node = organisation.node_files(&issued.creds, name, bundle::NoExtraConfig {})?;
        // The configuration is the last file: without it, the machine is no node.
        let config = node.pop();
        let mut files = self.site.clone();
        files.extend(node);
        if self.has_services {
            files.extend(self.issue_services().await?);
        }
        files.extend(config);
        Ok(node_script(name, organisation.profile().operator, &files, program))
    }

    /// Credentials and settings of the services of one node.
    async fn issue_services(&self) -> Result<Vec<MachineFile>> {
        let name = self.free_service_name()?;
        let tags = ServiceRight::tags(&SERVICES.map(|(_, right)| right));
        let spec = self.spec(PrincipalKind::Service, name, tags)?;
        let issued = issue(&self.organisation, &spec, self.cx.printer).await?;
        let sections = SERVICES.map(|(section, _)| {
            format!("[plugins.{section}]\nenabled = true\ncredentials = \"../{SERVICE_CREDS}\"\n")
        });
        Ok(vec![
            MachineFile::secret(SERVICE_CREDS, issued.creds.to_text().as_str()),
            MachineFile::public(SERVICE_CONFIG, sections.join("\n")),
        ])
    }

    /// `directory1`, or the next number that no principal has.
    fn free_service_name(&self) -> Result<Identity, OrganisationError> {
        let records = self.organisation.read_records()?;
        let is_taken = |name: &str| records.iter().any(|record| record.name.as_str() == name);
        let mut number = 1;
        while is_taken(&format!("directory{number}")) {
            number += 1;
        }
        Ok(Identity::parse(&format!("directory{number}"))?)
    }

    fn spec(
        &self,
        kind: PrincipalKind,
        name: Identity,
        tags: Vec<String>,
    ) -> Result<CredentialSpec> {
        // A machine that failed gets new credentials at the next attempt.
        let expires = default_lifetime(&self.organisation, kind, unix_millis_now())?;
        Ok(CredentialSpec { kind, name, tags, expires, renew: true, out: None })
    }

    /// Makes the services known to callers, if some were issued.
    pub async fn publish_services(self) -> Result<()> {
        if self.has_services {
            let options = StoreOptions { replicas: None, missing: MissingStores::CreateNew };
            push::push_all(self.organisation, options, self.cx.printer).await?;
        }
        Ok(())
    }
}
