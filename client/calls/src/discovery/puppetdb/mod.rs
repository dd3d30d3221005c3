//! Discovery through `PuppetDB` over HTTP. Uses version 4 of its query API, available from `PuppetDB` 6.
//!
//! Connections are those of [`HttpsServer`], verified with the configured CA, which is Puppet's own by default.

mod query;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use muster_files::SecretOwner;
use muster_filter::FactTerm;
use muster_filter::state::NodeFacts;
use muster_wire::identity::Identity;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::flat::{self, DiscoveryFileFormat, NodeListError};
use super::query::DiscoveryQuery;
use crate::https::{ClientCertificateFiles, HttpsFileError, HttpsLimits, HttpsServer};

use query::FactValuesQuery;
pub use query::PuppetDbQueryError;

/// Maximum response size in bytes: enough for a million names.
const MAX_ANSWER_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum length of an error response in messages, in bytes.
const MAX_REFUSAL_BYTES: u64 = 4096;
/// Default path of Puppet's CA certificate.
const DEFAULT_CA_PATH: &str = "/etc/puppetlabs/puppet/ssl/certs/ca.pem";

/// Address and TLS settings of a `PuppetDB` server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PuppetDbServer {
    server: HttpsServer,
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
    /// A file of the TLS settings cannot be used.
    #[error(transparent)]
    File(#[from] HttpsFileError),
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
        let client = pair.map(|(certificate, key)| ClientCertificateFiles {
            certificate,
            key,
            owner: SecretOwner::Puppet,
        });
        let server = HttpsServer::new(url, ca.unwrap_or_else(|| DEFAULT_CA_PATH.into()), client)?;
        Some(Self { server, timeout })
    }

    fn url(&self) -> String {
        self.server.url().to_owned()
    }

    /// Returns the matching nodes in `PuppetDB`, without deactivated or expired ones. The HTTP request blocks a thread of its own.
    pub async fn find_nodes(&self, discovery_query: &DiscoveryQuery) -> Result<BTreeSet<Identity>> {
        let queries = query::build_queries(discovery_query)?;
        let value_queries = query::build_value_queries(discovery_query);
        let server = self.clone();
        let task = tokio::task::spawn_blocking(move || {
            let agent = server.build_agent()?;
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
            .map_err(|source| PuppetDbError::Answer { url: self.url(), source })
    }

    /// The facts that a condition may be about, by node.
    fn fetch_facts(
        &self,
        agent: &ureq::Agent,
        query: &Value,
        term: &FactTerm,
    ) -> Result<BTreeMap<Identity, NodeFacts>> {
        let invalid = |problem: String| PuppetDbError::Values {
            url: self.url(),
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
        let failed =
            |source: ureq::Error| PuppetDbError::Http { url: self.url(), source: Box::new(source) };
        let body = serde_json::json!({ "query": query }).to_string();
        let mut response = agent
            .post(format!("{}/pdb/query/v4", self.server.url()))
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
                url: self.url(),
                status,
                text: text.replace(char::is_control, " "),
            });
        }
        let text = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_string();
        text.map_err(failed)
    }

    fn build_agent(&self) -> Result<ureq::Agent> {
        let limits =
            HttpsLimits { timeout: self.timeout, connect_timeout: self.timeout, connections: 1 };
        Ok(self.server.build_agent(limits)?)
    }
}

#[cfg(test)]
mod tests;
