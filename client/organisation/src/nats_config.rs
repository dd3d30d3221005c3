//! Generates a configuration for nats-server, 2.10 or later, that serves a single organisation.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use muster_files::files;
use muster_wire::identity::Identity;
use muster_wire::limits::{MAX_CONNECT_BYTES, MAX_SUBSCRIPTION_TOKENS};
use muster_wire::stores;

use crate::authority::CertificateWithKey;
use crate::authority_rotation::broker_hosts;
use crate::cluster_config::{
    ClusterSettings, LeafSettings, render_cluster, render_default_domain, render_leaf_listener,
    render_leaf_remote,
};
use crate::machines::file::{MachineFile, write_files};
use crate::server_address::ServerAddress;
use crate::{Organisation, OrganisationError};

/// Maximum size of a token file in bytes.
const MAX_TOKEN_BYTES: u64 = 1024 * 1024;

/// Directory of the broker's state when the package `muster-broker` runs it.
pub const PACKAGE_STATE_DIRECTORY: &str = "/var/lib/muster-broker";
/// Default port of nats-server's monitoring pages.
pub const DEFAULT_MONITORING_PORT: u16 = 8222;
/// Default number of connections that a server accepts.
pub const DEFAULT_MAX_CONNECTIONS: u32 = 65_536;
/// Closed connections that a server remembers, for `connz?state=closed`.
const MAX_CLOSED_CLIENTS: u32 = 8;
/// Bytes of writes that wait for one stream. nats-server's default is 128 MB, and a sender is faster than a synced disk.
const MAX_BUFFERED_SIZE: &str = "16MB";
// Names of the files in a broker's bundle.
const BUNDLE_CONFIG: &str = "nats.conf";
const BUNDLE_OPERATOR: &str = "operator.jwt";
const BUNDLE_CERTIFICATE: &str = "broker.pem";
const BUNDLE_KEY: &str = "broker.key";
const BUNDLE_AUTHORITY: &str = "ca.pem";
const BUNDLE_LEAF_CREDENTIALS: &str = "leaf.creds";
/// File beside the configuration with the routes of a cluster; secret.
const CLUSTER_FILE: &str = "cluster.conf";
/// File beside the configuration with settings of the site.
const LOCAL_FILE: &str = "local.conf";

/// Text of a new [`LOCAL_FILE`].
const LOCAL_FILE_TEXT: &str = "\
# Settings of this server. `rpc broker config` created this file and never changes it. It is read after the generated configuration: a setting
# here replaces the one of the same name, and a block replaces the whole block.
";

/// The files that the configuration refers to.
#[derive(Debug, Clone)]
pub(crate) struct BrokerPaths {
    operator: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) authority: PathBuf,
    pub(crate) leaf_credentials: PathBuf,
    tokens: PathBuf,
}

/// The configuration.
#[derive(Debug, Clone)]
pub struct NatsServerConfig<'a> {
    organisation: &'a Organisation,
    paths: BrokerPaths,
    /// Address to listen on.
    pub host: String,
    /// Port to listen on; -1 selects a free port.
    pub port: i32,
    /// The account tokens, or the name of the file beside the configuration with them, which is rewritten at every revocation.
    accounts: String,
    /// `JetStream` data directory; `JetStream` is disabled when absent.
    pub jetstream: Option<PathBuf>,
    /// Directory in which nats-server writes its port numbers.
    pub ports_directory: Option<PathBuf>,
    /// Name of the server. Without it, the server's key is its name, and changes at each start.
    pub server_name: Option<Identity>,
    /// Port of the monitoring pages on the loopback interface; disabled when absent.
    pub monitoring_port: Option<u16>,
    /// Number of connections that the server accepts.
    pub max_connections: u32,
    /// The cluster of the server.
    pub cluster: Option<ClusterSettings>,
    /// Address on which the server accepts leaf nodes.
    pub leaf_listen: Option<ServerAddress>,
    /// The servers that this server connects to as a leaf node.
    pub leaf: Option<LeafSettings>,
}

