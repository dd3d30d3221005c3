//! Renewed tokens of this node: which are believed. Who signs them is the fleet's enroller, or `rpc org push`.

use muster_wire::Millis;
use muster_wire::sign::{RenewError, Signer};
use muster_wire::token::{TokenError, Trust};

/// Why a renewed token is not used.
#[derive(Debug, thiserror::Error)]
pub enum RenewalError {
    /// Peers would not believe it.
    #[error("the renewed token is not believed")]
    Token(#[from] TokenError),
    /// It does not replace the current one.
    #[error(transparent)]
    Renew(#[from] RenewError),
    /// It was signed for another role.
    #[error("the renewed token is of another role")]
    Role,
}

/// Uses this token from now on, if the account vouches for it, in the role that the node has, and it ends later than the current one.
pub(crate) fn renew(
    signer: &Signer,
    trust: &Trust,
    token: &str,
    now: Millis,
) -> Result<(), RenewalError> {
    let renewed = trust.verify_user(token, now)?;
    // The current token may be over, and then nobody vouches for it; its issuer still tells the role.
    if trust.role(&signer.claims().iss) != Some(renewed.role) {
        return Err(RenewalError::Role);
    }
    Ok(signer.renew(token)?)
}
