//! The section `[plugins.puppetdb]`.

use std::path::PathBuf;
use std::time::Duration;

use muster_calls::{ClientCertificateFiles, HttpsClient, HttpsFileError, HttpsLimits, HttpsServer};
use muster_files::SecretOwner;
use serde::Deserialize;

const DEFAULT_DIRECTORY: &str = "/var/lib/muster/puppetdb";
const DEFAULT_PRODUCER: &str = "muster";
const DEFAULT_TIMEOUT_SECONDS: u64 = 30;
const MAX_TIMEOUT_SECONDS: u64 = 600;
const DEFAULT_DEAD_LETTERS: usize = 100;
const MAX_DEAD_LETTERS: usize = 10_000;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// One for each kind of source.
const MAX_CONNECTIONS: usize = 3;

/// The section `[plugins.puppetdb]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PuppetdbOptions {
    /// Whether this host sends to a `PuppetDB`.
    pub enabled: bool,
    /// Its address: `https://puppetdb.acme.net:8081`, or plain HTTP on a loopback address.
    pub url: String,
    /// The authority of its certificate, as PEM.
    pub ca: Option<PathBuf>,
    /// A certificate that it accepts, as PEM.
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate.
    pub key: Option<PathBuf>,
    /// How far was sent, and refused commands.
    pub directory: Option<PathBuf>,
    /// The name under which commands are sent.
    pub producer: Option<String>,
    /// Whether facts are sent; they are if absent.
    pub facts: Option<bool>,
    /// Whether released catalogs and their inputs are sent; they are if absent.
    pub catalogs: Option<bool>,
    /// Whether reports are sent; they are if absent.
    pub reports: Option<bool>,
    /// Time limit of a command, in seconds.
    pub timeout_seconds: Option<u64>,
    /// How many refused commands are kept.
    pub dead_letters: Option<usize>,
}

/// Why the section cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SinkOptionsError {
    /// Not the address of a server.
    #[error(
        "url is `{0}`; set it to an address as https://puppetdb.acme.net:8081, or to plain HTTP on a loopback address, without a path"
    )]
    Url(String),
    /// HTTPS without the files that it needs.
    #[error("{0} is not set; https needs ca, certificate and key")]
    MissingFile(&'static str),
    /// A file of the TLS settings cannot be used.
    #[error("cannot use a file of the TLS settings")]
    File(#[from] HttpsFileError),
}

impl PuppetdbOptions {
    /// Reads the files of the TLS settings. Connects at the first command.
    pub fn open_client(&self) -> Result<HttpsClient, SinkOptionsError> {
        let files = [("ca", &self.ca), ("certificate", &self.certificate), ("key", &self.key)];
        let missing = files.iter().find(|(_, path)| path.is_none());
        let (ca, client) = match (missing, &self.ca, &self.certificate, &self.key) {
            (None, Some(ca), Some(certificate), Some(key)) => {
                let (certificate, key) = (certificate.clone(), key.clone());
                let client =
                    ClientCertificateFiles { certificate, key, owner: SecretOwner::Puppet };
                (ca.clone(), Some(client))
            }
            (Some((name, _)), ..) if self.url.starts_with("https:") => {
                return Err(SinkOptionsError::MissingFile(name));
            }
            _ => (PathBuf::new(), None),
        };
        let server = HttpsServer::new(&self.url, ca, client)
            .ok_or_else(|| SinkOptionsError::Url(self.url.clone()))?;
        let limits = HttpsLimits {
            timeout: self.timeout(),
            connect_timeout: self.timeout().min(CONNECT_TIMEOUT),
            connections: MAX_CONNECTIONS,
        };
        Ok(HttpsClient::open(&server, None, limits)?)
    }

    pub fn directory(&self) -> PathBuf {
        self.directory.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DIRECTORY))
    }

    pub fn producer(&self) -> String {
        self.producer.clone().unwrap_or_else(|| DEFAULT_PRODUCER.to_owned())
    }

    pub fn timeout(&self) -> Duration {
        let seconds = self.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS);
        Duration::from_secs(seconds.clamp(1, MAX_TIMEOUT_SECONDS))
    }

    pub fn dead_letters(&self) -> usize {
        self.dead_letters.unwrap_or(DEFAULT_DEAD_LETTERS).clamp(1, MAX_DEAD_LETTERS)
    }
}

#[cfg(test)]
mod tests {
    use super::{PuppetdbOptions, SinkOptionsError};

    fn options(url: &str) -> PuppetdbOptions {
        PuppetdbOptions { url: url.to_owned(), ..PuppetdbOptions::default() }
    }

    #[test]
    fn plain_http_is_for_loopback_only() {
        assert!(options("http://127.0.0.1:8080").open_client().is_ok());
        for url in ["http://puppetdb.acme.net:8080", "", "127.0.0.1:8080", "http://localhost/pdb"] {
            let error = options(url).open_client().unwrap_err();
            assert!(matches!(error, SinkOptionsError::Url(_)), "{url}: {error}");
        }
    }

    #[test]
    fn https_needs_its_files() {
        let error = options("https://puppetdb.acme.net:8081").open_client().unwrap_err();
        assert!(matches!(error, SinkOptionsError::MissingFile("ca")), "{error}");
        let mut options = options("https://puppetdb.acme.net:8081");
        options.ca = Some("/nonexistent/ca.pem".into());
        let error = options.open_client().unwrap_err();
        assert!(matches!(error, SinkOptionsError::MissingFile("certificate")), "{error}");
        (options.certificate, options.key) = (options.ca.clone(), options.ca.clone());
        let error = options.open_client().unwrap_err();
        assert!(matches!(error, SinkOptionsError::File(_)), "{error}");
    }
}