impl<'a> NatsServerConfig<'a> {
    /// The configuration in the organisation's own directory.
    pub fn for_organisation(organisation: &'a Organisation) -> Self {
        let (layout, broker) = (organisation.layout(), &organisation.profile().broker);
        let accounts = layout.broker_accounts();
        let file_name = accounts.file_name().unwrap_or_default().to_string_lossy();
        let paths = BrokerPaths {
            operator: layout.operator_token(),
            certificate: layout.broker_certificate(),
            key: layout.broker_key(),
            authority: layout.authority_certificate(),
            leaf_credentials: BUNDLE_LEAF_CREDENTIALS.into(),
            tokens: layout.broker_tokens(),
        };
        Self {
            organisation,
            paths,
            host: if broker.tls { "0.0.0.0" } else { "127.0.0.1" }.to_owned(),
            port: broker.port,
            accounts: format!("include {}\n", quote_text(&file_name)),
            jetstream: Some(layout.broker_streams()),
            ports_directory: None,
            server_name: None,
            monitoring_port: None,
            max_connections: DEFAULT_MAX_CONNECTIONS,
            cluster: None,
            leaf_listen: None,
            leaf: None,
        }
    }

    /// The configuration for another directory, with the account tokens as of now.
    pub fn with_embedded_accounts(mut self) -> Result<Self, OrganisationError> {
        self.accounts = render_accounts(self.organisation)?;
        Ok(self)
    }

    /// The configuration for the service of the package `muster-broker`, with the account tokens as of now. Files are relative to the
    /// directory of the configuration, which is the service's working directory; the server writes to the state directory.
    pub fn for_package(
        organisation: &'a Organisation,
        state: &Path,
    ) -> Result<Self, OrganisationError> {
        let mut config = Self::for_organisation(organisation).with_embedded_accounts()?;
        config.paths = BrokerPaths {
            operator: BUNDLE_OPERATOR.into(),
            certificate: BUNDLE_CERTIFICATE.into(),
            key: BUNDLE_KEY.into(),
            authority: BUNDLE_AUTHORITY.into(),
            leaf_credentials: BUNDLE_LEAF_CREDENTIALS.into(),
            tokens: state.join("accounts"),
        };
        config.jetstream = Some(state.join("jetstream"));
        Ok(config)
    }

    /// Writes the configuration and the files that it refers to into a directory, which becomes `/etc/muster-broker` on the broker's machine.
    /// Existing files are replaced, because a new certificate or account needs the same files again; only `local.conf` is kept.
    pub fn write_bundle(&self, directory: &Path) -> Result<(), OrganisationError> {
        let files = self.bundle_files()?;
        files::create_private_directory(directory)?;
        create_local_file(directory)?;
        write_files(directory, &files)
    }

    /// The files of a broker below its configuration directory, except `local.conf`; the configuration is the last one.
    pub fn bundle_files(&self) -> Result<Vec<MachineFile>, OrganisationError> {
        self.require_tls()?;
        let layout = self.organisation.layout();
        let mut bundle = Vec::new();
        if self.organisation.profile().broker.tls {
            let CertificateWithKey { certificate, key } = self.bundle_certificate()?;
            let authority = files::read_text(&layout.authority_certificate(), MAX_TOKEN_BYTES)?;
            bundle.extend([
                MachineFile::secret(BUNDLE_KEY, key),
                MachineFile::public(BUNDLE_CERTIFICATE, certificate),
                MachineFile::public(BUNDLE_AUTHORITY, authority),
            ]);
        }
        if let Some(settings) = &self.leaf {
            let creds = self.organisation.leaf_credentials(&settings.leaf.name)?;
            bundle.push(MachineFile::secret(BUNDLE_LEAF_CREDENTIALS, creds.as_str()));
        }
        let operator = files::read_text(&layout.operator_token(), MAX_TOKEN_BYTES)?;
        bundle.push(MachineFile::public(BUNDLE_OPERATOR, operator));
        bundle.extend(self.config_files(BUNDLE_CONFIG)?);
        Ok(bundle)
    }

    /// The settings of the site, which a machine keeps once it has them.
    pub fn local_file() -> MachineFile {
        MachineFile::public(LOCAL_FILE, LOCAL_FILE_TEXT)
    }

