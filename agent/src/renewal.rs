//! Verifies renewed tokens of this node. The fleet's enroller or `rpc org push` signs them.

use muster_wire::Millis;
use muster_wire::sign::{Signer, SignerRenewError};
use muster_wire::token::{AccountTrust, TokenError, UserRole};

#[derive(Debug, thiserror::Error)]
pub enum NodeTokenRenewalError {
    /// Peers would reject it.
    #[error("the renewed token is not valid")]
    Token(#[from] TokenError),
    /// It does not replace the current one.
    #[error(transparent)]
    Renew(#[from] SignerRenewError),
    #[error("the renewed token is for another role")]
    Role,
}

/// Uses this token from now on, if the account certifies it in the node's role, and it expires later than the current one or was signed later
/// with another key of the role.
pub(crate) fn renew_token(
    signer: &Signer,
    trust: &AccountTrust,
    token: &str,
    now: Millis,
) -> Result<(), NodeTokenRenewalError> {
    let renewed = trust.verify_user(token, now)?;
    // The current token may have expired and then fails verification; its issuer still determines the role. The account does not list the issuer
    // after a rotation of its key; then only a node's token is accepted.
    let role = trust.role_of_key(&signer.claims().iss).unwrap_or(UserRole::Node);
    if role != renewed.role {
        return Err(NodeTokenRenewalError::Role);
    }
    Ok(signer.renew_token(token)?)
}
