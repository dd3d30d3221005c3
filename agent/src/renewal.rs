//! Renewed tokens of this node: which are believed. Who signs them is the fleet's enroller, or `rpc org push`.

use muster_wire::Millis;
use muster_wire::sign::{Signer, SignerRenewError};
use muster_wire::token::{AccountTrust, TokenError};

/// Why a renewed token is not used.
#[derive(Debug, thiserror::Error)]
pub enum NodeTokenRenewalError {
    /// Peers would not believe it.
    #[error("the renewed token is not believed")]
    Token(#[from] TokenError),
    /// It does not replace the current one.
    #[error(transparent)]
    Renew(#[from] SignerRenewError),
    /// It was signed for another role.
    #[error("the renewed token is of another role")]
    Role,
}

/// Uses this token from now on, if the account vouches for it, in the role that the node has, and it ends later than the current one.
pub(crate) fn renew_token(
    signer: &Signer,
    trust: &AccountTrust,
    token: &str,
    now: Millis,
) -> Result<(), NodeTokenRenewalError> {
    let renewed = trust.verify_user(token, now)?;
    // The current token may be over, and then nobody vouches for it; its issuer still tells the role.
    if trust.role_of_key(&signer.claims().iss) != Some(renewed.role) {
        return Err(NodeTokenRenewalError::Role);
    }
    Ok(signer.renew_token(token)?)
}