    /// Writes the configuration, and beside it the routes of a cluster, and `local.conf` unless it exists.
    pub fn write_config(&self, path: &Path) -> Result<(), OrganisationError> {
        self.require_tls()?;
        let directory = path.parent().unwrap_or(Path::new(""));
        create_local_file(directory)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        for file in self.config_files(&name)? {
            file.write_below(directory)?;
        }
        Ok(())
    }

    /// The routes of a cluster, and the configuration, which has this name.
    fn config_files(&self, name: &str) -> Result<Vec<MachineFile>, OrganisationError> {
        let mut files = Vec::new();
        if let Some(cluster) = &self.cluster {
            let password = self.organisation.route_password()?;
            let text = render_cluster(cluster, &password, &self.paths);
            files.push(MachineFile::secret(CLUSTER_FILE, text));
        }
        let text = format!("{}\ninclude {}\n", self.render_text(), quote_text(LOCAL_FILE));
        files.push(MachineFile::public(name, text));
        Ok(files)
    }

    /// Servers authenticate to each other with certificates, so a cluster and leaf nodes need TLS.
    fn require_tls(&self) -> Result<(), OrganisationError> {
        let is_alone = self.cluster.is_none() && self.leaf_listen.is_none() && self.leaf.is_none();
        if is_alone || self.organisation.profile().broker.tls {
            return Ok(());
        }
        Err(OrganisationError::PlainText)
    }

    /// Certificate and secret key of the server. A leaf node gets its own, which the servers of a cluster do not accept for routes.
    fn bundle_certificate(&self) -> Result<CertificateWithKey, OrganisationError> {
        let layout = self.organisation.layout();
        if let Some(settings) = &self.leaf {
            return self.organisation.issue_leaf_certificate(&broker_hosts(&settings.leaf.urls));
        }
        let certificate = files::read_text(&layout.broker_certificate(), MAX_TOKEN_BYTES)?;
        let key = files::read_secret(&layout.broker_key(), MAX_TOKEN_BYTES)?.to_string();
        Ok(CertificateWithKey { certificate, key })
    }

    /// Renders the text without `local.conf`. The limits disconnect slow consumers, and detect a dead connection within 90 seconds.
    pub fn render_text(&self) -> String {
        let (paths, profile) = (&self.paths, self.organisation.profile());
        let mut text = format!(
            "\
# nats-server configuration of organisation {name}. Generated by `rpc broker config`.

host: {host}
port: {port}
{identity}max_payload: 1MB
max_connections: {connections}
# A token with many grants is larger than the default of 4 KiB.
max_control_line: {MAX_CONNECT_BYTES}
# Subjects are as long as a line; each of their tokens costs memory.
max_subscription_tokens: {MAX_SUBSCRIPTION_TOKENS}
# Each closed connection that is remembered keeps its subscriptions, up to 5 MiB.
max_closed_clients: {MAX_CLOSED_CLIENTS}
write_deadline: \"10s\"
ping_interval: \"30s\"
ping_max: 2
# In lame duck mode (USR2), clients move to the other servers within two minutes.
lame_duck_duration: \"2m\"
lame_duck_grace_period: \"10s\"

# Clients authenticate with tokens of this operator's accounts.
operator: {operator}
system_account: {system_account}
resolver: {{
  type: full
  dir: {tokens}
  allow_delete: false
  interval: \"2m\"
}}
# Account tokens at startup. Newer tokens that were pushed take precedence.
{accounts}",
            name = profile.name,
            host = quote_text(&self.host),
            port = self.port,
            identity = self.render_identity(),
            connections = self.max_connections,
            operator = quote_path(&paths.operator),
            system_account = profile.system_account,
            tokens = quote_path(&paths.tokens),
            accounts = self.accounts,
        );
        if profile.broker.tls {
            text.push_str(&render_tls(paths));
        }
        if let Some(directory) = self.jetstream.as_deref().filter(|_| self.leaf.is_none()) {
            text.push_str(&render_jetstream(directory));
        }
        if self.cluster.is_some() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\ninclude {}", quote_text(CLUSTER_FILE));
        }
        if self.leaf_listen.is_some() || self.leaf.is_some() {
            text.push_str(&render_default_domain(profile.account));
        }
        if let Some(listen) = &self.leaf_listen {
            text.push_str(&render_leaf_listener(listen, paths));
        }
        if let Some(leaf) = &self.leaf {
            text.push_str(&render_leaf_remote(leaf, profile.account, paths));
        }
        text
    }

    /// Renders the server's name, and where it reports its ports and its state.
    fn render_identity(&self) -> String {
        let name = self.server_name.as_ref();
        let name = name.map(|name| {
            let tag = stores::server_tag(name.as_str());
            format!(
                "server_name: {}\nserver_tags: [{}]\n",
                quote_text(name.as_str()),
                quote_text(&tag)
            )
        });
        let ports = self.ports_directory.as_deref();
        let ports = ports.map(|path| format!("ports_file_dir: {}\n", quote_path(path)));
        let monitoring = self.monitoring_port.map(|port| format!("http: \"127.0.0.1:{port}\"\n"));
        [name, ports, monitoring].into_iter().flatten().collect()
    }
}

