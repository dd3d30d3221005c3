//! The answer to an enrolment request: accepted, deferred or refused.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::request::{EnrolmentNonce, EnrolmentRequest};
use crate::Millis;
use crate::identity::{Identity, SubjectName};
use crate::sign::{
    Envelope, EnvelopeKind, EnvelopeSignError, MessageRefusal, Signer, sign_envelope,
};
use crate::token::{AccountTrust, PublicKey, TokenCache, TokenError, UserRole};

/// An answer to one request of one key. Unknown fields are ignored, so newer services can add fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolmentAnswer {
    /// The nonce of the request.
    pub nonce: EnrolmentNonce,
    /// The key in the request.
    pub key: PublicKey,
    /// Signing time, by the service's clock.
    pub time: Millis,
    /// The result.
    pub outcome: EnrolmentOutcome,
}

/// The result of an enrolment request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnrolmentOutcome {
    /// Accepted.
    Welcome(Box<EnrolmentAcceptance>),
    /// Deferred; retry later.
    Wait(EnrolmentDeferral),
    /// Refused.
    Refused(EnrolmentRefusal),
}

/// The credentials and settings of the new node. Nothing in it is secret: the private key was never sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolmentAcceptance {
    /// The node's name.
    pub identity: Identity,
    /// The node token for the node's key.
    pub token: String,
    /// The fleet's account token.
    pub account: String,
    /// The collectives that the node joins, unless its configuration lists others.
    pub collectives: Vec<SubjectName>,
    /// The fleet's broker URLs; if empty, the node uses its current broker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
    /// Facts that the node adds to its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// Whether the node must be provisioned before it offers all agents.
    #[serde(default)]
    pub provisioning: bool,
}

/// A deferred request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolmentDeferral {
    /// The reason as text.
    pub message: String,
    /// Delay before the next request, in milliseconds.
    pub retry_after_ms: u64,
}

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolmentRefusal {
    /// A stable identifier.
    pub reason: EnrolmentRefusalReason,
    /// The reason as text.
    pub message: String,
}

/// Reasons for refusal. Unknown identifiers decode as [`Self::Other`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnrolmentRefusalReason {
    /// The bootstrap token does not allow this name.
    NameNotAllowed,
    /// Another key has this name, and the name was not released.
    NameTaken,
    /// The key was revoked.
    Revoked,
    /// The use limit of this token is reached.
    UsedUp,
    /// Signed too long ago, or in the future: compare the clocks.
    Stale,
    /// The required approval was denied.
    Denied,
    /// The service had an internal error.
    Trouble,
    /// A reason of a newer service.
    #[serde(other)]
    Other,
}

impl EnrolmentRefusalReason {
    /// The stable identifier.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NameNotAllowed => "name_not_allowed",
            Self::NameTaken => "name_taken",
            Self::Revoked => "revoked",
            Self::UsedUp => "used_up",
            Self::Stale => "stale",
            Self::Denied => "denied",
            Self::Trouble => "trouble",
            Self::Other => "other",
        }
    }

    /// Whether retrying with the same credential and name is useless. A taken name may be released later, so that reason is not final.
    pub fn is_final(self) -> bool {
        matches!(self, Self::NameNotAllowed | Self::UsedUp | Self::Denied | Self::Revoked)
    }
}

/// Reasons to reject an answer.
#[derive(Debug, thiserror::Error)]
pub enum EnrolmentAnswerError {
    /// The envelope or the sender's token failed verification.
    #[error("cannot authenticate the answer")]
    Refused(#[from] MessageRefusal),
    /// Not valid JSON of this type.
    #[error("cannot parse the answer")]
    Json(#[from] serde_json::Error),
    /// The answer is for another machine or an earlier request.
    #[error("the answer is for another machine or an earlier request")]
    OtherRequest,
    /// The answer accepts another name than requested.
    #[error("the answer is for {found}, not for {expected}")]
    Name {
        /// The requested name.
        expected: Identity,
        /// The name in the answer.
        found: Identity,
    },
    /// The fleet's account token, or the node's own, failed verification.
    #[error("the {token_name} in the answer failed verification")]
    Token {
        /// Which token.
        token_name: &'static str,
        /// The token error.
        #[source]
        source: TokenError,
    },
    /// A token for another key or another role.
    #[error("the token in the answer is not a node token for this machine's name and key")]
    Foreign,
}

/// Signs an answer as a service of the bootstrap account.
pub fn sign_enrolment_answer(
    answer: &EnrolmentAnswer,
    service: &Signer,
) -> Result<Vec<u8>, EnvelopeSignError> {
    sign_envelope(EnvelopeKind::Welcome, answer, service)
}

/// Verifies the answer to this request. An acceptance in it must still be [checked](EnrolmentAcceptance::verify_tokens).
pub fn open_enrolment_answer(
    bytes: &[u8],
    request: &EnrolmentRequest,
    enrolment_account: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Result<EnrolmentOutcome, EnrolmentAnswerError> {
    let envelope = Envelope::decode(EnvelopeKind::Welcome, bytes)?;
    let opened = envelope.verify(enrolment_account, cache, now, &[UserRole::Service])?;
    let answer: EnrolmentAnswer = serde_json::from_slice(opened.body)?;
    if answer.nonce != request.nonce || answer.key != request.key {
        return Err(EnrolmentAnswerError::OtherRequest);
    }
    if let EnrolmentOutcome::Welcome(acceptance) = &answer.outcome
        && acceptance.identity != request.identity
    {
        return Err(EnrolmentAnswerError::Name {
            expected: request.identity.clone(),
            found: acceptance.identity.clone(),
        });
    }
    Ok(answer.outcome)
}

impl EnrolmentAcceptance {
    /// Verifies that the tokens make this key a node of a fleet of the pinned operator; returns the fleet's trust.
    pub fn verify_tokens(
        &self,
        operator: PublicKey,
        key: PublicKey,
        now: Millis,
    ) -> Result<AccountTrust, EnrolmentAnswerError> {
        let to_error =
            |token_name| move |source| EnrolmentAnswerError::Token { token_name, source };
        let fleet = AccountTrust::new(operator, &self.account)
            .map_err(to_error("fleet's account token"))?;
        let node = fleet.verify_user(&self.token, now).map_err(to_error("node's token"))?;
        if node.key != key || node.role != UserRole::Node || node.identity != self.identity {
            return Err(EnrolmentAnswerError::Foreign);
        }
        Ok(fleet)
    }
}
