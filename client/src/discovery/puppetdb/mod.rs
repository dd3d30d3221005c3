//! Discovery through `PuppetDB` over HTTP. Uses version 4 of its query API, available from `PuppetDB` 6.
//!
//! Connections use TLS, verified against the configured CA (Puppet's own by default), with a client certificate if one is configured. Plain HTTP is
//! allowed only for a loopback address. Proxy variables of the environment are ignored; redirects are not followed.

mod query;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use muster_filter::FactTerm;
use muster_filter::state::NodeFacts;
use muster_secret::{SecretFileError, SecretOwner};
use muster_wire::identity::Identity;
use serde::Deserialize;
use serde_json::{Map, Value};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig, TlsProvider};

use super::DiscoveryQuery;
use super::document;
use super::flat::{self, DiscoveryFileFormat, NodeListError};

use query::FactValuesQuery;
pub use query::PuppetDbQueryError;

/// Maximum response size in bytes: enough for a million names.
const MAX_ANSWER_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum size of a PEM file in bytes.
const MAX_PEM_BYTES: u64 = 1024 * 1024;
/// Maximum length of an error response in messages, in bytes.
const MAX_REFUSAL_BYTES: u64 = 4096;
/// Default path of Puppet's CA certificate.
const DEFAULT_CA_PATH: &str = "/etc/puppetlabs/puppet/ssl/certs/ca.pem";

/// Address and TLS settings of a `PuppetDB` server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PuppetDbServer {
    url: String,
    ca: PathBuf,
    pair: Option<(PathBuf, PathBuf)>,
    timeout: Duration,
}

/// A row of the entity `facts`.
#[derive(Debug, Deserialize)]
struct FactValueRow {
    certname: String,
    name: String,
    value: Value,
}

/// A result of a query.
type Result<T, E = PuppetDbError> = std::result::Result<T, E>;

/// Why a `PuppetDB` query failed.
#[derive(Debug, thiserror::Error)]
pub enum PuppetDbError {
    /// A condition that cannot be translated to a query.
    #[error(transparent)]
    Query(#[from] PuppetDbQueryError),
    /// The client's key cannot be read, or other users could read it.
    #[error(transparent)]
    Secret(#[from] SecretFileError),
    /// A certificate cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// A certificate or key is invalid.
    #[error("cannot use {}: {problem}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// Why it is invalid.
        problem: String,
    },
    /// The HTTP request failed.
    #[error("the request to PuppetDB at {url} failed")]
    Http {
        /// The address.
        url: String,
        /// The HTTP error.
        #[source]
        source: Box<ureq::Error>,
    },
    /// The server returned an error status.
    #[error("PuppetDB at {url} returned status {status}: {text}")]
    Refused {
        /// The address.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The response body, without control characters.
        text: String,
    },
    /// The response is not a list of nodes.
    #[error("the response of PuppetDB at {url} is not a valid list of nodes")]
    Answer {
        /// The address.
        url: String,
        /// The error and its position.
        #[source]
        source: NodeListError,
    },
    /// The values of a fact that are not as documented by `PuppetDB`, or too large.
    #[error(
        "the values of fact {fact} in the response of PuppetDB at {url} cannot be used: {problem}"
    )]
    Values {
        /// The address.
        url: String,
        /// The fact.
        fact: String,
        /// What is wrong with them.
        problem: String,
    },
    /// The runtime ended before the response.
    #[error("the query was aborted")]
    GivenUp,
}

impl PuppetDbServer {
    /// Creates a server from an address such as `https://puppetdb.acme.net:8081`. Fails if the address is invalid, contains a secret, or would send
    /// names unencrypted over a network.
    pub fn new(
        url: &str,
        ca: Option<PathBuf>,
        pair: Option<(PathBuf, PathBuf)>,
        timeout: Duration,
    ) -> Option<Self> {
        let (scheme, authority) = url.trim_end_matches('/').split_once("://")?;
        let is_forbidden =
            |c: char| c.is_whitespace() || c.is_control() || matches!(c, '@' | '/' | '?' | '#');
        if authority.is_empty() || authority.contains(is_forbidden) {
            return None;
        }
        let allowed = scheme == "https" || (scheme == "http" && is_loopback(authority));
        allowed.then(|| Self {
            url: format!("{scheme}://{authority}"),
            ca: ca.unwrap_or_else(|| DEFAULT_CA_PATH.into()),
            pair,
            timeout,
        })
    }