fn create_local_file(directory: &Path) -> Result<(), OrganisationError> {
    Ok(files::create_public_if_missing(&directory.join(LOCAL_FILE), LOCAL_FILE_TEXT.as_bytes())?)
}

fn render_tls(paths: &BrokerPaths) -> String {
    format!(
        "\ntls: {{\n  cert_file: {}\n  key_file: {}\n  timeout: 10\n}}\n",
        quote_path(&paths.certificate),
        quote_path(&paths.key)
    )
}

/// Renders the block of `JetStream`. A server with less than the account's limit offers it no `JetStream`: 1920 MiB, and 5448 MiB with catalogs.
fn render_jetstream(directory: &Path) -> String {
    format!(
        "
jetstream: {{
  store_dir: {}
  max_mem: 64MB
  max_file: 6GB
  # Each write is synced before it is confirmed, because a lost permit or name would be given out twice.
  sync_interval: always
  # Writes that wait for one stream; further ones are refused.
  max_buffered_size: {MAX_BUFFERED_SIZE}
}}
",
        quote_path(directory)
    )
}

impl Organisation {
    /// Writes the included file with the account tokens.
    pub fn write_broker_accounts(&self) -> Result<(), OrganisationError> {
        let accounts = render_accounts(self)?;
        Ok(files::replace_public(&self.layout().broker_accounts(), accounts.as_bytes())?)
    }
}

/// Replaces the paths below the organisation's earlier directory in a configuration of `rpc broker config`, which has absolute paths. A configuration that others
/// wrote stays.
pub(crate) fn move_paths(text: &str, operator_token: &Path) -> String {
    const NAME: &str = "operator.jwt\"";
    let start = |quoted: &str| quoted.strip_suffix(NAME).map(str::to_owned);
    let earlier = text.lines().find_map(|line| start(line.strip_prefix("operator: ")?));
    match (earlier, start(&quote_path(operator_token))) {
        (Some(earlier), Some(present)) => text.replace(&earlier, &present),
        _ => text.to_owned(),
    }
}

/// Renders all accounts in nats-server's syntax.
fn render_accounts(organisation: &Organisation) -> Result<String, OrganisationError> {
    let (layout, profile) = (organisation.layout(), organisation.profile());
    let known = [
        (Some(profile.account), layout.account_token()),
        (profile.storage_account, layout.storage_token()),
        (profile.newcomers_account, layout.newcomers_token()),
        (Some(profile.system_account), layout.system_token()),
    ];
    let mut text = "resolver_preload: {\n".to_owned();
    for (account, path) in known {
        if let Some(account) = account {
            let token = files::read_text(&path, MAX_TOKEN_BYTES)?;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {account}: {}", token.trim());
        }
    }
    text.push_str("}\n");
    Ok(text)
}

pub(crate) fn quote_path(path: &Path) -> String {
    quote_text(&path.to_string_lossy())
}

/// Quotes a text for nats-server's configuration syntax.
pub(crate) fn quote_text(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::quote_text;

    #[test]
    fn quotes_and_backslashes_in_paths_are_escaped() {
        assert_eq!(quote_text("/srv/a \"b\"\\c"), "\"/srv/a \\\"b\\\"\\\\c\"");
    }
}
