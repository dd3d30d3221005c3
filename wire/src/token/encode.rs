//! Issues tokens: an operator signs itself and its accounts, a role's signing key signs users.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use data_encoding::BASE32_NOPAD;
use sha2::{Digest as _, Sha512_256};

use super::claims::{
    AccountClaims, NatsClaims, OperatorClaims, TOKEN_ALGORITHM, TokenClaims, UserClaims,
};
use super::error::TokenError;
use super::nkey::{KeyError, KeyPair, PublicKey};
use super::succession::SuccessionClaims;
use crate::identity::Identity;
use crate::{Millis, Seconds};

/// The validity period of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenValidity {
    /// Issue time, by the issuer's clock.
    pub issued_at: Seconds,
    /// Expiry time; `None` never expires.
    pub expires: Option<Seconds>,
}

impl TokenValidity {
    /// Valid from this second, never expires.
    pub fn without_end(issued_at: Seconds) -> Self {
        Self { issued_at, expires: None }
    }

    /// Valid from now, never expires, and issued later than the token that it replaces, as [`super::AccountTrust::update`] requires.
    pub fn without_end_after(previous: Seconds, now: Millis) -> Self {
        Self::without_end((now / 1000).max(previous.saturating_add(1)))
    }
}

/// Errors of issuing tokens.
#[derive(Debug, thiserror::Error)]
pub enum TokenIssueError {
    /// The kind of the signing key or of the subject's key does not permit this token.
    #[error("the key cannot be used for this token")]
    Key(#[from] KeyError),
    /// The claims cannot be serialized.
    #[error("cannot write the token's claims as JSON")]
    Json(#[from] serde_json::Error),
    /// The resulting token would be refused by receivers.
    #[error("receivers would refuse the token")]
    Unacceptable(#[from] TokenError),
}

/// The operator's own token, signed by itself.
pub fn issue_operator_token(
    name: &str,
    nats: OperatorClaims,
    validity: TokenValidity,
    operator: &KeyPair,
) -> Result<String, TokenIssueError> {
    issue_token(name, operator.public_key(), nats, validity, operator)
}

/// An account's token.
pub fn issue_account_token(
    name: &str,
    account: PublicKey,
    nats: AccountClaims,
    validity: TokenValidity,
    operator: &KeyPair,
) -> Result<String, TokenIssueError> {
    issue_token(name, account, nats, validity, operator)
}

/// The statement by which an operator names the next one for an account.
pub fn issue_succession(
    name: &str,
    next: PublicKey,
    account: PublicKey,
    issued_at: Seconds,
    operator: &KeyPair,
) -> Result<String, TokenIssueError> {
    let claims = SuccessionClaims::new(account);
    issue_token(name, next, claims, TokenValidity::without_end(issued_at), operator)
}

/// A user's token; `role_key` is one of the account's scoped signing keys.
pub fn issue_user_token(
    name: &Identity,
    user: PublicKey,
    nats: UserClaims,
    validity: TokenValidity,
    role_key: &KeyPair,
) -> Result<String, TokenIssueError> {
    issue_token(name.as_str(), user, nats, validity, role_key)
}

fn issue_token<N: NatsClaims>(
    name: &str,
    subject: PublicKey,
    nats: N,
    validity: TokenValidity,
    signer: &KeyPair,
) -> Result<String, TokenIssueError> {
    let mut claims = TokenClaims {
        jti: String::new(),
        iat: validity.issued_at,
        iss: signer.public_key(),
        name: name.to_owned(),
        sub: subject,
        exp: validity.expires.unwrap_or(0),
        nbf: 0,
        nats,
    };
    claims.jti = BASE32_NOPAD.encode(&Sha512_256::digest(serde_json::to_vec(&claims)?));
    let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"typ":"JWT","alg":"{TOKEN_ALGORITHM}"}}"#));
    let body = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&claims)?);
    let content = format!("{header}.{body}");
    let signature = URL_SAFE_NO_PAD.encode(signer.sign(content.as_bytes()).to_bytes());
    let token = format!("{content}.{signature}");
    // Decoding the new token detects a wrong kind of key and an oversized token before it is used.
    super::decode::decode_token::<N>(&token)?.verify_signature()?;
    Ok(token)
}
