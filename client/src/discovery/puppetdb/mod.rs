//! `PuppetDB` over HTTP: whom its last runs and reports know. Version 4 of its query API, from `PuppetDB` 6 on.
//!
//! Connections are TLS, verified against the authority that is configured (Puppet's own by default), with a client certificate where one
//! is given. Plain HTTP is for a loopback address only. No proxy of the environment is used, no redirect followed.

mod query;

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use muster_secret::{SecretFileError, SecretOwner};
use muster_wire::identity::Identity;
use serde_json::Value;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig, TlsProvider};

use super::DiscoveryQuery;
use super::document;
use super::flat::{self, DiscoveryFileFormat, NodeListError};

pub use query::PuppetDbQueryError;

/// Largest answer in bytes: a million names.
const MAX_ANSWER_BYTES: u64 = 64 * 1024 * 1024;
/// Largest PEM file in bytes.
const MAX_PEM_BYTES: u64 = 1024 * 1024;
/// So much of a refusal is shown, in bytes.
const MAX_REFUSAL_BYTES: u64 = 4096;
/// Where Puppet keeps the certificate of its authority.
const DEFAULT_CA_PATH: &str = "/etc/puppetlabs/puppet/ssl/certs/ca.pem";

/// Where `PuppetDB` is, and how to speak to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PuppetDbServer {
    url: String,
    ca: PathBuf,
    pair: Option<(PathBuf, PathBuf)>,
    timeout: Duration,
}

