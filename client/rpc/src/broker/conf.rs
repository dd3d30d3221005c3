//! Generates a configuration for nats-server, 2.10 or later, that serves a single organisation.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use muster_wire::token::PublicKey;

use crate::files;
use crate::organisation::{Organisation, OrganisationError, OrganisationLayout};

/// Maximum size of a token file in bytes.
const MAX_TOKEN_BYTES: u64 = 1024 * 1024;

/// Parameters of the configuration.
#[derive(Debug, Clone)]
pub struct NatsServerConfig {
    name: String,
    /// Address to listen on.
    pub host: String,
    /// Port to listen on; -1 selects a free port.
    pub port: i32,
    operator: PathBuf,
    system_account: PublicKey,
    tokens: PathBuf,
    tls: Option<TlsCertificatePaths>,
    accounts: BrokerAccountTokens,
    /// `JetStream` data directory; `JetStream` is disabled when absent.
    pub jetstream: Option<PathBuf>,
    /// Directory in which nats-server writes its port numbers.
    pub ports_directory: Option<PathBuf>,
}

#[derive(Debug, Clone)]
struct TlsCertificatePaths {
    certificate: PathBuf,
    key: PathBuf,
}

/// The account tokens in the configuration.
#[derive(Debug, Clone)]
enum BrokerAccountTokens {
    /// Included from a file beside the configuration, which is rewritten at every revocation.
    Beside(String),
    /// Embedded, as of now.
    Within(String),
}

impl NatsServerConfig {
    /// The configuration in the organisation's own directory.
    pub fn for_organisation(organisation: &Organisation) -> Self {
        let (layout, profile) = (organisation.layout(), organisation.profile());
        let certificate = TlsCertificatePaths {
            certificate: layout.broker_certificate(),
            key: layout.broker_key(),
        };
        let accounts = layout
            .broker_accounts()
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        Self {
            name: profile.name.clone(),
            host: if profile.broker.tls {
                "0.0.0.0"
            } else {
                "127.0.0.1"
            }
            .to_owned(),
            port: profile.broker.port,
            operator: layout.operator_token(),
            system_account: profile.system_account,
            tokens: layout.broker_tokens(),
            tls: profile.broker.tls.then_some(certificate),
            accounts: BrokerAccountTokens::Beside(accounts),
            jetstream: Some(layout.broker_directory().join("jetstream")),
            ports_directory: None,
        }
    }

    /// The configuration for another directory, with embedded account tokens.
    pub fn with_embedded_accounts(
        mut self,
        organisation: &Organisation,
    ) -> Result<Self, OrganisationError> {
        self.accounts = BrokerAccountTokens::Within(render_accounts(organisation)?);
        Ok(self)
    }

    /// Renders the file's text.
    pub fn render_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_text(&mut text);
        text
    }

    fn write_text(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "# nats-server for the organisation {}. Made by `rpc broker config`.\n",
            self.name
        )?;
        writeln!(text, "host: {}", quote_text(&self.host))?;
        writeln!(text, "port: {}", self.port)?;
        if let Some(directory) = &self.ports_directory {
            writeln!(text, "ports_file_dir: {}", quote_path(directory))?;
        }
        text.write_str(CONNECTION_LIMITS)?;
        writeln!(
            text,
            "# Who may connect: parties of this operator's accounts, by their tokens."
        )?;
        writeln!(text, "operator: {}", quote_path(&self.operator))?;
        writeln!(text, "system_account: {}", self.system_account)?;
        writeln!(text, "resolver: {{")?;
        writeln!(text, "  type: full")?;
        writeln!(text, "  dir: {}", quote_path(&self.tokens))?;
        writeln!(text, "  allow_delete: false")?;
        writeln!(text, "  interval: \"2m\"\n}}")?;
        writeln!(
            text,
            "# Known from the start; newer tokens that were pushed win over these."
        )?;
        match &self.accounts {
            BrokerAccountTokens::Beside(file) => writeln!(text, "include {}", quote_text(file))?,
            BrokerAccountTokens::Within(accounts) => text.write_str(accounts)?,
        }
        if let Some(tls) = &self.tls {
            writeln!(text, "\ntls: {{")?;
            writeln!(text, "  cert_file: {}", quote_path(&tls.certificate))?;
            writeln!(text, "  key_file: {}", quote_path(&tls.key))?;
            writeln!(text, "  timeout: 10\n}}")?;
        }
        if let Some(directory) = &self.jetstream {
            writeln!(
                text,
                "\njetstream: {{\n  store_dir: {}\n}}",
                quote_path(directory)
            )?;
        }
        Ok(())
    }
}

/// Disconnects slow consumers; detects a dead connection within 90 seconds.
const CONNECTION_LIMITS: &str = "\
max_payload: 1MB
write_deadline: \"10s\"
ping_interval: \"30s\"
ping_max: 2

";

impl Organisation {
    /// Writes the included file with the account tokens.
    pub fn write_broker_accounts(&self) -> Result<(), OrganisationError> {
        Ok(files::replace_public(
            &self.layout().broker_accounts(),
            render_accounts(self)?.as_bytes(),
        )?)
    }
}

/// Renders all accounts in nats-server's syntax.
fn render_accounts(organisation: &Organisation) -> Result<String, OrganisationError> {
    let (layout, profile): (&OrganisationLayout, _) =
        (organisation.layout(), organisation.profile());
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
    fn odd_paths_are_quoted() {
        assert_eq!(quote_text("/srv/a \"b\"\\c"), "\"/srv/a \\\"b\\\"\\\\c\"");
    }
}
