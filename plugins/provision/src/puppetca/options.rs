//! Options of the agent: the table `plugins.puppetca` of the daemon's configuration.

use std::path::PathBuf;

use serde::Deserialize;

/// Unknown keys are rejected.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "each field is a separate configuration key")]
pub struct Options {
    pub enabled: bool,
    pub backend: CaBackend,
    /// API: URL of Puppet Server, such as `https://puppet.acme.net:8140`.
    pub url: String,
    /// API: PEM file of the authority that signed the server's certificate.
    pub ca: PathBuf,
    /// API: PEM file of a certificate with the extension `pp_cli_auth`.
    pub cert: PathBuf,
    /// API: PEM file of its private key.
    pub key: PathBuf,
    /// Command: program and first arguments.
    pub command: Vec<String>,
    /// Command: arguments appended to those of every action, such as `--config FILE`.
    pub arguments: Vec<String>,
    /// Command: the authority's directory, from which requests and certificates are read for comparison.
    pub cadir: PathBuf,
    /// Timeout of one call in seconds.
    pub timeout: u64,
    /// Whether requests with alternative names are signed, if the authority allows it.
    pub allow_alt_names: bool,
    /// Whether requests for extensions that grant permissions are signed, if the authority allows it.
    pub allow_authorization_extensions: bool,
    /// Whether a request is signed by name alone, without a fingerprint or public key to compare.
    pub allow_unproven: bool,
}

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