/// Why `PuppetDB` told nothing.
#[derive(Debug, thiserror::Error)]
pub enum PuppetDbError {
    /// A condition that cannot be put to it.
    #[error(transparent)]
    Query(#[from] PuppetDbQueryError),
    /// The client's key cannot be read, or others could read it too.
    #[error(transparent)]
    Secret(#[from] SecretFileError),
    /// A certificate cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// A certificate or key cannot be used.
    #[error("cannot use {}: {problem}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// No answer.
    #[error("PuppetDB at {url} does not answer")]
    Http {
        /// The address.
        url: String,
        /// Why.
        #[source]
        source: Box<ureq::Error>,
    },
    /// It refuses.
    #[error("PuppetDB at {url} refuses with status {status}: {text}")]
    Refused {
        /// The address.
        url: String,
        /// HTTP's status.
        status: u16,
        /// Its words, without what could steer a terminal.
        text: String,
    },
    /// The answer is no list of nodes.
    #[error("the answer of PuppetDB at {url} cannot be used")]
    Answer {
        /// The address.
        url: String,
        /// Where and why.
        #[source]
        source: NodeListError,
    },
    /// The runtime ended before the answer.
    #[error("the query was given up")]
    GivenUp,
}

impl PuppetDbServer {
    /// An address such as `https://puppetdb.acme.net:8081`; none if it is no address, holds a secret, or would send names in clear
    /// over a network.
    pub fn new(
        url: &str,
        ca: Option<PathBuf>,
        pair: Option<(PathBuf, PathBuf)>,
        timeout: Duration,
    ) -> Option<Self> {
        let (scheme, authority) = url.trim_end_matches('/').split_once("://")?;
        let odd =
            |c: char| c.is_whitespace() || c.is_control() || matches!(c, '@' | '/' | '?' | '#');
        if authority.is_empty() || authority.contains(odd) {
            return None;
        }
        let allowed = match scheme {
            "https" => true,
            "http" => is_loopback(authority),
            _ => false,
        };
        allowed.then(|| Self {
            url: format!("{scheme}://{authority}"),
            ca: ca.unwrap_or_else(|| DEFAULT_CA_PATH.into()),
            pair,
            timeout,
        })
    }

    /// The nodes that are wanted, as far as `PuppetDB` knows: those that are not deactivated or expired. Waits on a thread of its own.
    pub async fn find_nodes(
        &self,
        wanted: &DiscoveryQuery,
    ) -> Result<BTreeSet<Identity>, PuppetDbError> {
        let queries = query::build_queries(wanted)?;
        let server = self.clone();
        let asking = tokio::task::spawn_blocking(move || {
            let agent = server.http_agent()?;
            let mut found: Option<BTreeSet<Identity>> = None;
            for alternatives in queries {
                let mut nodes = BTreeSet::new();
                for query in alternatives {
                    nodes.extend(server.run_query(&agent, &query)?);
                }
                found = Some(match found {
                    Some(earlier) => &earlier & &nodes,
                    None => nodes,
                });
            }
            Ok(found.unwrap_or_default())
        });
        asking.await.map_err(|_| PuppetDbError::GivenUp)?
    }

    fn run_query(
        &self,
        agent: &ureq::Agent,
        query: &Value,
    ) -> Result<BTreeSet<Identity>, PuppetDbError> {
        let failed = |source: ureq::Error| PuppetDbError::Http {
            url: self.url.clone(),
            source: Box::new(source),
        };
        let body = serde_json::json!({ "query": query }).to_string();
        let mut response = agent
            .post(format!("{}/pdb/query/v4", self.url))
            .header("content-type", "application/json")
            .header("accept", "application/json")
            .send(body.as_bytes())
            .map_err(failed)?;
        let status = response.status().as_u16();
        if status != 200 {
            let text = response
                .body_mut()
                .with_config()
                .limit(MAX_REFUSAL_BYTES)
                .lossy_utf8(true)
                .read_to_string()
                .unwrap_or_else(|_| "a long answer".to_owned());
            return Err(PuppetDbError::Refused {
                url: self.url.clone(),
                status,
                text: text
                    .chars()
                    .map(|c| if c.is_control() { ' ' } else { c })
                    .collect(),
            });
        }
        let text = response
            .body_mut()
            .with_config()
            .limit(MAX_ANSWER_BYTES)
            .read_to_string();
        flat::parse_list(&text.map_err(failed)?, Some(DiscoveryFileFormat::Json)).map_err(
            |source| PuppetDbError::Answer {
                url: self.url.clone(),
                source,
            },
        )
    }

    fn http_agent(&self) -> Result<ureq::Agent, PuppetDbError> {
        let mut config = ureq::Agent::config_builder()
            .timeout_global(Some(self.timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent("muster");
        if self.url.starts_with("https:") {
            config = config.https_only(true).tls_config(self.tls_config()?);
        }
        Ok(config.build().into())
    }

    fn tls_config(&self) -> Result<TlsConfig, PuppetDbError> {
        let roots = load_certificates(&self.ca)?;
        let client = match &self.pair {
            Some((cert, key)) => Some(load_client_certificate(cert, key)?),
            None => None,
        };
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
    host == "localhost"
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

fn read_pem(path: &Path) -> Result<String, PuppetDbError> {
    let text =
        document::read_bounded_file(path, MAX_PEM_BYTES).map_err(|source| PuppetDbError::Read {
            path: path.to_owned(),
            source,
        })?;
    text.ok_or_else(|| pem_error(path, &"it is too long"))
}

fn pem_error(path: &Path, problem: &impl ToString) -> PuppetDbError {
    PuppetDbError::Pem {
        path: path.to_owned(),
        problem: problem.to_string(),
    }
}

fn load_certificates(path: &Path) -> Result<Vec<Certificate<'static>>, PuppetDbError> {
    let text = read_pem(path)?;
    let mut certificates = Vec::new();
    for item in ureq::tls::parse_pem(text.as_bytes()) {
        if let ureq::tls::PemItem::Certificate(certificate) =
            item.map_err(|error| pem_error(path, &error))?
        {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err(pem_error(path, &"it holds no certificate in PEM form"));
    }
    Ok(certificates)
}

fn load_client_certificate(cert: &Path, key: &Path) -> Result<ClientCert, PuppetDbError> {
    let chain = load_certificates(cert)?;
    // The parser's own words could quote what it read.
    let text = muster_secret::read_secret(key, SecretOwner::Puppet, MAX_PEM_BYTES)?;
    let private = PrivateKey::from_pem(text.as_bytes())
        .map_err(|_| pem_error(key, &"it holds no private key in PEM form"))?;
    Ok(ClientCert::new_with_certs(&chain, private))
}

#[cfg(test)]
mod tests;
