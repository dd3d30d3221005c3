//! Generates a configuration for nats-server, 2.10 or later, that serves a single organisation.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::{Organisation, OrganisationError};
use muster_secret::files;

/// Maximum size of a token file in bytes.
const MAX_TOKEN_BYTES: u64 = 1024 * 1024;

/// Directory of the broker's state when the package `muster-broker` runs it.
const PACKAGE_STATE_DIR: &str = "/var/lib/muster-broker";
// Names of the files in a broker's bundle.
const BUNDLE_CONFIG: &str = "nats.conf";
const BUNDLE_OPERATOR: &str = "operator.jwt";
const BUNDLE_CERTIFICATE: &str = "broker.pem";
const BUNDLE_KEY: &str = "broker.key";

/// The files that the configuration refers to.
#[derive(Debug, Clone)]
struct BrokerPaths {
    operator: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
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
            tokens: layout.broker_tokens(),
        };
        Self {
            organisation,
            paths,
            host: if broker.tls { "0.0.0.0" } else { "127.0.0.1" }.to_owned(),
            port: broker.port,
            accounts: format!("include {}\n", quote_text(&file_name)),
            jetstream: Some(layout.broker_directory().join("jetstream")),
            ports_directory: None,
        }
    }

    /// The configuration for another directory, with the account tokens as of now.
    pub fn with_embedded_accounts(mut self) -> Result<Self, OrganisationError> {
        self.accounts = render_accounts(self.organisation)?;
        Ok(self)
    }

    /// The configuration for the service of the package `muster-broker`, with the account tokens as of now. Files are relative to the
    /// directory of the configuration, which is the service's working directory.
    pub fn for_package(organisation: &'a Organisation) -> Result<Self, OrganisationError> {
        let mut config = Self::for_organisation(organisation).with_embedded_accounts()?;
        let state = Path::new(PACKAGE_STATE_DIR);
        config.paths = BrokerPaths {
            operator: BUNDLE_OPERATOR.into(),
            certificate: BUNDLE_CERTIFICATE.into(),
            key: BUNDLE_KEY.into(),
            tokens: state.join("accounts"),
        };
        config.jetstream = Some(state.join("jetstream"));
        Ok(config)
    }

    /// Writes the configuration and the files that it refers to into a directory, which becomes `/etc/muster-broker` on the broker's machine.
    /// Existing files are replaced, because a new certificate or account needs the same files again.
    pub fn write_bundle(&self, directory: &Path) -> Result<(), OrganisationError> {
        let layout = self.organisation.layout();
        files::create_private_directory(directory)?;
        if self.organisation.profile().broker.tls {
            let key = files::read_secret(&layout.broker_key(), MAX_TOKEN_BYTES)?;
            files::replace_secret(&directory.join(BUNDLE_KEY), key.as_bytes())?;
            let certificate = files::read_text(&layout.broker_certificate(), MAX_TOKEN_BYTES)?;
            files::replace_public(&directory.join(BUNDLE_CERTIFICATE), certificate.as_bytes())?;
        }
        let operator = files::read_text(&layout.operator_token(), MAX_TOKEN_BYTES)?;
        files::replace_public(&directory.join(BUNDLE_OPERATOR), operator.as_bytes())?;
        Ok(files::replace_public(&directory.join(BUNDLE_CONFIG), self.render_text().as_bytes())?)
    }

    /// Renders the file's text. The limits disconnect slow consumers, and detect a dead connection within 90 seconds.
    pub fn render_text(&self) -> String {
        let (paths, profile) = (&self.paths, self.organisation.profile());
        let ports = self.ports_directory.as_deref();
        let jetstream = self.jetstream.as_deref().map(|directory| {
            format!("\njetstream: {{\n  store_dir: {}\n}}\n", quote_path(directory))
        });
        let tls = profile.broker.tls.then(|| {
            format!(
                "\ntls: {{\n  cert_file: {}\n  key_file: {}\n  timeout: 10\n}}\n",
                quote_path(&paths.certificate),
                quote_path(&paths.key)
            )
        });
        format!(
            "\
# nats-server configuration of organisation {name}. Generated by `rpc broker config`.

host: {host}
port: {port}
{ports}max_payload: 1MB
write_deadline: \"10s\"
ping_interval: \"30s\"
ping_max: 2

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
{accounts}{tls}{jetstream}",
            name = profile.name,
            host = quote_text(&self.host),
            port = self.port,
            ports = ports
                .map(|path| format!("ports_file_dir: {}\n", quote_path(path)))
                .unwrap_or_default(),
            operator = quote_path(&paths.operator),
            system_account = profile.system_account,
            tokens = quote_path(&paths.tokens),
            accounts = self.accounts,
            tls = tls.unwrap_or_default(),
            jetstream = jetstream.unwrap_or_default(),
        )
    }
}

impl Organisation {
    /// Writes the included file with the account tokens.
    pub fn write_broker_accounts(&self) -> Result<(), OrganisationError> {
        let accounts = render_accounts(self)?;
        Ok(files::replace_public(&self.layout().broker_accounts(), accounts.as_bytes())?)
    }
}

/// Renders all accounts in nats-server's syntax.
fn render_accounts(organisation: &Organisation) -> Result<String, OrganisationError> {
    let (layout, profile) = (organisation.layout(), organisation.profile());
    let known = [
        (Some(profile.account), layout.account_token()),
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

fn quote_path(path: &Path) -> String {
    quote_text(&path.to_string_lossy())
}

/// Quotes a text for nats-server's configuration syntax.
fn quote_text(text: &str) -> String {
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
