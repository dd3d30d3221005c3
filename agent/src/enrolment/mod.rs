//! How this machine becomes a node, when it was started with a bootstrap credential instead of one of its own.
//!
//! ```text
//! no credentials, a bootstrap credential     a key and a name are kept; it asks to be enrolled until it is
//! welcome                                    account token, what was told, the mark `provisioning`, credentials: in this order
//! the mark is there                          only the agents `provision` and `rpcutil` are offered
//! the mark is gone                           a node as any other
//! ```
//!
//! Killed at any point it goes on where it was: the key and the name are on the disk before anybody hears of them, and the
//! credentials are written last. `home` has the files, `asking` the questions.

mod identity_store;
mod session;

use std::path::{Path, PathBuf};

use muster_bus::BusError;
use muster_secret::SecretFileError;
use muster_system::SystemError;
use muster_wire::enrol::EnrolmentRefusal;
use muster_wire::identity::{Identity, NameError};
use muster_wire::sign::EnvelopeSignError;
use muster_wire::token::{KeyError, TokenError, UserCredentialsError};
use tokio::sync::Notify;

use crate::config::Config;

pub use identity_store::{EnrolmentDetails, IdentityStore};

/// The agents that a node offers while it is provisioned.
pub const PROVISIONING_AGENTS: [&str; 2] = ["provision", "rpcutil"];

/// Why a machine does not become a node.
#[derive(Debug, thiserror::Error)]
pub enum NodeEnrolmentError {
    /// A file that the configuration names.
    #[error("cannot read {what} from {}", path.display())]
    Read {
        /// What is in it.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: std::io::Error,
    },
    /// A secret that others could read.
    #[error(transparent)]
    Exposed(#[from] SecretFileError),
    /// The bootstrap credential is none.
    #[error("the bootstrap credentials in {} cannot be used", path.display())]
    Creds {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: UserCredentialsError,
    },
    /// The name in a token is no identity.
    #[error("the bootstrap credentials in {} carry a name that is none", path.display())]
    Name {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: NameError,
    },
    /// The account of newcomers is not the operator's.
    #[error("the newcomers' account in {} cannot be used", path.display())]
    Trust {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: TokenError,
    },
    /// What this machine keeps of itself.
    #[error("cannot keep what this machine is")]
    State(#[from] SystemError),
    /// What it kept of itself cannot be read again.
    #[error(
        "{} is damaged; if this machine was never enrolled, remove it, and it begins anew under a new key",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No key could be made.
    #[error("cannot make a key")]
    Key(#[from] KeyError),
    /// The wish cannot be sealed.
    #[error("cannot say who this machine is")]
    Seal(#[from] EnvelopeSignError),
    /// A broker address, or the connection's own settings.
    #[error("cannot set up the connection to the broker")]
    Bus(#[from] BusError),
    /// It may not become a node, and asking again would not help.
    #[error(
        "this machine is refused as {identity} ({}): {}; another bootstrap token or name is needed",
        refused.reason.as_str(), refused.message
    )]
    Refused {
        /// Who it wanted to be.
        identity: Identity,
        /// What was said.
        refused: EnrolmentRefusal,
    },
}

/// The configuration of a node: as it is where the node has credentials, else with what was learnt when the machine was enrolled, for
/// which it asks as long as it takes. `again` asks at once, without waiting for the next time.
pub async fn ensure_enrolled(
    config: &Config,
    again: &Notify,
) -> Result<Config, NodeEnrolmentError> {
    if let Some(bootstrap) = bootstrap_path(config) {
        let home = IdentityStore::open(&config.paths.state)?;
        session::enrol_node(config, bootstrap, &home, again).await?;
    }
    effective_config(config)
}

/// The same without asking anybody: for whoever only looks. Touches nothing.
pub fn effective_config(config: &Config) -> Result<Config, NodeEnrolmentError> {
    let home = IdentityStore::in_directory(&config.paths.state);
    if config.broker.credentials.exists() || !home.has_credentials() {
        return Ok(config.clone());
    }
    enrolled_config(config, &home)
}

/// The bootstrap credential of a machine that still has to ask.
pub fn bootstrap_path(config: &Config) -> Option<&Path> {
    let is_somebody = config.broker.credentials.exists()
        || IdentityStore::in_directory(&config.paths.state).has_credentials();
    let credentials = config.provisioning.credentials.as_deref();
    credentials.filter(|_| !is_somebody)
}

/// Proves that it can ask: the bootstrap credential and the account are what they should be.
pub fn check_bootstrap(config: &Config, bootstrap: &Path) -> Result<(), NodeEnrolmentError> {
    session::BootstrapCredentials::read_files(config, bootstrap).map(drop)
}

fn enrolled_config(config: &Config, home: &IdentityStore) -> Result<Config, NodeEnrolmentError> {
    Ok(config.with_enrolment(&home.read_enrolment()?, home))
}

/// The name that the configuration gives; nothing if it is only the machine's own.
fn configured_name(config: &Config) -> Option<&Identity> {
    (!config.is_default("identity")).then_some(&config.identity)
}
