//! Seals a body: writes it once, signs those bytes, and puts the envelope around them.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use super::Kind;
use crate::identity::{Identity, NameError};
use crate::sealed::SealedError;
use crate::token::claims::{Claims, User};
use crate::token::{Creds, KeyPair, PublicKey};

/// Who seals: a key, and the token that tells the others what it may do.
#[derive(Clone)]
pub struct Signer {
    identity: Identity,
    creds: Creds,
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
        Ok(Self { identity, creds })
    }

    /// The name in the token.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The public key in the token; below it is the inbox.
    pub fn public(&self) -> PublicKey {
        self.creds.claims().sub
    }

    /// The token, for opening a connection.
    pub fn token(&self) -> &str {
        self.creds.jwt()
    }

    /// What the token says; the broker and every peer verify it, the signer does not.
    pub fn claims(&self) -> &Claims<User> {
        self.creds.claims()
    }

    /// The key, for signing the broker's nonce.
    pub fn key(&self) -> &KeyPair {
        self.creds.key()
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
