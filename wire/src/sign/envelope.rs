//! Received envelopes: decoded without parsing the body, then verified.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signature, Verifier as _};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::kind::EnvelopeKind;
use super::refusal::{MessageRefusal, Result};
use crate::Millis;
use crate::token::decode::decode_base64_array;
use crate::token::{AccountTrust, PublicKey, TokenCache, TokenError, UserRole, VerifiedUser};

/// A decoded, unverified envelope.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'a> {
    kind: EnvelopeKind,
    token: &'a str,
    signature: Signature,
    body: &'a RawValue,
}

/// The layout. Each field occurs once, no other fields, no escapes in the texts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvelopeLayout<'a> {
    protocol: &'a str,
    token: &'a str,
    signature: &'a str,
    #[serde(borrow)]
    body: &'a RawValue,
}

/// A message with a verified sender.
#[derive(Debug, Clone)]
pub struct OpenEnvelope<'a> {
    /// The verified sender.
    pub sender: Arc<VerifiedUser>,
    /// The signed bytes, not parsed yet.
    pub body: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Decodes an envelope of this kind without verification.
    pub fn decode(kind: EnvelopeKind, bytes: &'a [u8]) -> Result<Self> {
        let (length, limit) = (bytes.len(), kind.max_bytes());
        if length > limit {
            return Err(MessageRefusal::Oversized { length, limit });
        }
        let layout: EnvelopeLayout<'a> =
            serde_json::from_slice(bytes).map_err(MessageRefusal::Malformed)?;
        if layout.protocol != kind.protocol_name() {
            let found = layout.protocol.chars().take(32).collect();
            return Err(MessageRefusal::Protocol { expected: kind.protocol_name(), found });
        }
        let signature = decode_base64_array(layout.signature).ok_or(MessageRefusal::Signature)?;
        let signature = Signature::from_bytes(&signature);
        Ok(Self { kind, token: layout.token, signature, body: layout.body })
    }

    /// Verifies the chain of trusted account, sender's token and message, and that the sender has one of these roles.
    pub fn verify(
        &self,
        trust: &AccountTrust,
        cache: &TokenCache,
        now: Millis,
        roles: &[UserRole],
    ) -> Result<OpenEnvelope<'a>> {
        let sender = cache.verify_user(trust, self.token, now)?;
        // Decoding the token refused keys of small order, so the non-strict check suffices.
        sender
            .verifying_key
            .verify(&self.signed_bytes(), &self.signature)
            .map_err(|_| MessageRefusal::Signature)?;
        self.open_for_roles(sender, roles)
    }

    /// Verifies the signature strictly against a key that is known, whatever the sender's token says. Returns the body.
    pub fn verify_with_key(&self, key: PublicKey) -> Result<&'a [u8]> {
        let verdict = key
            .verifying_key()
            .map_err(TokenError::from)?
            .verify_strict(&self.signed_bytes(), &self.signature);
        verdict.map_err(|_| MessageRefusal::Signature)?;
        Ok(self.body())
    }

    /// The sender's token, unverified.
    pub fn token(&self) -> &'a str {
        self.token
    }

    /// The signature of [`Self::signed_bytes`].
    pub(crate) fn signature(&self) -> Signature {
        self.signature
    }

    /// The signed bytes.
    pub(crate) fn signed_bytes(&self) -> Vec<u8> {
        self.kind.signed_bytes(self.body())
    }

    /// The bytes of the body, unverified.
    pub(crate) fn body(&self) -> &'a [u8] {
        self.body.get().as_bytes()
    }

    /// The message of a verified sender, if it has one of these roles.
    pub(super) fn open_for_roles(
        &self,
        sender: Arc<VerifiedUser>,
        roles: &[UserRole],
    ) -> Result<OpenEnvelope<'a>> {
        if !roles.contains(&sender.role) {
            let (sender, role) = (sender.identity.clone(), sender.role);
            return Err(MessageRefusal::WrongRole { sender, role });
        }
        Ok(OpenEnvelope { sender, body: self.body() })
    }
}

/// Encodes an envelope as text for a field of another message.
pub fn encode_envelope(envelope: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(envelope)
}
