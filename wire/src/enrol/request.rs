//! The enrolment request: the requested name, the node's key, and the proof of possession of that key.
//!
//! It has two signatures: the new key signs the request, and the bootstrap credential signs the envelope, as for every message. A
//! request moved to another envelope is rejected, because it names its bootstrap credential.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::Signature;
use muster_filter::state::NodeFacts;
use rand::TryRngCore as _;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::token_grant::{TokenGrant, TokenGrantError};
use crate::identity::Identity;
use crate::sign::{
    Envelope, EnvelopeKind, EnvelopeSignError, MessageRefusal, Signer, sign_envelope,
};
use crate::token::decode::decode_base64_array;
use crate::token::{
    AccountTrust, KeyError, KeyKind, KeyPair, PublicKey, TokenCache, UserRole, VerifiedUser,
};
use crate::{Millis, limits};

/// Domain prefix of the bytes that the new key signs.
const PROOF_DOMAIN: &[u8] = b"muster.hello.proof.v1\0";

/// A single-use random number that the answer repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EnrolmentNonce([u8; 16]);

/// Not 16 bytes in base64url without padding.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a nonce of 16 bytes in base64url")]
pub struct EnrolmentNonceError;

impl EnrolmentNonce {
    /// Creates a nonce from the operating system's random source.
    pub fn from_random() -> Result<Self, KeyError> {
        let mut bytes = [0; 16];
        rand::rngs::OsRng.try_fill_bytes(&mut bytes).map_err(|_| KeyError::Random)?;
        Ok(Self(bytes))
    }

    /// Creates a nonce from these bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl TryFrom<String> for EnrolmentNonce {
    type Error = EnrolmentNonceError;
    fn try_from(text: String) -> Result<Self, EnrolmentNonceError> {
        decode_base64_array(text).map(Self).ok_or(EnrolmentNonceError)
    }
}

impl From<EnrolmentNonce> for String {
    fn from(nonce: EnrolmentNonce) -> Self {
        URL_SAFE_NO_PAD.encode(nonce.0)
    }
}

/// An enrolment request. Unknown fields are ignored, so newer nodes can add fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnrolmentRequest {
    /// The requested name.
    pub identity: Identity,
    /// The node's public key. The private key never leaves the machine.
    pub key: PublicKey,
    /// The key of the bootstrap credential in use.
    pub credential: PublicKey,
    /// Repeated by the answer.
    pub nonce: EnrolmentNonce,
    /// Facts of the machine and its cloud, unverified.
    #[serde(default)]
    pub facts: NodeFacts,
    /// The daemon's version.
    pub version: String,
    /// Signing time, by the node's clock.
    pub time: Millis,
}

/// The envelope's body: the signed request text, and the new key's signature of it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EnrolmentRequestBody {
    hello: Box<RawValue>,
    proof: String,
}

/// A request whose two signatures were verified.
#[derive(Debug, Clone)]
pub struct OpenEnrolmentRequest {
    /// The request.
    pub request: EnrolmentRequest,
    /// The bootstrap credential that signed the envelope.
    pub sender: Arc<VerifiedUser>,
    /// The grant in that credential.
    pub grant: TokenGrant,
}

/// Reasons to ignore an enrolment request.
#[derive(Debug, thiserror::Error)]
pub enum EnrolmentRequestError {
    /// The envelope or the bootstrap token failed verification.
    #[error("cannot authenticate the enrolment request")]
    Refused(#[from] MessageRefusal),
    /// Not valid JSON of this type.
    #[error("cannot parse the enrolment request")]
    Json(#[from] serde_json::Error),
    /// A field has an invalid value.
    #[error("invalid enrolment request: {0}")]
    Shape(&'static str),
    /// The signature of the new key is invalid: the sender does not have its private key.
    #[error("the proof of possession of the key {key}, sent by {identity}, is invalid")]
    Proof {
        /// The requested name.
        identity: Identity,
        /// The claimed key.
        key: PublicKey,
    },
    /// The grant in the bootstrap token cannot be parsed.
    #[error("the bootstrap token {credential} has an invalid grant")]
    Grant {
        /// The token's key.
        credential: PublicKey,
        /// The parse error.
        #[source]
        source: TokenGrantError,
    },
}

/// Signs a request with the new key, then with the bootstrap credential.
pub fn sign_enrolment_request(
    request: &EnrolmentRequest,
    bootstrap: &Signer,
    node: &KeyPair,
) -> Result<Vec<u8>, EnvelopeSignError> {
    let hello = to_raw_value(request)?;
    let signature = node.sign(&proof_bytes(hello.get())).to_bytes();
    let proof = URL_SAFE_NO_PAD.encode(signature);
    sign_envelope(EnvelopeKind::Hello, &EnrolmentRequestBody { hello, proof }, bootstrap)
}

/// Verifies a request received in the bootstrap account.
pub fn open_enrolment_request(
    bytes: &[u8],
    enrolment_account: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Result<OpenEnrolmentRequest, EnrolmentRequestError> {
    let envelope = Envelope::decode(EnvelopeKind::Hello, bytes)?;
    let opened = envelope.verify(enrolment_account, cache, now, &[UserRole::Newcomer])?;
    let body: EnrolmentRequestBody = serde_json::from_slice(opened.body)?;
    let request: EnrolmentRequest = serde_json::from_str(body.hello.get())?;
    if request.key.expect_kind(KeyKind::User).is_err() {
        return Err(EnrolmentRequestError::Shape("the key is not a user key"));
    }
    if request.version.len() > limits::MAX_TOKEN_GRANT_TEXT_BYTES {
        return Err(EnrolmentRequestError::Shape("the version is too long"));
    }
    let sender = opened.sender;
    if request.credential != sender.key {
        return Err(EnrolmentRequestError::Shape(
            "it specifies a bootstrap credential other than the one that signed it",
        ));
    }
    if request.key == sender.key {
        return Err(EnrolmentRequestError::Shape("its key is the key of the bootstrap credential"));
    }
    verify_proof(&request, &body).ok_or_else(|| EnrolmentRequestError::Proof {
        identity: request.identity.clone(),
        key: request.key,
    })?;
    let grant = TokenGrant::from_tags(&sender.tags)
        .map_err(|source| EnrolmentRequestError::Grant { credential: sender.key, source })?;
    Ok(OpenEnrolmentRequest { request, sender, grant })
}

fn verify_proof(request: &EnrolmentRequest, body: &EnrolmentRequestBody) -> Option<()> {
    let signature = Signature::from_bytes(&decode_base64_array(&body.proof)?);
    let key = request.key.verifying_key().ok()?;
    key.verify_strict(&proof_bytes(body.hello.get()), &signature).ok()
}

/// The bytes that the new key signs.
fn proof_bytes(request_json: &str) -> Vec<u8> {
    [PROOF_DOMAIN, request_json.as_bytes()].concat()
}
