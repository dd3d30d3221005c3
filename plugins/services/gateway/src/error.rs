//! Why a request gets an error, and the response that Puppet's agents print.

use muster_base::error_chain;
use muster_bus::BucketError;
use muster_bus::content::ContentError;
use muster_catalogs::releases::ReleaseStoreError;
use muster_http::{HttpResponse, HttpStatus};
use muster_wire::catalog::content::ContentAddress;
use muster_wire::catalog::plugins::PluginListError;
use muster_wire::identity::Identity;
use serde_json::json;

pub(crate) const JSON: &str = "application/json";

/// Why a request gets an error. The text is for the one who reads the agent's log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GatewayError {
    #[error("the gateway has no page {0}; it serves released catalogs and their files")]
    Unknown(String),
    #[error("the path or the query of the request is not valid")]
    Malformed,
    #[error("{0}: only sha256 is available")]
    ChecksumType(String),
    #[error("the certificate of {client} is not for {asked}; a node reads only what is its own")]
    OtherNode { client: Identity, asked: String },
    #[error("no catalog is released for {0}; make a release that has the node, and promote it")]
    NoRelease(Identity),
    #[error(
        "the catalog of {0} has secrets, which only the daemon of the node can decrypt; apply it with `rpc release`"
    )]
    Secrets(Identity),
    /// Not 404: an agent takes that for an empty list, and removes its plugins.
    #[error("no release of {0} has plugins; the agent keeps those that it has")]
    NoPlugins(Identity),
    #[error("the release of {node} has no plugin {path}")]
    NoPlugin { node: Identity, path: String },
    #[error("no released catalog of {node} names the file {file}")]
    NotNamed { node: Identity, file: ContentAddress },
    #[error("too many requests; run the agent again later")]
    Busy,
    #[error("the broker did not answer in time; run the agent again later")]
    Timeout,
    #[error("cannot read the release")]
    Release(#[from] ReleaseStoreError),
    #[error("cannot read the file")]
    Content(#[from] ContentError),
    #[error("cannot read the plugins of the release")]
    Plugins(#[from] PluginListError),
    #[error("cannot read the buckets of catalogs")]
    Bucket(#[from] BucketError),
    #[error("the work ended unexpectedly")]
    Panicked(#[from] tokio::task::JoinError),
}

impl GatewayError {
    fn status(&self) -> HttpStatus {
        match self {
            Self::Malformed | Self::ChecksumType(_) => HttpStatus::BadRequest,
            Self::OtherNode { .. }
            | Self::Secrets(_)
            | Self::NoPlugins(_)
            | Self::NotNamed { .. } => HttpStatus::Forbidden,
            Self::Unknown(_) | Self::NoRelease(_) | Self::NoPlugin { .. } => HttpStatus::NotFound,
            Self::Busy
            | Self::Timeout
            | Self::Bucket(_)
            | Self::Release(
                ReleaseStoreError::Bucket(_) | ReleaseStoreError::Content(ContentError::Bucket(_)),
            )
            | Self::Content(ContentError::Bucket(_)) => HttpStatus::Unavailable,
            Self::Release(_) | Self::Content(_) | Self::Plugins(_) | Self::Panicked(_) => {
                HttpStatus::InternalError
            }
        }
    }

    /// A response in the form of Puppet Server's errors.
    pub(crate) fn response(&self, client: &Identity) -> HttpResponse {
        let (status, message) = (self.status(), error_chain(self));
        match status {
            HttpStatus::InternalError | HttpStatus::Unavailable => {
                tracing::warn!(%client, message, "a request of a Puppet agent failed");
            }
            _ => tracing::debug!(%client, message, "a request of a Puppet agent was refused"),
        }
        let kind = match status {
            HttpStatus::NotFound => "RESOURCE_NOT_FOUND",
            HttpStatus::Forbidden => "FAILED_AUTHORIZATION",
            HttpStatus::BadRequest => "UNSUPPORTED_FORMAT",
            _ => "RUNTIME_ERROR",
        };
        let body = json!({"message": message, "issue_kind": kind});
        HttpResponse::page(status, JSON, body.to_string())
    }
}
