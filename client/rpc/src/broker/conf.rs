//! A configuration for nats-server, 2.10 or later, that serves one organisation and nobody else.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use muster_wire::token::PublicKey;

use crate::files;
use crate::organisation::{Layout, Organisation, OrganisationError};

/// Largest token file that is read.
const TOKEN_BYTES: u64 = 1024 * 1024;

/// What the configuration says.
#[derive(Debug, Clone)]
pub struct Conf {
    name: String,
    /// Address to listen on.
    pub host: String,
    /// Port to listen on; -1 is any that is free.
    pub port: i32,
    operator: PathBuf,
    system_account: PublicKey,
    tokens: PathBuf,
    tls: Option<Certificate>,
    accounts: Accounts,
    /// Where `JetStream` keeps its data, if there is to be any.
    pub jetstream: Option<PathBuf>,
    /// Where nats-server writes which port it took.
    pub ports_directory: Option<PathBuf>,
}

#[derive(Debug, Clone)]
struct Certificate {
    certificate: PathBuf,
    key: PathBuf,
}

/// The account tokens that the broker knows from the start.
#[derive(Debug, Clone)]
enum Accounts {
    /// In a file beside the configuration, which follows every revocation.
    Beside(String),
    /// As they are now.
    Within(String),
}

impl Conf {
    /// The configuration that lies in the organisation's own directory.
    pub fn of(organisation: &Organisation) -> Self {
        let (layout, profile) = (organisation.layout(), organisation.profile());
        let certificate = Certificate {
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
            accounts: Accounts::Beside(accounts),
            jetstream: Some(layout.broker().join("jetstream")),
            ports_directory: None,
        }
    }

    /// The same for a file that lies elsewhere.
    pub fn elsewhere(mut self, organisation: &Organisation) -> Result<Self, OrganisationError> {
        self.accounts = Accounts::Within(accounts(organisation)?);
        Ok(self)
    }

    /// The file's text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "# nats-server for the organisation {}. Made by `rpc broker config`.\n",
            self.name
        )?;
        writeln!(text, "host: {}", quoted(&self.host))?;
        writeln!(text, "port: {}", self.port)?;
        if let Some(directory) = &self.ports_directory {
            writeln!(text, "ports_file_dir: {}", path(directory))?;
        }
        text.write_str(LIMITS)?;
        writeln!(
            text,
            "# Who may connect: parties of this operator's accounts, by their tokens."
        )?;
        writeln!(text, "operator: {}", path(&self.operator))?;
        writeln!(text, "system_account: {}", self.system_account)?;
        writeln!(text, "resolver: {{")?;
        writeln!(text, "  type: full")?;
        writeln!(text, "  dir: {}", path(&self.tokens))?;
        writeln!(text, "  allow_delete: false")?;
        writeln!(text, "  interval: \"2m\"\n}}")?;
        writeln!(
            text,
            "# Known from the start; newer tokens that were pushed win over these."
        )?;
        match &self.accounts {
            Accounts::Beside(file) => writeln!(text, "include {}", quoted(file))?,
            Accounts::Within(accounts) => text.write_str(accounts)?,
        }
        if let Some(tls) = &self.tls {
            writeln!(text, "\ntls: {{")?;
            writeln!(text, "  cert_file: {}", path(&tls.certificate))?;
            writeln!(text, "  key_file: {}", path(&tls.key))?;
            writeln!(text, "  timeout: 10\n}}")?;
        }
        if let Some(directory) = &self.jetstream {
            writeln!(
                text,
                "\njetstream: {{\n  store_dir: {}\n}}",
                path(directory)
            )?;
        }
        Ok(())
    }
}

/// A slow reader is cut off rather than waited for; a dead peer is noticed within a minute and a half.
const LIMITS: &str = "\
max_payload: 1MB
write_deadline: \"10s\"
ping_interval: \"30s\"
ping_max: 2

";

impl Organisation {
    /// Writes the part of the broker's configuration that changes with the account.
    pub fn write_broker_accounts(&self) -> Result<(), OrganisationError> {
        Ok(files::replace(
            &self.layout().broker_accounts(),
            accounts(self)?.as_bytes(),
        )?)
    }
}

/// All accounts, as nats-server reads them.
fn accounts(organisation: &Organisation) -> Result<String, OrganisationError> {
    let (layout, profile): (&Layout, _) = (organisation.layout(), organisation.profile());
    let known = [
        (Some(profile.account), layout.account_token()),
        (profile.newcomers_account, layout.newcomers_token()),
        (Some(profile.system_account), layout.system_token()),
    ];
    let mut text = "resolver_preload: {\n".to_owned();
    for (account, path) in known {
        if let Some(account) = account {
            let token = files::read(&path, TOKEN_BYTES)?;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {account}: {}", token.trim());
        }
    }
    text.push_str("}\n");
    Ok(text)
}

fn path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// A text in double quotes, as nats-server's language has it.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn odd_paths_are_quoted() {
        assert_eq!(quoted("/srv/a \"b\"\\c"), "\"/srv/a \\\"b\\\"\\\\c\"");
    }
}
