//! Why a release is not followed.

use std::io;

use muster_api::ActionError;
use muster_api::base::{error_chain, format_millis};
use muster_api::system::SystemError;
use muster_bus::BucketError;
use muster_bus::content::ContentError;
use muster_puppet::RunStartError;
use muster_puppet::permits::PermitError;
use muster_wire::Millis;
use muster_wire::catalog::content::ContentAddress;
use muster_wire::catalog::plugins::PluginListError;
use muster_wire::catalog::release::{ReleaseListError, ReleaseRefusal};
use muster_wire::catalog::{CatalogAddress, CatalogRefusal};
use tokio::task::JoinError;

use super::puppet_copy::SourcePathError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReleaseError {
    #[error("this node is not connected to the broker, and does not have this catalog")]
    NotConnected,
    #[error(transparent)]
    Refused(#[from] ReleaseRefusal),
    #[error("{author} may not promote releases to this node: {rule}")]
    Denied { author: String, rule: String },
    #[error("this node does not match the filter of the promotion")]
    NotMatched,
    #[error(
        "the promotion is {} older than the one that this node has; promote again", format_millis(*.0)
    )]
    Older(Millis),
    #[error("cannot read the bucket of catalogs")]
    Bucket(#[from] BucketError),
    #[error("cannot fetch {what}")]
    Content {
        what: String,
        #[source]
        source: ContentError,
    },
    #[error(transparent)]
    List(#[from] ReleaseListError),
    #[error("the catalog {0} is not stored; compile the node again, and create another release")]
    NoCatalog(CatalogAddress),
    #[error("the catalog {address} is not accepted")]
    Catalog {
        address: CatalogAddress,
        #[source]
        source: CatalogRefusal,
    },
    #[error("the catalog is of the environment {found}, and the release of {expected}")]
    Environment { found: String, expected: String },
    #[error("cannot use the directory of releases")]
    State(#[from] SystemError),
    #[error("no release was promoted to this node")]
    Nothing,
    /// The run could not start.
    #[error("{}", .0.message)]
    Run(ActionError),
    #[error(transparent)]
    Plugins(#[from] PluginListError),
    #[error(
        "the list of plugins {0} is not on this node; connect it to the broker, and promote the release again"
    )]
    NoPlugins(ContentAddress),
    #[error("the run has no permit")]
    Permit(#[from] PermitError),
    #[error("the run was stopped, because it lost its permit")]
    Fenced,
    #[error(transparent)]
    Puppet(#[from] RunStartError),
    #[error(transparent)]
    Source(#[from] SourcePathError),
    #[error("cannot prepare the files of the catalog for Puppet")]
    Links(#[source] io::Error),
    #[error("the work ended unexpectedly: {0}")]
    Panicked(String),
}

impl ReleaseError {
    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    pub(super) fn panicked(error: JoinError) -> Self {
        Self::Panicked(error.to_string())
    }
}

impl From<ReleaseError> for ActionError {
    fn from(error: ReleaseError) -> Self {
        let text = error_chain(&error);
        match error {
            ReleaseError::Run(error) => error,
            ReleaseError::Denied { rule, .. } => Self::denied_by_rule(text, rule),
            ReleaseError::Refused(_) | ReleaseError::NotMatched | ReleaseError::Older(_) => {
                Self::invalid_input(text)
            }
            _ => Self::failed(text),
        }
    }
}
