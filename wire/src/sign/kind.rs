//! The kinds of envelopes: protocol name, signature domain and size limit.

use crate::limits;

/// The type of an envelope's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EnvelopeKind {
    /// A [`crate::request::Request`].
    Request,
    /// A [`crate::reply::Reply`].
    Reply,
    /// A [`crate::progress::ProgressMessage`].
    Progress,
    /// A [`crate::event::FleetEvent`].
    Event,
    /// A [`crate::node_record::NodeRecord`].
    Record,
    /// A [`crate::node_record::NodeHeartbeat`].
    Heartbeat,
    /// A [`crate::history::HistoryBatch`].
    History,
    /// A [`crate::approval::RequestProposal`].
    Proposal,
    /// A [`crate::approval::ProposalApproval`].
    Approval,
    /// A [`crate::schedule_grant::ScheduleGrant`].
    Schedule,
    /// A [`crate::catalog::CompiledCatalog`].
    Catalog,
    /// A [`crate::catalog::release::Release`].
    Release,
    /// A [`crate::catalog::release::Promotion`].
    Promotion,
    /// A bundle manifest of `muster-bundle`.
    Bundle,
    /// A [`crate::enrol::EnrolmentRequest`] with its proof.
    Hello,
    /// A [`crate::enrol::EnrolmentAnswer`].
    Welcome,
}

impl EnvelopeKind {
    /// The value of `protocol`, and the signature domain.
    pub fn protocol_name(self) -> &'static str {
        self.name_and_limit().0
    }

    /// Largest envelope, in bytes.
    pub fn max_bytes(self) -> usize {
        self.name_and_limit().1
    }

    fn name_and_limit(self) -> (&'static str, usize) {
        match self {
            Self::Request => ("muster.request.v1", limits::MAX_REQUEST_BYTES),
            Self::Reply => ("muster.reply.v1", limits::MAX_REPLY_BYTES),
            Self::Progress => ("muster.progress.v1", limits::MAX_PROGRESS_BYTES),
            Self::Event => ("muster.event.v1", limits::MAX_EVENT_BYTES),
            Self::Record => ("muster.record.v1", limits::MAX_RECORD_BYTES),
            Self::Heartbeat => ("muster.heartbeat.v1", limits::MAX_HEARTBEAT_BYTES),
            Self::History => ("muster.history.v1", limits::MAX_HISTORY_BYTES),
            Self::Proposal => ("muster.proposal.v1", limits::MAX_PROPOSAL_BYTES),
            Self::Approval => ("muster.approval.v1", limits::MAX_APPROVAL_BYTES),
            Self::Schedule => ("muster.schedule.v1", limits::MAX_SCHEDULE_GRANT_BYTES),
            Self::Catalog => ("muster.catalog.v1", limits::MAX_CATALOG_BYTES),
            Self::Release => ("muster.release.v1", limits::MAX_PROMOTION_BYTES),
            Self::Promotion => ("muster.promotion.v1", limits::MAX_PROMOTION_BYTES),
            Self::Bundle => ("muster.bundle.v1", limits::MAX_BUNDLE_MANIFEST_BYTES),
            Self::Hello => ("muster.hello.v1", limits::MAX_ENROLMENT_REQUEST_BYTES),
            Self::Welcome => ("muster.welcome.v1", limits::MAX_ENROLMENT_ANSWER_BYTES),
        }
    }

    /// The kind of an inbox message: progress if its first field names that protocol, else a reply. The check is a hint without
    /// verification; opening the envelope verifies the kind.
    pub fn of_inbox_message(bytes: &[u8]) -> Self {
        let prefix =
            [br#"{"protocol":""#.as_slice(), Self::Progress.protocol_name().as_bytes(), b"\""]
                .concat();
        if bytes.starts_with(&prefix) { Self::Progress } else { Self::Reply }
    }

    /// The signed bytes before the body, with capacity for a body of this size.
    pub(super) fn signature_domain(self, body_capacity: usize) -> Vec<u8> {
        let protocol = self.protocol_name().as_bytes();
        let mut domain = Vec::with_capacity(protocol.len() + 1 + body_capacity);
        domain.extend_from_slice(protocol);
        domain.push(0);
        domain
    }

    /// The signed bytes for this body.
    pub fn signed_bytes(self, body: &[u8]) -> Vec<u8> {
        let mut signed = self.signature_domain(body.len());
        signed.extend_from_slice(body);
        signed
    }
}
