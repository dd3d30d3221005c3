//! Enrolment: how a machine that starts with a bootstrap credential becomes a node.
//!
//! ```text
//! no credentials, a bootstrap credential     store a key and a name; request enrolment until accepted
//! accepted                                   store account token, enrolment details, the `provisioning` marker, credentials: in this order
//! the marker exists                          offer only the agents `provision` and `rpcutil`
//! the marker is gone                         a regular node
//! ```
//!
//! Enrolment resumes after a kill at any point: key and name are on disk before the first request, and the credentials are written last.
//! `identity_store` stores the files, `session` sends the requests.

mod identity_store;
mod session;

use std::path::{Path, PathBuf};

use muster_bus::BusError;
use muster_files::SecretFileError;
use muster_system::SystemError;
use muster_wire::enrol::EnrolmentRefusal;
use muster_wire::identity::Identity;
use muster_wire::sign::EnvelopeSignError;
use muster_wire::token::{KeyError, UserCredentialsError};
use tokio::sync::Notify;

use crate::config::{Config, EnrolledValues};
use crate::trust::credentials::CredentialsError;

pub use identity_store::{EnrolmentDetails, IdentityStore};

pub const PROVISIONING_AGENTS: [&str; 2] = ["provision", "rpcutil"];

#[derive(Debug, thiserror::Error)]
pub enum NodeEnrolmentError {
    /// The bootstrap credentials or the bootstrap account cannot be used.
    #[error(transparent)]
    Bootstrap(#[from] CredentialsError),
    /// The stored key is readable by other users, or cannot be read.
    #[error(transparent)]
    Exposed(#[from] SecretFileError),
    /// The received token does not match the key of this machine.
    #[error("the received credentials cannot be used")]
    Received(#[from] UserCredentialsError),
    #[error("cannot store the identity of this machine")]
    State(#[from] SystemError),
    #[error(
        "{} is damaged; if this machine was never enrolled, remove the file to start enrolment again with a new key",
        path.display()
    )]
    Damaged { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("cannot generate a key")]
    Key(#[from] KeyError),
    #[error("cannot sign the enrolment request")]
    Seal(#[from] EnvelopeSignError),
    #[error("cannot set up the connection to the broker")]
    Bus(#[from] BusError),
    /// Enrolment was refused permanently; a retry would not help.
    #[error(
        "enrolment as `{identity}` was refused ({}): {}; use another bootstrap token or name",
        refused.reason.as_str(), refused.message
    )]
    Refused { identity: Identity, refused: EnrolmentRefusal },
}

/// The configuration of a node, without what it follows. With credentials it is the configuration as read; otherwise the enrolment details are merged in, after
/// waiting for enrolment without a time limit. `retry` triggers an immediate retry.
pub async fn ensure_enrolled(
    config: &Config,
    retry: &Notify,
) -> Result<Config, NodeEnrolmentError> {
    if let Some(bootstrap) = bootstrap_path(config) {
        let store = IdentityStore::open(&config.paths.state)?;
        session::enrol_node(config, bootstrap, &store, retry).await?;
    }
    enrolled_config(config)
}

/// The effective configuration without network access, for read-only commands. Changes nothing.
pub fn effective_config(config: &Config) -> Result<Config, NodeEnrolmentError> {
    let config = enrolled_config(config)?;
    let follower = config.broker_follower();
    Ok(follower.map_or_else(|| config.clone(), |follower| config.with_broker(follower.place())))
}

fn enrolled_config(config: &Config) -> Result<Config, NodeEnrolmentError> {
    let store = IdentityStore::in_directory(&config.paths.state);
    if config.broker.credentials.exists() || !store.has_credentials() {
        return Ok(config.clone());
    }
    let details = store.read_enrolment()?;
    Ok(config.with_enrolled(EnrolledValues {
        identity: details.identity,
        collectives: details.collectives,
        facts: details.facts,
        credentials: store.credentials_path(),
        account: store.account_path(),
    }))
}

/// The bootstrap credential of a machine that is not enrolled yet.
pub fn bootstrap_path(config: &Config) -> Option<&Path> {
    let has_credentials = config.broker.credentials.exists()
        || IdentityStore::in_directory(&config.paths.state).has_credentials();
    let credentials = config.provisioning.credentials.as_deref();
    credentials.filter(|_| !has_credentials)
}

/// Checks that the bootstrap credential and the account are valid.
pub fn check_bootstrap(config: &Config, bootstrap: &Path) -> Result<(), NodeEnrolmentError> {
    session::BootstrapCredentials::read_files(config, bootstrap).map(drop)
}

/// The configured name; `None` if it is the default host name.
fn configured_name(config: &Config) -> Option<&Identity> {
    (!config.is_default("identity")).then_some(&config.identity)
}
