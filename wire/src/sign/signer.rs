//! Signs messages: serializes a body once, signs those bytes, and builds the envelope.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use super::kind::EnvelopeKind;
use crate::encrypted_inputs::InputEncryptionError;
use crate::identity::{Identity, NameError};
use crate::limits;
use crate::token::claims::{TokenClaims, UserClaims};
use crate::token::decode::decode_token;
use crate::token::{KeyPair, PublicKey, Seconds, TokenError, UserCredentials};

/// A key and the token that authorizes it. Clones share the token, so that a renewal applies to all of them.
#[derive(Clone)]
pub struct Signer {
    identity: Identity,
    key: KeyPair,
    current: Arc<RwLock<SignerToken>>,
}

/// The current token.
#[derive(Clone)]
struct SignerToken {
    text: Arc<str>,
    claims: Arc<TokenClaims<UserClaims>>,
}

/// Reasons to refuse a renewed token.
#[derive(Debug, thiserror::Error)]
pub enum SignerRenewError {
    /// It cannot be decoded.
    #[error("cannot decode the renewed token")]
    Token(#[from] TokenError),
    /// It belongs to another user.
    #[error("the renewed token belongs to another user: {name}, with the key {key}")]
    Foreign {
        /// The name in it.
        name: String,
        /// The key in it.
        key: PublicKey,
    },
    /// It does not expire later than the current one.
    #[error("the renewed token expires at {found}, not later than the current one at {current}")]
    NotLonger {
        /// Expiry of the current token; 0 is never.
        current: Seconds,
        /// Expiry of the renewed token.
        found: Seconds,
    },
}

/// Signing errors.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeSignError {
    /// The body cannot be serialized as JSON.
    #[error("cannot write the message as JSON")]
    Json(#[from] serde_json::Error),
    /// The sensitive inputs cannot be encrypted.
    #[error(transparent)]
    Inputs(#[from] InputEncryptionError),
    /// The envelope exceeds the size limit of receivers.
    #[error("the message would have {bytes} bytes; at most {limit} are allowed")]
    Oversized {
        /// Size in bytes.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },
}

impl Signer {
    /// Creates a signer with these credentials. Their name must be a valid identity.
    pub fn new(creds: UserCredentials) -> Result<Self, NameError> {
        let identity = Identity::parse(&creds.claims().name)?;
        let (text, claims, key) = creds.into_parts();
        let current = SignerToken { text: text.into(), claims: Arc::new(claims) };
        Ok(Self { identity, key, current: Arc::new(RwLock::new(current)) })
    }

    /// The name in the token.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The public key in the token; it is also the inbox prefix.
    pub fn public_key(&self) -> PublicKey {
        self.key.public_key()
    }

    /// The current token, for opening a connection.
    pub fn token(&self) -> Arc<str> {
        self.current_token().text
    }

    /// The token's claims. The broker and every receiver verify them; the signer does not.
    pub fn claims(&self) -> Arc<TokenClaims<UserClaims>> {
        self.current_token().claims
    }

    /// Replaces the token by one of the same name, key and issuing account that expires later, or that another key of the role signed later
    /// and that expires no earlier. The caller must verify the issuer's signature.
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
                name: claims.name.chars().take(limits::MAX_IDENTITY_BYTES).collect(),
                key: claims.sub,
            });
        }
        let (current_expiry, new_expiry) = (expiry_order(known.exp), expiry_order(claims.exp));
        let is_newly_signed =
            claims.iss != known.iss && claims.iat >= known.iat && new_expiry >= current_expiry;
        if new_expiry <= current_expiry && !is_newly_signed {
            return Err(SignerRenewError::NotLonger { current: known.exp, found: claims.exp });
        }
        *current = SignerToken { text: token.into(), claims: Arc::new(claims.clone()) };
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

/// Orders expiry times: 0 in a token means never.
fn expiry_order(expiry: Seconds) -> Seconds {
    if expiry == 0 { Seconds::MAX } else { expiry }
}

/// Capacity that fits most bodies.
const INITIAL_BODY_CAPACITY: usize = 1024;

/// Serializes and signs a body; returns the bytes of the envelope.
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
    // None of these texts can contain a character that JSON would escape: decoding the token checked that it is base64url and dots.
    let head = format!(
        r#"{{"protocol":"{}","token":"{}","signature":"{signature}","body":"#,
        kind.protocol_name(),
        signer.token(),
    );
    let bytes = head.len() + body.len() + 1;
    if bytes > kind.max_bytes() {
        return Err(EnvelopeSignError::Oversized { bytes, limit: kind.max_bytes() });
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
        signed_token(name, key, account, (9, 100), expires)
    }

