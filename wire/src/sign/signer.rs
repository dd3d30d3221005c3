//! Seals a body: writes it once, signs those bytes, and puts the envelope around them.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use super::EnvelopeKind;
use crate::encrypted_inputs::InputEncryptionError;
use crate::identity::{Identity, NameError};
use crate::limits;
use crate::token::claims::{TokenClaims, UserClaims};
use crate::token::decode::decode_token;
use crate::token::{KeyPair, PublicKey, Seconds, TokenError, UserCredentials};

/// Who seals: a key, and the token that tells the others what it may do. Clones share the token, so that a renewed one reaches all of them.
#[derive(Clone)]
pub struct Signer {
    identity: Identity,
    key: KeyPair,
    current: Arc<RwLock<SignerToken>>,
}

/// The token in use.
#[derive(Clone)]
struct SignerToken {
    text: Arc<str>,
    claims: Arc<TokenClaims<UserClaims>>,
}

/// Why a token does not take the place of the current one.
#[derive(Debug, thiserror::Error)]
pub enum SignerRenewError {
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
pub enum EnvelopeSignError {
    /// The body cannot be written as JSON.
    #[error("the message cannot be written as JSON")]
    Json(#[from] serde_json::Error),
    /// The inputs that only the nodes may read cannot be sealed.
    #[error(transparent)]
    Inputs(#[from] InputEncryptionError),
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
    pub fn new(creds: UserCredentials) -> Result<Self, NameError> {
        let identity = Identity::parse(&creds.claims().name)?;
        let (text, claims, key) = creds.into_parts();
        let current = SignerToken {
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
    pub fn public_key(&self) -> PublicKey {
        self.key.public_key()
    }

    /// The token in use, for opening a connection.
    pub fn token(&self) -> Arc<str> {
        self.current_token().text
    }

    /// What the token says; the broker and every peer verify it, the signer does not.
    pub fn claims(&self) -> Arc<TokenClaims<UserClaims>> {
        self.current_token().claims
    }

    /// Uses another token of the same name, key and issuing account from now on, if it ends later than the current one. Whether its issuer
    /// signed it, the caller verifies.
    pub fn renew_token(&self, token: &str) -> Result<(), SignerRenewError> {
        let decoded = decode_token::<UserClaims>(token)?;
        let claims = decoded.unverified_claims();
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let known = &current.claims;
        let is_own = claims.sub == known.sub
            && claims.name == known.name
            && claims.nats.issuer_account == known.nats.issuer_account;
        if !is_own {
            return Err(SignerRenewError::Foreign {
                name: claims
                    .name
                    .chars()
                    .take(limits::MAX_IDENTITY_BYTES)
                    .collect(),
                key: claims.sub,
            });
        }
        // 0 is never.
        if known.exp == 0 || (claims.exp != 0 && claims.exp <= known.exp) {
            return Err(SignerRenewError::NotLonger {
                current: known.exp,
                found: claims.exp,
            });
        }
        *current = SignerToken {
            text: token.into(),
            claims: Arc::new(claims.clone()),
        };
        Ok(())
    }

    /// The key, for signing the broker's nonce.
    pub fn key_pair(&self) -> &KeyPair {
        &self.key
    }

    fn current_token(&self) -> SignerToken {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("identity", &self.identity)
            .field("key", &self.public_key())
            .finish_non_exhaustive()
    }
}

/// Room for most bodies.
const INITIAL_BODY_CAPACITY: usize = 1024;

/// Seals a body into the bytes of an envelope.
pub fn sign_envelope(
    kind: EnvelopeKind,
    body: &impl Serialize,
    signer: &Signer,
) -> Result<Vec<u8>, EnvelopeSignError> {
    let mut content = kind.signature_domain(INITIAL_BODY_CAPACITY);
    let domain = content.len();
    serde_json::to_writer(&mut content, body)?;
    let signature = URL_SAFE_NO_PAD.encode(signer.key_pair().sign(&content).to_bytes());
    let body = content.get(domain..).unwrap_or_default();
    // None of these texts can hold a character that JSON would escape: decoding the token proved it base64url and dots.
    let head = format!(
        r#"{{"protocol":"{}","token":"{}","signature":"{signature}","body":"#,
        kind.protocol_name(),
        signer.token(),
    );
    let bytes = head.len() + body.len() + 1;
    if bytes > kind.max_bytes() {
        return Err(EnvelopeSignError::Oversized {
            bytes,
            limit: kind.max_bytes(),
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
    use super::{Signer, SignerRenewError};
    use crate::identity::Identity;
    use crate::token::claims::UserClaims;
    use crate::token::encode::{self, TokenValidity};
    use crate::token::{KeyKind, KeyPair, UserCredentials};

    fn token(name: &str, key: u8, account: u8, expires: Option<u64>) -> (String, KeyPair) {
        let [role, account] =
            [9, account].map(|seed| KeyPair::from_raw(KeyKind::Account, &[seed; 32]));
        let pair = KeyPair::from_raw(KeyKind::User, &[key; 32]);
        let user = UserClaims::new(account.public_key(), Vec::new());
        let validity = TokenValidity {
            issued_at: 100,
            expires,
        };
        let name = Identity::parse(name).unwrap();
        let text =
            encode::issue_user_token(&name, pair.public_key(), user, validity, &role).unwrap();
        (text, pair)
    }

    #[test]
    fn a_token_is_replaced_by_one_of_the_same_party_that_ends_later_in_all_clones() {
        let (first, pair) = token("web1", 1, 1, Some(1_000));
        let signer = Signer::new(UserCredentials::new(&first, pair).unwrap()).unwrap();
        let clone = signer.clone();
        for (other, why) in [
            (token("web2", 1, 1, Some(2_000)), "name"),
            (token("web1", 2, 1, Some(2_000)), "key"),
            (token("web1", 1, 2, Some(2_000)), "account"),
        ] {
            let refused = signer.renew_token(&other.0);
            assert!(
                matches!(refused, Err(SignerRenewError::Foreign { .. })),
                "{why}"
            );
        }
        for expires in [999, 1_000] {
            let refused = signer.renew_token(&token("web1", 1, 1, Some(expires)).0);
            assert!(matches!(refused, Err(SignerRenewError::NotLonger { .. })));
        }
        assert!(matches!(
            signer.renew_token("x.y.z"),
            Err(SignerRenewError::Token(_))
        ));
        assert_eq!(&*clone.token(), first);
        for expires in [Some(1_001), None] {
            let (renewed, _) = token("web1", 1, 1, expires);
            signer.renew_token(&renewed).unwrap();
            assert_eq!(&*clone.token(), renewed);
            assert_eq!(clone.claims().exp, expires.unwrap_or(0));
        }
        let refused = signer.renew_token(&token("web1", 1, 1, Some(u64::MAX)).0);
        assert!(
            matches!(refused, Err(SignerRenewError::NotLonger { .. })),
            "no end is the longest"
        );
    }
}
