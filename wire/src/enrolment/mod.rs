//! Decides which machines are enrolled as nodes, and issues their tokens. Pure, except for the [`EnrolmentStore`] of the caller.
//!
//! The messages are in [`crate::enrol`]. Read in this order: [`decide_enrolment`], [`NodeEnroller`], [`EnrolmentStore`], [`NameEntry`].

mod decide;
mod enroller;
mod entry;
mod store;

pub use decide::{EnrolmentDecision, KnownName, decide_enrolment};
pub use enroller::{
    EnrolmentSettings, HandledEnrolment, NodeEnroller, NodeEnrollerError, NodeEnrollerParts,
    issue_node_token,
};
pub use entry::{NameClaimOutcome, NameEntry};
pub use store::{EnrolmentApproval, EnrolmentStore};
