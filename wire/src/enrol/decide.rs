//! Whether a wish is granted, as far as that follows from the wish and from who has the name. Pure.

use super::answer::Reason;
use super::entry::{Claimed, Entry};
use super::hello::{Hello, OpenHello};
use super::roll::Approval;
use crate::identity::Identity;
use crate::{Millis, fresh, limits};

/// What follows from a wish and what is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may become a node; the use of its token and the name still have to be taken.
    Issue,
    /// Somebody has to agree first.
    Wait(String),
    /// It may not.
    Refuse(Reason, String),
}

/// What is known of the name and of the key in a wish.
#[derive(Debug, Clone, Copy, Default)]
pub struct KnownName<'a> {
    /// The entry of the name.
    pub entry: Option<&'a Entry>,
    /// Whether the fleet's account token has a revocation of the key, whenever it was made.
    pub is_key_revoked: bool,
}

/// Decides. `approval` is what somebody says who was asked.
pub fn decide(
    wish: &OpenHello,
    known: KnownName<'_>,
    approval: &Approval,
    now: Millis,
) -> Decision {
    let (hello, ticket) = (&wish.hello, &wish.ticket);
    if let Err(stale) = fresh::judge(hello.time, limits::HELLO_MILLIS, now, fresh::SKEW) {
        let message = format!(
            "this machine's clock and the service's differ, or the message was under way for {} ms; compare the clocks",
            stale.age_ms
        );
        return Decision::Refuse(Reason::Stale, message);
    }
    if !ticket.allows(&hello.identity) {
        let message = format!(
            "the bootstrap token does not allow the name {}",
            hello.identity
        );
        return Decision::Refuse(Reason::NameNotAllowed, message);
    }
    let claim = Entry::judge_claim(known.entry, hello.key);
    if known.is_key_revoked || claim == Claimed::Revoked {
        return Decision::Refuse(Reason::Revoked, revoked(hello));
    }
    if let Claimed::Taken(_) = claim {
        let is_revoked = known.entry.is_some_and(|entry| entry.revoked);
        let message = if is_revoked {
            let name = &hello.identity;
            format!("the node {name} was revoked; `rpc provision release {name}` frees the name")
        } else {
            taken(&hello.identity)
        };
        return Decision::Refuse(Reason::NameTaken, message);
    }
    match approval {
        Approval::NotNeeded | Approval::Given => Decision::Issue,
        Approval::Awaited(what) => Decision::Wait(what.clone()),
        Approval::Denied(why) => Decision::Refuse(Reason::Denied, why.clone()),
    }
}

/// The message for the second machine of a name.
pub(super) fn taken(name: &Identity) -> String {
    format!(
        "another key has the name {name} already; release it if that machine is gone, or choose another name"
    )
}

/// The message for a key that was revoked.
pub(super) fn revoked(hello: &Hello) -> String {
    format!(
        "the key {} was revoked; give the machine a new key (remove newcomer.json from its state directory), and release the name {}",
        hello.key, hello.identity
    )
}

/// The message for a name that a node has which was not enrolled.
pub(super) fn in_use(name: &Identity) -> String {
    format!(
        "a node of the name {name} is registered or connected; choose another name, or stop that node and release the name"
    )
}
