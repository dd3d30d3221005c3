//! Loads the credentials and the account token of this node, and chooses between the configured and the stored ones.

use std::path::Path;

use muster_base::{error_chain, unix_millis};
use muster_wire::sign::Signer;
use muster_wire::token::AccountTrust;

use crate::config::Config;
use crate::trust::credentials::{self, CredentialsError};
use crate::trust::node_trust::NodeTrust;

/// The account token in errors.
const ACCOUNT_TOKEN: &str = "the account token";

/// The signer of the configured credentials, which must be for the configured identity.
pub fn load_signer(config: &Config) -> Result<Signer, CredentialsError> {
    let path = &config.broker.credentials;
    let signer = credentials::read_signer(path)?;
    if *signer.identity() != config.identity {
        return Err(CredentialsError::Identity {
            configured: config.identity.clone(),
            found: signer.identity().clone(),
            path: path.clone(),
        });
    }
    Ok(signer)
}

/// Uses the renewed token that an earlier daemon stored, if it belongs to this node and expires later than the one in the credentials.
pub fn use_renewed_token(config: &Config, trust: &NodeTrust) {
    let path = config.paths.renewed_token_path();
    // Usually there is none; the token in the credentials is used.
    let Ok(token) = credentials::read_token("the node's renewed token", &path) else { return };
    if let Err(error) = trust.renew_token(token.trim()) {
        tracing::debug!(error = error_chain(&error), path = %path.display(), "the stored token is not used");
    }
}

/// Sets the maximum age of the account token, counted from when an earlier daemon confirmed it.
pub fn restore_confirmation(config: &Config, trust: &NodeTrust) {
    let max_age = config.trust.max_age;
    if max_age.is_zero() {
        return;
    }
    trust.freshness.set_max_age(Some(max_age));
    let path = config.paths.confirmation_path();
    // Without the file the daemon's start counts: no earlier daemon has confirmed a token.
    if let Ok(at) = path.metadata().and_then(|metadata| metadata.modified()) {
        trust.freshness.set_confirmed_before(unix_millis(at));
    }
}

/// The configured account token or the stored later one, whichever is newer.
pub fn load_trust(config: &Config) -> Result<AccountTrust, CredentialsError> {
    let configured = read_trust(config, &config.trust.account)?;
    // Usually there is no stored token, and an older one is left behind by a new configured token.
    let Ok(stored) = credentials::read_token(ACCOUNT_TOKEN, &config.paths.account_token_path())
    else {
        return Ok(configured);
    };
    Ok(configured.update(stored.trim()).unwrap_or(configured))
}

/// The account token in this file, verified against the pinned operator key.
pub fn read_trust(config: &Config, path: &Path) -> Result<AccountTrust, CredentialsError> {
    credentials::read_trust(config, ACCOUNT_TOKEN, path)
}
