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
//! Read in this order: [`Ticket`], [`Hello`], [`open_hello`], [`decide`], [`Enroller`], [`Answer`], [`Welcome::check`].

mod answer;
mod decide;
mod enroller;
mod entry;
mod hello;
mod names;
mod roll;
mod ticket;

pub use answer::{
    Answer, AnswerError, Outcome, Reason, Refused, Wait, Welcome, open_answer, seal_answer,
};
pub use decide::{Decision, KnownName, decide};
pub use enroller::{EnrolError, Enroller, Handled, Offer, Parts, issue};
pub use entry::{Claimed, Entry};
pub use hello::{Hello, HelloError, Nonce, NonceError, OpenHello, open_hello, seal_hello};
pub use names::{NamePattern, NamePatternError};
pub use roll::{Approval, MemoryRoll, Roll};
pub use ticket::{Ticket, TicketError, TicketFact};
