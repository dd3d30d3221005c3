//! Validates DDLs fetched from nodes: the checksum must match, and all nodes that replied must agree.
//!
//! The replies are already verified. Pure functions.

use std::collections::BTreeMap;

use muster_contract::rpcutil::RpcutilDdlOutput;
use muster_ddl::{AgentDdl, DdlError};
use muster_files::files::FileAccessError;
use muster_wire::identity::Identity;
use sha2::{Digest as _, Sha256};

use crate::report::RequestReport;

/// Maximum number of nodes that an error names.
const MAX_NAMED_NODES: usize = 5;

/// A validated DDL.
#[derive(Debug)]
pub struct FetchedDdl {
    /// The DDL.
    pub ddl: AgentDdl,
    /// Its text, as sent by the nodes.
    pub text: String,
    /// SHA-256 of the text.
    pub sha256: String,
}

/// Why a DDL was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum DdlFetchError {
    /// No node has the agent.
    #[error("no node returned the DDL of the agent {0:?}")]
    NoReplies(String),
    /// Nodes have different versions: nodes by version and the first characters of the checksum.
    #[error("nodes have different DDLs of the agent {:?}:{}", .0, list_versions(.1))]
    DifferentDdls(String, BTreeMap<String, Vec<Identity>>),
    /// The checksum does not match.
    #[error("the DDL of the agent {0:?} does not match the checksum sent with it")]
    Checksum(String),
    /// The DDL describes another agent.
    #[error("requested the DDL of the agent {0:?}, but received that of {1:?}")]
    Name(String, String),
    /// The DDL is invalid.
    #[error("the DDL of the agent {0:?} is not valid")]
    Ddl(String, #[source] Box<DdlError>),
    /// There is no cache directory.
    #[error("no cache directory for DDLs: neither XDG_CACHE_HOME nor HOME is set")]
    NoCacheDirectory,
    /// The file cannot be written.
    #[error("cannot save the DDL")]
    Save(#[from] FileAccessError),
}

impl FetchedDdl {
    /// Parses a DDL and computes its checksum.
    #[cfg(test)]
    pub fn of(agent: &str, text: String) -> Result<Self, DdlFetchError> {
        let sha256 = sha256_hex(&text);
        Self::from_text(agent, &sha256, text)
    }

    /// Parses a DDL that must have this checksum and describe this agent.
    pub fn from_text(agent: &str, sha256: &str, text: String) -> Result<Self, DdlFetchError> {
        let name = || agent.to_owned();
        if sha256_hex(&text) != sha256 {
            return Err(DdlFetchError::Checksum(name()));
        }
        let ddl = AgentDdl::from_slice(text.as_bytes())
            .map_err(|source| DdlFetchError::Ddl(name(), Box::new(source)))?;
        if ddl.name() != agent {
            return Err(DdlFetchError::Name(name(), ddl.name().to_owned()));
        }
        Ok(Self { ddl, text, sha256: sha256.to_owned() })
    }

    /// Returns the DDL on which all replies to `rpcutil ddl` agree.
    pub fn from_report(agent: &str, report: &RequestReport) -> Result<Self, DdlFetchError> {
        let mut versions: BTreeMap<String, Vec<Identity>> = BTreeMap::new();
        let mut latest = None;
        for reply in report.successes() {
            let RpcutilDdlOutput { ddl, sha256, .. } = reply.typed_outputs();
            let fetched = Self::from_text(agent, &sha256, ddl)?;
            let short = sha256.get(..12).unwrap_or(&sha256);
            let version = format!("{} ({short})", fetched.ddl.version());
            versions.entry(version).or_default().push(reply.node.clone());
            latest = Some(fetched);
        }
        match latest {
            Some(fetched) if versions.len() == 1 => Ok(fetched),
            Some(_) => Err(DdlFetchError::DifferentDdls(agent.to_owned(), versions)),
            None => Err(DdlFetchError::NoReplies(agent.to_owned())),
        }
    }
}

fn sha256_hex(text: &str) -> String {
    format!("{:x}", Sha256::digest(text.as_bytes()))
}

fn list_versions(versions: &BTreeMap<String, Vec<Identity>>) -> String {
    let line = |(version, nodes): (&String, &Vec<Identity>)| {
        let names: Vec<&str> = nodes.iter().take(MAX_NAMED_NODES).map(Identity::as_str).collect();
        let more = match nodes.len().saturating_sub(MAX_NAMED_NODES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("\n  {version}: {}{more}", names.join(", "))
    };
    versions.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use muster_wire::identity::Identity;
    use muster_wire::status::ReplyStatus;
    use serde_json::json;

    use super::{DdlFetchError, FetchedDdl};
    use crate::node_reply::NodeReply;
    use crate::report::{RequestReport, RequestStats};

    fn text(version: &str) -> String {
        json!({"metadata": {"name": "disk", "version": version}, "actions": []}).to_string()
    }

    fn report(told: &[(&str, &str, &str)]) -> RequestReport {
        let reply = |(node, version, sum): &(&str, &str, &str)| {
            let fetched = FetchedDdl::of("disk", text(version)).unwrap();
            let sha256 = if sum.is_empty() { fetched.sha256.as_str() } else { sum };
            let data = json!({"ddl": fetched.text, "sha256": sha256, "version": version});
            NodeReply {
                node: Identity::parse(node).unwrap(),
                status: ReplyStatus::Ok,
                message: "OK".to_owned().into(),
                reason: None,
                data: data.as_object().cloned().unwrap(),
                took: 1,
                trace: None,
            }
        };
        RequestReport {
            noop: false,
            agent: "rpcutil".to_owned(),
            action: "ddl".to_owned(),
            replies: told.iter().map(reply).collect(),
            summaries: Vec::new(),
            stats: RequestStats::default(),
            ..RequestReport::default()
        }
    }

    #[test]
    fn ddl_is_accepted_only_if_all_replies_agree() {
        let same = report(&[("a.net", "1.0.0", ""), ("b.net", "1.0.0", "")]);
        assert_eq!(FetchedDdl::from_report("disk", &same).unwrap().ddl.version(), "1.0.0");
        let other =
            report(&[("a.net", "1.0.0", ""), ("b.net", "2.0.0", ""), ("c.net", "2.0.0", "")]);
        let error = FetchedDdl::from_report("disk", &other).unwrap_err();
        let told = error.to_string();
        assert!(matches!(error, DdlFetchError::DifferentDdls(..)), "{told}");
        assert!(told.contains(": a.net\n") && told.ends_with(": b.net, c.net"), "{told}");
        let forged = report(&[("a.net", "1.0.0", "00")]);
        assert!(matches!(
            FetchedDdl::from_report("disk", &forged),
            Err(DdlFetchError::Checksum(..))
        ));
        assert!(matches!(
            FetchedDdl::from_report("disk", &report(&[])),
            Err(DdlFetchError::NoReplies(..))
        ));
        assert!(matches!(FetchedDdl::of("cpu", text("1.0.0")), Err(DdlFetchError::Name(..))));
    }
}
