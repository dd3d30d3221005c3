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

mod asking;
mod home;

use std::path::{Path, PathBuf};

use muster_bus::BusError;
use muster_secret::SecretFileError;
use muster_system::SystemError;
use muster_wire::enrol::Refused;
use muster_wire::identity::{Identity, NameError};
use muster_wire::sign::SealError;
use muster_wire::token::{CredsError, KeyError, TokenError};
use tokio::sync::Notify;

use crate::config::Config;

pub use home::{Enrolled, Home};

/// The agents that a node offers while it is provisioned.
pub const OFFERED: [&str; 2] = ["provision", "rpcutil"];

/// Why a machine does not become a node.
#[derive(Debug, thiserror::Error)]
pub enum NewcomerError {
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
        source: CredsError,
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
    Seal(#[from] SealError),
    /// A broker address, or the connection's own settings.
    #[error("cannot set up the connection to the broker")]
    Bus(#[from] BusError),
    /// It may not become a node, and asking again would not help.
    #[error(
        "this machine is refused as {identity} ({}): {}; another bootstrap token or name is needed",
        refused.reason.word(), refused.message
    )]
    Refused {
        /// Who it wanted to be.
        identity: Identity,
        /// What was said.
        refused: Refused,
    },
}

/// The configuration of a node: as it is where the node has credentials, else with what was learnt when the machine was enrolled, for
/// which it asks as long as it takes. `again` asks at once, without waiting for the next time.
pub async fn arrive(config: &Config, again: &Notify) -> Result<Config, NewcomerError> {
    if let Some(bootstrap) = bootstrap(config) {
        let home = Home::open(&config.paths.state)?;
        asking::enrol(config, bootstrap, &home, again).await?;
    }
    as_known(config)
}

/// The same without asking anybody: for whoever only looks. Touches nothing.
pub fn as_known(config: &Config) -> Result<Config, NewcomerError> {
    let home = Home::at(&config.paths.state);
    if config.broker.credentials.exists() || !home.has_credentials() {
        return Ok(config.clone());
    }
    known(config, &home)
}

/// The bootstrap credential of a machine that still has to ask.
pub fn bootstrap(config: &Config) -> Option<&Path> {
    let is_somebody =
        config.broker.credentials.exists() || Home::at(&config.paths.state).has_credentials();
    let credentials = config.provisioning.credentials.as_deref();
    credentials.filter(|_| !is_somebody)
}

/// Proves that it can ask: the bootstrap credential and the account are what they should be.
pub fn inspect(config: &Config, bootstrap: &Path) -> Result<(), NewcomerError> {
    asking::Bootstrap::read(config, bootstrap).map(drop)
}

fn known(config: &Config, home: &Home) -> Result<Config, NewcomerError> {
    Ok(config.enrolled(&home.enrolled()?, home))
}

/// The name that the configuration gives; nothing if it is only the machine's own.
fn configured_name(config: &Config) -> Option<&Identity> {
    (!config.is_default("identity")).then_some(&config.identity)
}
