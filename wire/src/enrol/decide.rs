//! Whether a wish is granted, as far as that follows from the wish and from who has the name. Pure.

use super::answer::Reason;
use super::hello::OpenHello;
use super::roll::{Approval, Entry};
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

/// Decides. `holder` is who has the name now; `approval` is what somebody says who was asked.
pub fn decide(
    wish: &OpenHello,
    holder: Option<&Entry>,
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
    if holder.is_some_and(|held| held.key != hello.key && !held.released) {
        return Decision::Refuse(Reason::NameTaken, taken(&hello.identity));
    }
    match approval {
        Approval::NotNeeded | Approval::Given => Decision::Issue,
        Approval::Awaited(what) => Decision::Wait(what.clone()),
        Approval::Denied(why) => Decision::Refuse(Reason::Denied, why.clone()),
    }
}

/// What whoever comes second is told.
pub(super) fn taken(name: &crate::identity::Identity) -> String {
    format!(
        "another key has the name {name} already; release it if that machine is gone, or choose another name"
    )
}
