//! Enrolment: how a machine with a bootstrap credential becomes a node.
//!
//! ```text
//! node:     Hello { the name it wants, its public key, a nonce, ... }, signed by that key, and then signed with the
//!           bootstrap credential, as muster.hello.v1   --newcomers.enrol-->   the enrolment service
//! service:  verifies it, decides, signs a node's token for that key
//!           Answer { welcome | wait | refused }, signed as muster.welcome.v1   -->   the answer subject of the bootstrap credential
//! node:     verifies it against the pinned operator, stores it, and starts as a node
//! ```
//!
//! A bootstrap credential is a user of an account other than the fleet's, shared by all machines that were started with it. It
//! permits one action: requesting enrolment under one of the names in it. The node's private key is generated on the
//! machine and stays there. Holders of a shared credential can read each other's answers, but cannot use them without that key.
//!
//! The decision is in the crate `muster-enrol`. Read in this order: [`TokenGrant`], [`EnrolmentRequest`], [`open_enrolment_request`],
//! [`EnrolmentAnswer`], [`EnrolmentAcceptance::verify_tokens`].

mod answer;
mod names;
mod request;
mod token_grant;

pub use answer::{
    EnrolmentAcceptance, EnrolmentAnswer, EnrolmentAnswerError, EnrolmentDeferral,
    EnrolmentOutcome, EnrolmentRefusal, EnrolmentRefusalReason, open_enrolment_answer,
    sign_enrolment_answer,
};
pub use names::{NamePattern, NamePatternError};
pub use request::{
    EnrolmentNonce, EnrolmentNonceError, EnrolmentRequest, EnrolmentRequestError,
    OpenEnrolmentRequest, open_enrolment_request, sign_enrolment_request,
};
pub use token_grant::{TokenGrant, TokenGrantError, TokenGrantFact};
