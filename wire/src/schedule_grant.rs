//! Schedule grants: an author signs what a scheduler may request in the author's name, of which nodes, when, and until when.
//!
//! ```text
//! author:    ScheduleGrant  --signed as muster.schedule.v1-->  the scheduler stores it
//! scheduler: Request { grant: { text, slot }, ... }, signed with the scheduler's own key  -->  node
//! node:      open the grant, compare it with the request, and decide as if the author had sent it
//! ```
//!
//! So a scheduler needs no permission of its own: with a stolen key of one, an attacker can repeat what an author scheduled, when the author scheduled it.
//! A grant ends with its own expiry, with the author's token, and when the author is revoked. What a schedule says is not known
//! here: see the crate `muster-schedule`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use muster_base::format_millis;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::identity::{Identity, SubjectName};
use crate::sign::{
    Envelope, EnvelopeKind, EnvelopeSignError, MessageRefusal, Signer, encode_envelope,
    sign_envelope,
};
use crate::token::{AccountTrust, TokenCache, UserRole, VerifiedUser};
use crate::unique::check_unique_keys;
use crate::{Millis, fresh, limits};

/// The rule by which a node refuses a turn that has begun before, whichever scheduler sent it.
pub const REPEATED_TURN: &str = "the turn has begun before";

/// What an author permits. Unknown fields are refused: an older node must not ignore one that restricts the grant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleGrant {
    /// UUID version 7. A changed schedule has another one.
    pub id: Uuid,
    /// The caller in whose name requests are sent.
    pub author: Identity,
    /// The collective.
    pub collective: SubjectName,
    /// The name of the schedule.
    pub name: SubjectName,
    /// When it was signed, by the author's clock.
    pub issued_at: Millis,
    /// When it ends.
    pub expires_at: Millis,
    /// What, of which nodes, and when: a `ScheduleSpec` of `muster-schedule`.
    pub schedule: Map<String, Value>,
}

/// A grant whose author is verified.
#[derive(Debug, Clone)]
pub struct OpenGrant {
    /// The grant.
    pub grant: ScheduleGrant,
    /// The verified author.
    pub author: Arc<VerifiedUser>,
}

/// Reasons to refuse a grant.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    /// The envelope or the author's token failed verification: it may be revoked or expired.
    #[error("the author of the schedule is not accepted")]
    Refused(#[from] MessageRefusal),
    /// The encoding is invalid.
    #[error("the schedule has an invalid format: {0}")]
    Shape(&'static str),
    /// The body is not the JSON of a grant.
    #[error("the schedule has an invalid format")]
    Json(#[source] serde_json::Error),
    /// The claimed author differs from the signer.
    #[error("the schedule specifies the author {claimed}, but {signer} signed it")]
    WrongAuthor {
        /// The signer.
        signer: Identity,
        /// The claimed author.
        claimed: Identity,
    },
    /// The lifetime is zero or above the limit.
    #[error("the schedule is valid for {}; at most {} are allowed", format_millis(*.0), format_millis(limits::MAX_SCHEDULE_LIFETIME_MILLIS))]
    Lifetime(Millis),
    /// It has ended.
    #[error("the schedule ended {} ago; add it again", format_millis(*.0))]
    Expired(Millis),
    /// It is from the future.
    #[error("the schedule was signed {} in the future; compare the clocks", format_millis(*.0))]
    Future(Millis),
    /// The author may not call the action: the tags of the token do not include it.
    #[error("{author} may not call {agent} {action}: the token does not permit it")]
    NotPermitted {
        /// The author.
        author: Identity,
        /// The agent.
        agent: SubjectName,
        /// The action.
        action: SubjectName,
    },
}

impl ScheduleGrant {
    /// Signs the grant as its author; returns its text for [`RequestGrant::text`](crate::request::RequestGrant::text).
    pub fn sign(&self, signer: &Signer) -> Result<String, EnvelopeSignError> {
        Ok(encode_envelope(&sign_envelope(EnvelopeKind::Schedule, self, signer)?))
    }
}

/// Verifies a signed grant: who its author is, that the author is a caller whose token is valid now, and that the grant has not ended.
pub fn open_grant(
    text: &str,
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Result<OpenGrant, GrantError> {
    if text.len() > limits::MAX_SCHEDULE_GRANT_BYTES * 4 / 3 + 4 {
        return Err(GrantError::Shape("too long"));
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| GrantError::Shape("not base64url"))?;
    let envelope = Envelope::decode(EnvelopeKind::Schedule, &bytes)?;
    let opened = envelope.verify(trust, cache, now, &[UserRole::Caller])?;
    let body = check_unique_keys(opened.body).and_then(|()| serde_json::from_slice(opened.body));
    let grant: ScheduleGrant = body.map_err(GrantError::Json)?;
    let author = opened.sender;
    if author.identity != grant.author {
        let (signer, claimed) = (author.identity.clone(), grant.author);
        return Err(GrantError::WrongAuthor { signer, claimed });
    }
    if grant.id.get_version_num() != 7 {
        return Err(GrantError::Shape("the id is not a version 7 UUID"));
    }
    check_period(&grant, now)?;
    Ok(OpenGrant { grant, author })
}

fn check_period(grant: &ScheduleGrant, now: Millis) -> Result<(), GrantError> {
    let lifetime = grant.expires_at.saturating_sub(grant.issued_at);
    if lifetime == 0 || lifetime > limits::MAX_SCHEDULE_LIFETIME_MILLIS {
        return Err(GrantError::Lifetime(lifetime));
    }
    if now > grant.expires_at {
        return Err(GrantError::Expired(now - grant.expires_at));
    }
    let ahead = grant.issued_at.saturating_sub(now);
    if ahead > fresh::CLOCK_SKEW_MILLIS {
        return Err(GrantError::Future(ahead));
    }
    Ok(())
}

impl OpenGrant {
    /// Whether the grant is still accepted: it has not ended, and the author's token has neither expired nor been revoked. Much cheaper than opening it.
    pub fn check_still_valid(&self, trust: &AccountTrust, now: Millis) -> Result<(), GrantError> {
        check_period(&self.grant, now)?;
        trust.check_still_valid(&self.author, now).map_err(MessageRefusal::from)?;
        Ok(())
    }

    /// When the grant ends: at its own expiry, or with the author's token.
    pub fn ends_at(&self) -> Millis {
        self.author
            .expires
            .map_or(self.grant.expires_at, |expires| expires.min(self.grant.expires_at))
    }

    /// Checks that the author's token permits requests to this action. For the author's own requests the broker checks it; it cannot see whose
    /// request a scheduler sends.
    pub fn check_permission(
        &self,
        agent: &SubjectName,
        action: &SubjectName,
    ) -> Result<(), GrantError> {
        if self.author.may_request(agent, action) {
            return Ok(());
        }
        let (agent, action) = (agent.clone(), action.clone());
        Err(GrantError::NotPermitted { author: self.author.identity.clone(), agent, action })
    }
}
