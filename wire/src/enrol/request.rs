//! The wish to be enrolled: who somebody wants to be, with which key, and the proof that it has that key.
//!
//! Two signatures: the bootstrap credential's around the whole, as of every message, and the new key's over the wish itself. A
//! wish that was taken from one envelope and put into another is not believed, because it names the credential that it came by.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::Signature;
use rand::TryRngCore as _;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::token_grant::{TokenGrant, TokenGrantError};
use crate::identity::Identity;
use crate::sign::{
    Envelope, EnvelopeKind, EnvelopeSignError, MessageRefusal, Signer, sign_envelope,
};
use crate::state::NodeFacts;
use crate::token::{
    AccountTrust, KeyError, KeyKind, KeyPair, PublicKey, TokenCache, UserRole, VerifiedUser,
};
use crate::{Millis, limits};

/// What comes before the wish in what the new key signs.
const PROOF_DOMAIN: &[u8] = b"muster.hello.proof.v1\0";

/// A number that is used once: the answer repeats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EnrolmentNonce([u8; 16]);

/// Not 16 bytes in base64url without padding.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a nonce is 16 bytes in base64url")]
pub struct EnrolmentNonceError;

impl EnrolmentNonce {
    /// A new one from the operating system's randomness.
    pub fn from_random() -> Result<Self, KeyError> {
        let mut bytes = [0; 16];
        rand::rngs::OsRng
            .try_fill_bytes(&mut bytes)
            .map_err(|_| KeyError::Random)?;
        Ok(Self(bytes))
    }

    /// The one of these bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl TryFrom<String> for EnrolmentNonce {
    type Error = EnrolmentNonceError;
    fn try_from(text: String) -> Result<Self, EnrolmentNonceError> {
        let bytes = URL_SAFE_NO_PAD
            .decode(text)
            .map_err(|_| EnrolmentNonceError)?;
        bytes.try_into().map(Self).map_err(|_| EnrolmentNonceError)
    }
}

impl From<EnrolmentNonce> for String {
    fn from(nonce: EnrolmentNonce) -> Self {
        URL_SAFE_NO_PAD.encode(nonce.0)
    }
}

/// What a machine says that wishes to become a node. Unknown fields are ignored: a newer machine may tell more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnrolmentRequest {
    /// Who it wants to be.
    pub identity: Identity,
    /// Its public key. The private one never leaves the machine.
    pub key: PublicKey,
    /// The key of the bootstrap credential that it came by.
    pub credential: PublicKey,
    /// For the answer to repeat.
    pub nonce: EnrolmentNonce,
    /// What it knows of itself and its cloud; claims, and no more.
    #[serde(default)]
    pub facts: NodeFacts,
    /// The daemon's version.
    pub version: String,
    /// When it signed, by its own clock.
    pub time: Millis,
}

/// The body of the envelope: the wish as it was signed, and the new key's signature of it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EnrolmentRequestBody {
    hello: Box<RawValue>,
    proof: String,
}

/// A wish whose two signatures were verified.
#[derive(Debug, Clone)]
pub struct OpenEnrolmentRequest {
    /// What is wished.
    pub hello: EnrolmentRequest,
    /// The bootstrap credential that it came by.
    pub sender: Arc<VerifiedUser>,
    /// What that credential allows.
    pub ticket: TokenGrant,
}

/// Why a wish is not even considered.
#[derive(Debug, thiserror::Error)]
pub enum EnrolmentRequestError {
    /// Its envelope or the bootstrap token is not believed.
    #[error("the wish to be enrolled is not authentic")]
    Refused(#[from] MessageRefusal),
    /// Not the JSON that it should be.
    #[error("the wish to be enrolled cannot be read")]
    Json(#[from] serde_json::Error),
    /// Not what it should say.
    #[error("the wish to be enrolled cannot be used: {0}")]
    Shape(&'static str),
    /// Whoever sent it does not have the private key to the public one that it names.
    #[error("{identity} does not prove that it has the key {key}")]
    Proof {
        /// Who it wants to be.
        identity: Identity,
        /// The key that it names.
        key: PublicKey,
    },
    /// The bootstrap token allows nothing that is understood.
    #[error("the bootstrap token {credential} cannot be used")]
    Ticket {
        /// The token's key.
        credential: PublicKey,
        /// Why.
        #[source]
        source: TokenGrantError,
    },
}

/// Seals a wish: with the new key, then with the bootstrap credential.
pub fn sign_enrolment_request(
    hello: &EnrolmentRequest,
    bootstrap: &Signer,
    node: &KeyPair,
) -> Result<Vec<u8>, EnvelopeSignError> {
    let hello = to_raw_value(hello)?;
    let signature = node.sign(&proof_bytes(hello.get())).to_bytes();
    let proof = URL_SAFE_NO_PAD.encode(signature);
    sign_envelope(
        EnvelopeKind::Hello,
        &EnrolmentRequestBody { hello, proof },
        bootstrap,
    )
}

/// Opens a wish that came from somewhere in the newcomers' account.
pub fn open_enrolment_request(
    bytes: &[u8],
    newcomers: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Result<OpenEnrolmentRequest, EnrolmentRequestError> {
    let envelope = Envelope::decode(EnvelopeKind::Hello, bytes)?;
    let opened = envelope.verify(newcomers, cache, now, &[UserRole::Newcomer])?;
    let introduction: EnrolmentRequestBody = serde_json::from_slice(opened.body)?;
    let hello: EnrolmentRequest = serde_json::from_str(introduction.hello.get())?;
    if hello.key.expect_kind(KeyKind::User).is_err() {
        return Err(EnrolmentRequestError::Shape(
            "its key is not that of a user",
        ));
    }
    if hello.version.len() > limits::MAX_TOKEN_GRANT_TEXT_BYTES {
        return Err(EnrolmentRequestError::Shape("its version is too long"));
    }
    let sender = opened.sender;
    if hello.credential != sender.key {
        return Err(EnrolmentRequestError::Shape(
            "it was made for another bootstrap credential than the one that sealed it",
        ));
    }
    if hello.key == sender.key {
        return Err(EnrolmentRequestError::Shape(
            "it names the bootstrap credential's key as its own",
        ));
    }
    verify_proof(&hello, &introduction).ok_or_else(|| EnrolmentRequestError::Proof {
        identity: hello.identity.clone(),
        key: hello.key,
    })?;
    let ticket =
        TokenGrant::from_tags(&sender.tags).map_err(|source| EnrolmentRequestError::Ticket {
            credential: sender.key,
            source,
        })?;
    Ok(OpenEnrolmentRequest {
        hello,
        sender,
        ticket,
    })
}

fn verify_proof(hello: &EnrolmentRequest, introduction: &EnrolmentRequestBody) -> Option<()> {
    let signature = URL_SAFE_NO_PAD.decode(&introduction.proof).ok()?;
    let signature = Signature::from_slice(&signature).ok()?;
    let key = hello.key.verifying_key().ok()?;
    key.verify_strict(&proof_bytes(introduction.hello.get()), &signature)
        .ok()
}

/// What the new key signs.
fn proof_bytes(hello: &str) -> Vec<u8> {
    [PROOF_DOMAIN, hello.as_bytes()].concat()
}
