//! What the operator of the authority allows: the table `plugins.puppetca` of the daemon's configuration.

use std::path::PathBuf;

use serde::Deserialize;

/// The options. Unknown keys are refused.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a key of its own in the configuration"
)]
pub struct Options {
    /// Whether the node has the agent at all.
    pub enabled: bool,
    /// How the authority is spoken to.
    pub backend: CaBackend,
    /// Of the API: where Puppet Server is, such as `https://puppet.acme.net:8140`.
    pub url: String,
    /// Of the API: PEM file of the authority that signed the server's certificate.
    pub ca: PathBuf,
    /// Of the API: PEM file of a certificate that carries the extension `pp_cli_auth`.
    pub cert: PathBuf,
    /// Of the API: PEM file of its key.
    pub key: PathBuf,
    /// Of the command line: program and first arguments.
    pub command: Vec<String>,
    /// Of the command line: what comes after every action's own arguments, such as `--config FILE`.
    pub arguments: Vec<String>,
    /// Of the command line: the authority's directory, in which requests and certificates are read to compare them.
    pub cadir: PathBuf,
    /// Longest time in seconds for one call.
    pub timeout: u64,
    /// Whether requests with other names than the certificate's own are signed, where the authority does.
    pub allow_alt_names: bool,
    /// Whether requests for extensions that give rights are signed, where the authority does.
    pub allow_authorization_extensions: bool,
    /// Whether a request is signed for its name alone, with neither fingerprint nor public key to compare it with.
    pub allow_unproven: bool,
}

/// How the authority is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CaBackend {
    /// Puppet Server's HTTP API.
    Api,
    /// `puppetserver ca`.
    Command,
}

impl Default for Options {
    fn default() -> Self {
        let ssl = PathBuf::from("/etc/puppetlabs/puppet/ssl");
        Self {
            enabled: false,
            backend: CaBackend::Api,
            url: "https://puppet:8140".to_owned(),
            ca: ssl.join("certs/ca.pem"),
            cert: ssl.join("certs/puppet.pem"),
            key: ssl.join("private_keys/puppet.pem"),
            command: ["puppetserver", "ca"].map(str::to_owned).to_vec(),
            arguments: Vec::new(),
            cadir: "/etc/puppetlabs/puppetserver/ca".into(),
            timeout: 30,
            allow_alt_names: false,
            allow_authorization_extensions: false,
            allow_unproven: false,
        }
    }
}
