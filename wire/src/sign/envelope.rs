//! The envelope as received: read without looking into the body, then verified.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signature, Verifier as _};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Kind, Refusal};
use crate::Millis;
use crate::token::{Role, TokenCache, Trust, Verified};

/// A message in its envelope, not verified yet.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'a> {
    kind: Kind,
    token: &'a str,
    signature: Signature,
    body: &'a RawValue,
}

/// The layout. Each field once, no other fields, no escapes in the texts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Layout<'a> {
    protocol: &'a str,
    token: &'a str,
    signature: &'a str,
    #[serde(borrow)]
    body: &'a RawValue,
}

/// A message whose sender is proven.
#[derive(Debug, Clone)]
pub struct Opened<'a> {
    /// Who sent it.
    pub sender: Arc<Verified>,
    /// What was signed; not parsed yet.
    pub body: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Reads an envelope of this kind; nothing in it is believed yet.
    pub fn decode(kind: Kind, bytes: &'a [u8]) -> Result<Self, Refusal> {
        let (length, limit) = (bytes.len(), kind.limit());
        if length > limit {
            return Err(Refusal::Oversized { length, limit });
        }
        let layout: Layout<'a> = serde_json::from_slice(bytes).map_err(Refusal::Malformed)?;
        if layout.protocol != kind.protocol() {
            let found = layout.protocol.chars().take(32).collect();
            return Err(Refusal::Protocol {
                expected: kind.protocol(),
                found,
            });
        }
        let mut signature = [0; Signature::BYTE_SIZE];
        // The exact size: more does not fit, less is not a signature.
        match URL_SAFE_NO_PAD.decode_slice(layout.signature, &mut signature) {
            Ok(Signature::BYTE_SIZE) => {}
            _ => return Err(Refusal::Signature),
        }
        let signature = Signature::from_bytes(&signature);
        Ok(Self {
            kind,
            token: layout.token,
            signature,
            body: layout.body,
        })
    }

    /// Verifies the chain: trusted account, sender's token, message; and that the sender has one of these roles.
    pub fn verify(
        &self,
        trust: &Trust,
        cache: &TokenCache,
        now: Millis,
        roles: &[Role],
    ) -> Result<Opened<'a>, Refusal> {
        let sender = cache.verify_user(trust, self.token, now)?;
        // Keys of small order were refused when the token was decoded, so this is as strict as it needs to be.
        sender
            .verifying
            .verify(&self.signed(), &self.signature)
            .map_err(|_| Refusal::Signature)?;
        self.opened(sender, roles)
    }

    /// The sender's token; not believed yet.
    pub(crate) fn token(&self) -> &'a str {
        self.token
    }

    /// The signature of [`Self::signed`].
    pub(crate) fn signature(&self) -> Signature {
        self.signature
    }

    /// The bytes that the sender signed.
    pub(crate) fn signed(&self) -> Vec<u8> {
        self.kind.signed(self.body())
    }

    /// The bytes of the body; not believed yet.
    pub(crate) fn body(&self) -> &'a [u8] {
        self.body.get().as_bytes()
    }

    /// The message of a proven sender, if it has one of these roles.
    pub(super) fn opened(
        &self,
        sender: Arc<Verified>,
        roles: &[Role],
    ) -> Result<Opened<'a>, Refusal> {
        if !roles.contains(&sender.role) {
            let (sender, role) = (sender.identity.clone(), sender.role);
            return Err(Refusal::WrongRole { sender, role });
        }
        Ok(Opened {
            sender,
            body: self.body(),
        })
    }
}
