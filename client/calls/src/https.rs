//! Connections to HTTP servers of other programs: TLS, verified with a configured authority, and a client certificate if one is configured.
//!
//! Plain HTTP is allowed only to a loopback address. Proxy variables of the environment are ignored; redirects are not followed. Requests block their thread.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use muster_files::files::{self, FileAccessError};
use muster_files::{SecretFileError, SecretOwner};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig, TlsProvider};

/// Maximum size of a PEM file in bytes.
const MAX_PEM_BYTES: u64 = 1024 * 1024;
/// How long an unused connection is kept. Shorter than the ten seconds after which Icinga 2 closes it.
const MAX_IDLE_AGE: Duration = Duration::from_secs(5);

/// A certificate and its private key, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificateFiles {
    /// The certificate, with its intermediate ones.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// Which permissions the key may have.
    pub owner: SecretOwner,
}

/// Address and TLS settings of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpsServer {
    url: String,
    ca: PathBuf,
    client: Option<ClientCertificateFiles>,
}

/// Limits of the connections to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpsLimits {
    /// Time limit of a request, with its connection and its response.
    pub timeout: Duration,
    /// Time limit of a connection, with TLS.
    pub connect_timeout: Duration,
    /// How many unused connections are kept.
    pub connections: usize,
}

/// Why a file of the TLS settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HttpsFileError {
    /// The client's key cannot be read, or other users could read it.
    #[error(transparent)]
    Secret(#[from] SecretFileError),
    /// A certificate cannot be read, or is too large.
    #[error(transparent)]
    Access(#[from] FileAccessError),
    /// A certificate or key is invalid.
    #[error("cannot use {}: {problem}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// Why it is invalid.
        problem: String,
    },
}

impl HttpsServer {
    /// Creates a server from an address such as `https://puppetdb.acme.net:8081`. `None` if the address is invalid, contains a secret or a path, or
    /// would send data unencrypted over a network.
    pub fn new(url: &str, ca: PathBuf, client: Option<ClientCertificateFiles>) -> Option<Self> {
        let (scheme, authority) = url.trim_end_matches('/').split_once("://")?;
        let is_forbidden =
            |c: char| c.is_whitespace() || c.is_control() || matches!(c, '@' | '/' | '?' | '#');
        if authority.is_empty() || authority.contains(is_forbidden) {
            return None;
        }
        let allowed = scheme == "https" || (scheme == "http" && is_loopback(authority));
        allowed.then(|| Self { url: format!("{scheme}://{authority}"), ca, client })
    }

    /// The address, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Builds a client. A status is no error of its requests.
    pub(crate) fn build_agent(&self, limits: HttpsLimits) -> Result<ureq::Agent, HttpsFileError> {
        let mut config = ureq::Agent::config_builder()
            .timeout_global(Some(limits.timeout))
            .timeout_connect(Some(limits.connect_timeout))
            .max_idle_connections(limits.connections)
            .max_idle_connections_per_host(limits.connections)
            .max_idle_age(MAX_IDLE_AGE)
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent("muster");
        if self.url.starts_with("https:") {
            config = config.https_only(true).tls_config(self.tls_config()?);
        }
        Ok(config.build().into())
    }

    fn tls_config(&self) -> Result<TlsConfig, HttpsFileError> {
        let roots = load_certificates(&self.ca)?;
        let client = self.client.as_ref().map(load_client_certificate).transpose()?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Ok(TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(provider)
            .root_certs(RootCerts::new_with_certs(&roots))
            .client_cert(client)
            .build())
    }
}

fn is_loopback(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => authority,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn pem_error(path: &Path, problem: &impl ToString) -> HttpsFileError {
    HttpsFileError::Pem { path: path.to_owned(), problem: problem.to_string() }
}

fn load_certificates(path: &Path) -> Result<Vec<Certificate<'static>>, HttpsFileError> {
    let text = files::read_text(path, MAX_PEM_BYTES)?;
    let mut certificates = Vec::new();
    for item in ureq::tls::parse_pem(text.as_bytes()) {
        if let ureq::tls::PemItem::Certificate(certificate) =
            item.map_err(|error| pem_error(path, &error))?
        {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err(pem_error(path, &"it contains no certificate in PEM format"));
    }
    Ok(certificates)
}

fn load_client_certificate(files: &ClientCertificateFiles) -> Result<ClientCert, HttpsFileError> {
    let ClientCertificateFiles { certificate, key, owner } = files;
    let chain = load_certificates(certificate)?;
    // The parser's error text could quote the secret input, so it is replaced.
    let text = muster_files::read_secret(key, *owner, MAX_PEM_BYTES)?;
    let private = PrivateKey::from_pem(text.as_bytes())
        .map_err(|_| pem_error(key, &"it contains no private key in PEM format"))?;
    Ok(ClientCert::new_with_certs(&chain, private))
}
