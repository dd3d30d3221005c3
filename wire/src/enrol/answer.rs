//! The answer to the wish to be enrolled: welcome, wait, or no.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::request::{EnrolmentNonce, EnrolmentRequest};
use crate::Millis;
use crate::identity::{Identity, SubjectName};
use crate::sign::{
    Envelope, EnvelopeKind, EnvelopeSignError, MessageRefusal, Signer, sign_envelope,
};
use crate::token::{AccountTrust, PublicKey, TokenCache, TokenError, UserRole};

/// An answer, for one wish of one key. Unknown fields are ignored: a newer service may tell more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolmentAnswer {
    /// The wish's.
    pub nonce: EnrolmentNonce,
    /// The key that wishes.
    pub key: PublicKey,
    /// When it was signed, by the service's clock.
    pub time: Millis,
    /// What becomes of it.
    pub outcome: EnrolmentOutcome,
}

/// What becomes of a wish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnrolmentOutcome {
    /// It is a node now.
    Welcome(Box<EnrolmentAcceptance>),
    /// Not yet; ask again.
    Wait(EnrolmentDeferral),
    /// No.
    Refused(EnrolmentRefusal),
}

/// All that a node needs that its machine does not have yet. Nothing in it is secret: the private key was never sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolmentAcceptance {
    /// Its name.
    pub identity: Identity,
    /// The token of its key, as a node of the fleet.
    pub token: String,
    /// The fleet's account token.
    pub account: String,
    /// The collectives that it joins, unless its configuration says others.
    pub collectives: Vec<SubjectName>,
    /// Where the fleet's broker is; where it is now, when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
    /// What it says of itself from now on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// Whether there is more to be done with it before it offers everything.
    #[serde(default)]
    pub provisioning: bool,
}

/// Not yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolmentDeferral {
    /// What for, in words.
    pub message: String,
    /// How long to wait before asking again, in milliseconds.
    pub retry_after_ms: u64,
}

/// No.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolmentRefusal {
    /// A stable word.
    pub reason: EnrolmentRefusalReason,
    /// The same in a sentence.
    pub message: String,
}

/// Why somebody is not enrolled. Words that are not known here are [`Self::Other`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnrolmentRefusalReason {
    /// The bootstrap token does not allow this name.
    NameNotAllowed,
    /// Another key has this name, and was not released.
    NameTaken,
    /// The key was revoked.
    Revoked,
    /// As many came in by this token as may.
    UsedUp,
    /// Signed too long ago, or in the future: compare the clocks.
    Stale,
    /// Somebody said no.
    Denied,
    /// The service could not do its part.
    Trouble,
    /// Something that only a newer service knows.
    #[serde(other)]
    Other,
}

impl EnrolmentRefusalReason {
    /// The stable word.
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

    /// Whether asking again with the same credential and name is of no use. A name that is taken may be released.
    pub fn is_final(self) -> bool {
        matches!(
            self,
            Self::NameNotAllowed | Self::UsedUp | Self::Denied | Self::Revoked
        )
    }
}

/// Why an answer does not count.
#[derive(Debug, thiserror::Error)]
pub enum EnrolmentAnswerError {
    /// Its envelope or its sender's token is not believed.
    #[error("the answer is not authentic")]
    Refused(#[from] MessageRefusal),
    /// Not the JSON that it should be.
    #[error("the answer cannot be read")]
    Json(#[from] serde_json::Error),
    /// It answers another machine, or an earlier wish.
    #[error("the answer is for somebody else, or for an earlier wish")]
    Other,
    /// It welcomes under another name than was asked for.
    #[error("the answer is for {found}, but {expected} asked")]
    Name {
        /// Who asked.
        expected: Identity,
        /// Whom it names.
        found: Identity,
    },
    /// The fleet's account token, or the node's own.
    #[error("the {what} in the answer is not believed")]
    Token {
        /// Which.
        what: &'static str,
        /// Why.
        #[source]
        source: TokenError,
    },
    /// A token for another key, or of another role than a node's.
    #[error("the token in the answer is not that of a node with this machine's key")]
    Foreign,
}

/// Seals an answer as a service of the newcomers' account.
pub fn sign_enrolment_answer(
    answer: &EnrolmentAnswer,
    service: &Signer,
) -> Result<Vec<u8>, EnvelopeSignError> {
    sign_envelope(EnvelopeKind::Welcome, answer, service)
}

/// Opens the answer to this wish. A welcome in it still has to be [checked](EnrolmentAcceptance::verify_tokens).
pub fn open_enrolment_answer(
    bytes: &[u8],
    hello: &EnrolmentRequest,
    newcomers: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Result<EnrolmentOutcome, EnrolmentAnswerError> {
    let envelope = Envelope::decode(EnvelopeKind::Welcome, bytes)?;
    let opened = envelope.verify(newcomers, cache, now, &[UserRole::Service])?;
    let answer: EnrolmentAnswer = serde_json::from_slice(opened.body)?;
    if answer.nonce != hello.nonce || answer.key != hello.key {
        return Err(EnrolmentAnswerError::Other);
    }
    if let EnrolmentOutcome::Welcome(welcome) = &answer.outcome
        && welcome.identity != hello.identity
    {
        return Err(EnrolmentAnswerError::Name {
            expected: hello.identity.clone(),
            found: welcome.identity.clone(),
        });
    }
    Ok(answer.outcome)
}

impl EnrolmentAcceptance {
    /// Whether it makes this key a node of a fleet of the pinned operator; the fleet's trust, if so.
    pub fn verify_tokens(
        &self,
        operator: PublicKey,
        key: PublicKey,
        now: Millis,
    ) -> Result<AccountTrust, EnrolmentAnswerError> {
        let of = |what| move |source| EnrolmentAnswerError::Token { what, source };
        let fleet =
            AccountTrust::new(operator, &self.account).map_err(of("fleet's account token"))?;
        let node = fleet
            .verify_user(&self.token, now)
            .map_err(of("node's token"))?;
        if node.key != key || node.role != UserRole::Node || node.identity != self.identity {
            return Err(EnrolmentAnswerError::Foreign);
        }
        Ok(fleet)
    }
}
