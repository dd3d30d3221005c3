//! Issues tokens: an operator signs itself and its accounts, a role's signing key signs users.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use data_encoding::BASE32_NOPAD;
use sha2::{Digest as _, Sha512_256};

use super::claims::{Account, Claims, Operator, Part, User};
use super::nkey::{KeyError, KeyPair, PublicKey};
use super::{Seconds, TokenError};
use crate::Millis;
use crate::identity::Identity;

/// The one algorithm of NATS' tokens.
pub(super) const ALGORITHM: &str = "ed25519-nkey";

/// When and for how long a token is issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// From when on, by the issuer's clock.
    pub issued_at: Seconds,
    /// Until when; `None` for ever.
    pub expires: Option<Seconds>,
}

impl Validity {
    /// From this second on, without end.
    pub fn from(issued_at: Seconds) -> Self {
        Self {
            issued_at,
            expires: None,
        }
    }

    /// From now on, without end, and later than a token that this one replaces: [`super::Trust::update`] asks for that.
    pub fn after(previous: Seconds, now: Millis) -> Self {
        Self::from((now / 1000).max(previous.saturating_add(1)))
    }
}

/// Why no token was issued.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The signing key is of a kind that may not sign such a token, or the subject's is.
    #[error("the key cannot be used for this token")]
    Key(#[from] KeyError),
    /// The claims cannot be written.
    #[error("the token's claims cannot be written as JSON")]
    Json(#[from] serde_json::Error),
    /// The token would be one that nobody accepts.
    #[error("the token would not be accepted")]
    Unacceptable(#[from] TokenError),
}

/// The operator's own token, signed by itself.
pub fn operator(
    name: &str,
    nats: Operator,
    validity: Validity,
    operator: &KeyPair,
) -> Result<String, IssueError> {
    issue(name, operator.public(), nats, validity, operator)
}

/// An account's token.
pub fn account(
    name: &str,
    account: PublicKey,
    nats: Account,
    validity: Validity,
    operator: &KeyPair,
) -> Result<String, IssueError> {
    issue(name, account, nats, validity, operator)
}

/// A user's token; `role_key` is one of the account's scoped signing keys.
pub fn user(
    name: &Identity,
    user: PublicKey,
    nats: User,
    validity: Validity,
    role_key: &KeyPair,
) -> Result<String, IssueError> {
    issue(name.as_str(), user, nats, validity, role_key)
}

fn issue<N: Part>(
    name: &str,
    subject: PublicKey,
    nats: N,
    validity: Validity,
    signer: &KeyPair,
) -> Result<String, IssueError> {
    let mut claims = Claims {
        jti: String::new(),
        iat: validity.issued_at,
        iss: signer.public(),
        name: name.to_owned(),
        sub: subject,
        exp: validity.expires.unwrap_or(0),
        nbf: 0,
        nats,
    };
    claims.jti = BASE32_NOPAD.encode(&Sha512_256::digest(serde_json::to_vec(&claims)?));
    let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"typ":"JWT","alg":"{ALGORITHM}"}}"#));
    let body = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&claims)?);
    let content = format!("{header}.{body}");
    let signature = URL_SAFE_NO_PAD.encode(signer.sign(content.as_bytes()).to_bytes());
    let token = format!("{content}.{signature}");
    // Reading it back catches a wrong kind of key and an oversized token before anybody relies on it.
    super::decode::decode::<N>(&token)?.verify()?;
    Ok(token)
}
