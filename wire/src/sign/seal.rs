//! Seals a body: writes it once, signs those bytes, and puts the envelope around them.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use super::Kind;
use crate::identity::{Identity, NameError};
use crate::limits;
use crate::sealed::SealedError;
use crate::token::claims::{Claims, User};
use crate::token::decode::decode;
use crate::token::{Creds, KeyPair, PublicKey, Seconds, TokenError};

/// Who seals: a key, and the token that tells the others what it may do. Clones share the token, so that a renewed one reaches all of them.
#[derive(Clone)]
pub struct Signer {
    identity: Identity,
    key: KeyPair,
    current: Arc<RwLock<CurrentToken>>,
}

/// The token in use.
#[derive(Clone)]
struct CurrentToken {
    text: Arc<str>,
    claims: Arc<Claims<User>>,
}

/// Why a token does not take the place of the current one.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    /// It cannot be read.
    #[error("the renewed token is not usable")]
    Token(#[from] TokenError),
    /// It is of another party.
    #[error("the renewed token is about {name} with the key {key}, not about this party")]
    Foreign {
        /// The name in it.
        name: String,
        /// The key in it.
        key: PublicKey,
    },
    /// It does not live longer.
    #[error("the renewed token ends at {found}, and the current one at {current}")]
    NotLonger {
        /// When the current one ends; 0 is never.
        current: Seconds,
        /// When it ends.
        found: Seconds,
    },
}

/// Why nothing was sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The body cannot be written as JSON.
    #[error("the message cannot be written as JSON")]
    Json(#[from] serde_json::Error),
    /// The inputs that only the nodes may read cannot be sealed.
    #[error(transparent)]
    Inputs(#[from] SealedError),
    /// The envelope would be larger than receivers accept.
    #[error("the message would be {bytes} bytes long, more than {limit}")]
    Oversized {
        /// Bytes it would have.
        bytes: usize,
        /// Bytes that are accepted.
        limit: usize,
    },
}

impl Signer {
    /// A signer with these credentials. Their name must be an identity.
    pub fn new(creds: Creds) -> Result<Self, NameError> {
        let identity = Identity::parse(&creds.claims().name)?;
        let (text, claims, key) = creds.into_parts();
        let current = CurrentToken {
            text: text.into(),
            claims: Arc::new(claims),
        };
        Ok(Self {
            identity,
            key,
            current: Arc::new(RwLock::new(current)),
        })
    }

    /// The name in the token.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The public key in the token; below it is the inbox.
    pub fn public(&self) -> PublicKey {
        self.key.public()
    }

    /// The token in use, for opening a connection.
    pub fn token(&self) -> Arc<str> {
        self.current().text
    }

    /// What the token says; the broker and every peer verify it, the signer does not.
    pub fn claims(&self) -> Arc<Claims<User>> {
        self.current().claims
    }

    /// Uses another token of the same name, key and issuing account from now on, if it ends later than the current one. Whether its issuer
    /// signed it, the caller verifies.
    pub fn renew(&self, token: &str) -> Result<(), RenewError> {
        let decoded = decode::<User>(token)?;
        let claims = decoded.unverified();
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let known = &current.claims;
        let is_own = claims.sub == known.sub
            && claims.name == known.name
            && claims.nats.issuer_account == known.nats.issuer_account;
        if !is_own {
            return Err(RenewError::Foreign {
                name: claims.name.chars().take(limits::IDENTITY_BYTES).collect(),
                key: claims.sub,
            });
        }
        // 0 is never.
        if known.exp == 0 || (claims.exp != 0 && claims.exp <= known.exp) {
            return Err(RenewError::NotLonger {
                current: known.exp,
                found: claims.exp,
            });
        }
        *current = CurrentToken {
            text: token.into(),
            claims: Arc::new(claims.clone()),
        };
        Ok(())
    }

    /// The key, for signing the broker's nonce.
    pub fn key(&self) -> &KeyPair {
        &self.key
    }

    fn current(&self) -> CurrentToken {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("identity", &self.identity)
            .field("key", &self.public())
            .finish_non_exhaustive()
    }
}

/// Room for most bodies.
const BODY: usize = 1024;

/// Seals a body into the bytes of an envelope.
pub fn seal(kind: Kind, body: &impl Serialize, signer: &Signer) -> Result<Vec<u8>, SealError> {
    let mut content = kind.domain(BODY);
    let domain = content.len();
    serde_json::to_writer(&mut content, body)?;
    let signature = URL_SAFE_NO_PAD.encode(signer.key().sign(&content).to_bytes());
    let body = content.get(domain..).unwrap_or_default();
    // None of these texts can hold a character that JSON would escape: decoding the token proved it base64url and dots.
    let head = format!(
        r#"{{"protocol":"{}","token":"{}","signature":"{signature}","body":"#,
        kind.protocol(),
        signer.token(),
    );
    let bytes = head.len() + body.len() + 1;
    if bytes > kind.limit() {
        return Err(SealError::Oversized {
            bytes,
            limit: kind.limit(),
        });
    }
    let mut envelope = Vec::with_capacity(bytes);
    envelope.extend_from_slice(head.as_bytes());
    envelope.extend_from_slice(body);
    envelope.push(b'}');
    Ok(envelope)
}

#[cfg(test)]
mod tests {
    use super::{RenewError, Signer};
    use crate::identity::Identity;
    use crate::token::claims::User;
    use crate::token::encode::{self, Validity};
    use crate::token::{Creds, KeyKind, KeyPair};

    fn token(name: &str, key: u8, account: u8, expires: Option<u64>) -> (String, KeyPair) {
        let [role, account] =
            [9, account].map(|seed| KeyPair::from_raw(KeyKind::Account, &[seed; 32]));
        let pair = KeyPair::from_raw(KeyKind::User, &[key; 32]);
        let user = User::new(account.public(), Vec::new());
        let validity = Validity {
            issued_at: 100,
            expires,
        };
        let name = Identity::parse(name).unwrap();
        let text = encode::user(&name, pair.public(), user, validity, &role).unwrap();
        (text, pair)
    }

    #[test]
    fn a_token_is_replaced_by_one_of_the_same_party_that_ends_later_in_all_clones() {
        let (first, pair) = token("web1", 1, 1, Some(1_000));
        let signer = Signer::new(Creds::new(&first, pair).unwrap()).unwrap();
        let clone = signer.clone();
        for (other, why) in [
            (token("web2", 1, 1, Some(2_000)), "name"),
            (token("web1", 2, 1, Some(2_000)), "key"),
            (token("web1", 1, 2, Some(2_000)), "account"),
        ] {
            let refused = signer.renew(&other.0);
            assert!(matches!(refused, Err(RenewError::Foreign { .. })), "{why}");
        }
        for expires in [999, 1_000] {
            let refused = signer.renew(&token("web1", 1, 1, Some(expires)).0);
            assert!(matches!(refused, Err(RenewError::NotLonger { .. })));
        }
        assert!(matches!(signer.renew("x.y.z"), Err(RenewError::Token(_))));
        assert_eq!(&*clone.token(), first);
        for expires in [Some(1_001), None] {
            let (renewed, _) = token("web1", 1, 1, expires);
            signer.renew(&renewed).unwrap();
            assert_eq!(&*clone.token(), renewed);
            assert_eq!(clone.claims().exp, expires.unwrap_or(0));
        }
        let refused = signer.renew(&token("web1", 1, 1, Some(u64::MAX)).0);
        assert!(
            matches!(refused, Err(RenewError::NotLonger { .. })),
            "no end is the longest"
        );
    }
}