    /// A token that the role's key from this seed signed at this time.
    fn signed_token(
        name: &str,
        key: u8,
        account: u8,
        (role, issued_at): (u8, u64),
        expires: Option<u64>,
    ) -> (String, KeyPair) {
        let [role, account] =
            [role, account].map(|seed| KeyPair::from_raw(KeyKind::Account, &[seed; 32]));
        let pair = KeyPair::from_raw(KeyKind::User, &[key; 32]);
        let user = UserClaims::new(account.public_key(), Vec::new());
        let validity = TokenValidity { issued_at, expires };
        let name = Identity::parse(name).unwrap();
        let text =
            encode::issue_user_token(&name, pair.public_key(), user, validity, &role).unwrap();
        (text, pair)
    }

    #[test]
    fn renewal_requires_the_same_user_and_a_later_expiry() {
        let (first, pair) = token("web1", 1, 1, Some(1_000));
        let signer = Signer::new(UserCredentials::new(&first, pair).unwrap()).unwrap();
        let clone = signer.clone();
        for (other, why) in [
            (token("web2", 1, 1, Some(2_000)), "name"),
            (token("web1", 2, 1, Some(2_000)), "key"),
            (token("web1", 1, 2, Some(2_000)), "account"),
        ] {
            let refused = signer.renew_token(&other.0);
            assert!(matches!(refused, Err(SignerRenewError::Foreign { .. })), "{why}");
        }
        for expires in [999, 1_000] {
            let refused = signer.renew_token(&token("web1", 1, 1, Some(expires)).0);
            assert!(matches!(refused, Err(SignerRenewError::NotLonger { .. })));
        }
        assert!(matches!(signer.renew_token("x.y.z"), Err(SignerRenewError::Token(_))));
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
            "a token that never expires was replaced"
        );
    }

    /// A token of another key of the role replaces one that does not end earlier, so that the key can be rotated.
    #[test]
    fn token_of_another_signing_key_may_have_the_same_expiry() {
        const NEW_KEY: u8 = 8;
        for expires in [None, Some(1_000)] {
            let (first, pair) = token("web1", 1, 1, expires);
            let signer = Signer::new(UserCredentials::new(&first, pair).unwrap()).unwrap();
            let refused = [
                (signed_token("web1", 1, 1, (NEW_KEY, 99), expires), "signed before"),
                (signed_token("web1", 1, 1, (NEW_KEY, 200), Some(999)), "ends earlier"),
                (signed_token("web1", 1, 1, (9, 200), expires), "the same key"),
            ];
            for ((other, _), why) in refused {
                let refused = signer.renew_token(&other);
                assert!(matches!(refused, Err(SignerRenewError::NotLonger { .. })), "{why}");
            }
            let (other, _) = signed_token("web2", 1, 1, (NEW_KEY, 200), expires);
            let refused = signer.renew_token(&other);
            assert!(matches!(refused, Err(SignerRenewError::Foreign { .. })));
            let (rotated, _) = signed_token("web1", 1, 1, (NEW_KEY, 100), expires);
            signer.renew_token(&rotated).unwrap();
            assert_eq!(&*signer.token(), rotated);
        }
    }
}