    /// Returns the matching nodes in `PuppetDB`, without deactivated or expired ones. The HTTP request blocks a thread of its own.
    pub async fn find_nodes(&self, discovery_query: &DiscoveryQuery) -> Result<BTreeSet<Identity>> {
        let queries = query::build_queries(discovery_query)?;
        let value_queries = query::build_value_queries(discovery_query);
        let server = self.clone();
        let task = tokio::task::spawn_blocking(move || {
            let agent = server.http_agent()?;
            let mut found: Option<BTreeSet<Identity>> = None;
            for alternatives in queries {
                let mut nodes = BTreeSet::new();
                for query in alternatives {
                    nodes.extend(server.run_query(&agent, &query)?);
                }
                found = Some(found.map_or_else(|| nodes.clone(), |earlier| &earlier & &nodes));
            }
            let mut found = found.unwrap_or_default();
            for FactValuesQuery { query, term } in value_queries {
                let facts = server.fetch_facts(&agent, &query, &term)?;
                let missing = NodeFacts::default();
                found.retain(|node| term.matches(facts.get(node).unwrap_or(&missing)));
            }
            Ok(found)
        });
        task.await.map_err(|_| PuppetDbError::GivenUp)?
    }

    fn run_query(&self, agent: &ureq::Agent, query: &Value) -> Result<BTreeSet<Identity>> {
        flat::parse_list(&self.fetch_text(agent, query)?, Some(DiscoveryFileFormat::Json))
            .map_err(|source| PuppetDbError::Answer { url: self.url.clone(), source })
    }

    /// The facts that a condition may be about, by node.
    fn fetch_facts(
        &self,
        agent: &ureq::Agent,
        query: &Value,
        term: &FactTerm,
    ) -> Result<BTreeMap<Identity, NodeFacts>> {
        let invalid = |problem: String| PuppetDbError::Values {
            url: self.url.clone(),
            fact: term.fact_path().to_string(),
            problem,
        };
        let rows: Vec<FactValueRow> = serde_json::from_str(&self.fetch_text(agent, query)?)
            .map_err(|error| invalid(error.to_string()))?;
        let mut values: BTreeMap<Identity, Map<String, Value>> = BTreeMap::new();
        for FactValueRow { certname, name, value } in rows {
            let node = Identity::parse(&certname).map_err(|error| invalid(error.to_string()))?;
            values.entry(node).or_default().insert(name, value);
        }
        let facts = values.into_iter().map(|(node, values)| {
            let facts = NodeFacts::from_map(values);
            Ok((node, facts.map_err(|error| invalid(error.to_string()))?))
        });
        facts.collect()
    }

    fn fetch_text(&self, agent: &ureq::Agent, query: &Value) -> Result<String> {
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
                .unwrap_or_else(|_| "the response cannot be read".to_owned());
            return Err(PuppetDbError::Refused {
                url: self.url.clone(),
                status,
                text: text.replace(char::is_control, " "),
            });
        }
        let text = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_string();
        text.map_err(failed)
    }

    fn http_agent(&self) -> Result<ureq::Agent> {
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

    fn tls_config(&self) -> Result<TlsConfig> {
        let roots = load_certificates(&self.ca)?;
        let pair = self.pair.as_ref();
        let client = pair.map(|(cert, key)| load_client_certificate(cert, key)).transpose()?;
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

fn read_pem(path: &Path) -> Result<String> {
    let text = document::read_bounded_file(path, MAX_PEM_BYTES)
        .map_err(|source| PuppetDbError::Read { path: path.to_owned(), source })?;
    text.ok_or_else(|| pem_error(path, &"it is too large"))
}

fn pem_error(path: &Path, problem: &impl ToString) -> PuppetDbError {
    PuppetDbError::Pem { path: path.to_owned(), problem: problem.to_string() }
}

fn load_certificates(path: &Path) -> Result<Vec<Certificate<'static>>> {
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
        return Err(pem_error(path, &"it contains no certificate in PEM format"));
    }
    Ok(certificates)
}

fn load_client_certificate(cert: &Path, key: &Path) -> Result<ClientCert> {
    let chain = load_certificates(cert)?;
    // The parser's error text could quote the secret input, so it is replaced.
    let text = muster_secret::read_secret(key, SecretOwner::Puppet, MAX_PEM_BYTES)?;
    let private = PrivateKey::from_pem(text.as_bytes())
        .map_err(|_| pem_error(key, &"it contains no private key in PEM format"))?;
    Ok(ClientCert::new_with_certs(&chain, private))
}

#[cfg(test)]
mod tests;
