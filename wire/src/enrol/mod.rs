//! How a machine that is nobody yet becomes a node.
//!
//! ```text
//! newcomer: Hello { the name it wants, its public key, a nonce, ... }, signed by that key, and sealed by the bootstrap
//!           credential that it was given, as muster.hello.v1   --newcomers.enrol-->   the service that enrols
//! service:  believes it, decides, signs a node's token for that key
//!           Answer { welcome | wait | refused }, sealed as muster.welcome.v1   -->   the newcomer's inbox
//! newcomer: checks it against the pinned operator, keeps it, and is a node
//! ```
//!
//! A bootstrap credential is a user of another account than the fleet's, shared by all machines that were started with it. It
//! lets its holder do one thing: wish to be enrolled under one of the names in it. The private key of the node is made on the
//! machine and stays there, so that whoever reads another's answer, as all who share a credential can, has learnt nothing that
//! could be used.
//!
//! Read in this order: [`TokenGrant`], [`EnrolmentRequest`], [`open_enrolment_request`], [`decide_enrolment`], [`NodeEnroller`], [`EnrolmentAnswer`], [`EnrolmentAcceptance::verify_tokens`].

mod answer;
mod decide;
mod enroller;
mod entry;
mod names;
mod request;
mod store;
mod token_grant;

pub use answer::{
    EnrolmentAcceptance, EnrolmentAnswer, EnrolmentAnswerError, EnrolmentDeferral,
    EnrolmentOutcome, EnrolmentRefusal, EnrolmentRefusalReason, open_enrolment_answer,
    sign_enrolment_answer,
};
pub use decide::{EnrolmentDecision, KnownName, decide_enrolment};
pub use enroller::{
    EnrolmentSettings, HandledEnrolment, NodeEnroller, NodeEnrollerError, NodeEnrollerParts,
    issue_node_token,
};
pub use entry::{NameClaimOutcome, NameEntry};
pub use names::{NamePattern, NamePatternError};
pub use request::{
    EnrolmentNonce, EnrolmentNonceError, EnrolmentRequest, EnrolmentRequestError,
    OpenEnrolmentRequest, open_enrolment_request, sign_enrolment_request,
};
pub use store::{EnrolmentApproval, EnrolmentStore, MemoryEnrolmentStore};
pub use token_grant::{TokenGrant, TokenGrantError, TokenGrantFact};
