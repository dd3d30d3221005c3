//! Stage 6: the node's own policy, the second lock behind the broker's permissions; and a second person, where it takes one.
//!
//! A policy that needs data sources takes the way beside the order of arrival, as filters do: [`settle`]. What reads a data source
//! by an action is held against the policy `data` as well, as filters are.

use muster_wire::filter::{Known, Progress};
use muster_wire::identity::Name;
use muster_wire::policy::{Decision, PolicyPrincipal, PolicySet, Question};
use muster_wire::status::{Reason, Status};
use tokio::sync::OwnedSemaphorePermit;

use super::approval::{self, Approver};
use super::watch::{Watch, Watched};
use super::{Accepted, Stop};
use crate::core::Core;
use crate::lookup::{DATA, Lookups};

/// The action that reads a data source, and the input that names it.
const READS: (&str, &str, &str) = ("rpcutil", "get_data", "source");
/// When asking again is sensible, if too many requests wait for data sources, in milliseconds.
const RETRY_AFTER: u64 = 10_000;

/// What the policy says without asking anybody.
pub(super) enum Judged {
    /// The caller may.
    Allowed(Accepted),
    /// Data sources must say, and this is its place among those that ask them.
    Open(Accepted, OwnedSemaphorePermit),
}

/// What makes a request allowed: the rule, and who approved it.
struct Grant {
    rule: String,
    approver: Option<Approver>,
}

/// The rule that denies, in words.
type Denial = String;

impl Watched for Judged {
    fn watch(&mut self) -> &mut Watch {
        match self {
            Self::Allowed(accepted) | Self::Open(accepted, _) => accepted.watch(),
        }
    }
}

/// Asks the policy, as far as that needs no data source.
pub(super) fn at_once(core: &Core, accepted: Accepted) -> Result<Judged, Stop> {
    let policy = core.policy.get();
    let verdict = match judge(core, &policy, &accepted, &Known::default()) {
        Progress::Decided(verdict) => verdict,
        Progress::Needs(_) => {
            return match core.lookups.enter() {
                Some(place) => Ok(Judged::Open(accepted, place)),
                None => Err(busy(accepted)),
            };
        }
    };
    conclude(core, accepted, verdict).map(Judged::Allowed)
}

/// Asks the policy, and the data sources that it needs. Takes as long as they may take.
pub(super) async fn settle(
    core: &Core,
    accepted: Accepted,
    lookups: &mut Lookups,
) -> Result<Accepted, Stop> {
    let policy = core.policy.get();
    let verdict = lookups
        .settle(|known| judge(core, &policy, &accepted, known))
        .await;
    conclude(core, accepted, verdict)
}

/// Notes the rule that allowed it and who approved it, or refuses.
fn conclude(
    core: &Core,
    accepted: Accepted,
    verdict: Result<Grant, Denial>,
) -> Result<Accepted, Stop> {
    match verdict {
        Ok(Grant { rule, approver }) => Ok(Accepted {
            rule,
            approver,
            ..accepted
        }),
        Err(rule) => Err(denied(core, accepted, rule)),
    }
}

/// What the policy says, as far as is known; whoever gets a verdict has used the approval up.
fn judge<'p>(
    core: &Core,
    policy: &'p PolicySet,
    accepted: &Accepted,
    known: &Known,
) -> Progress<'p, Result<Grant, Denial>> {
    let request = &accepted.asked.request;
    let caller = PolicyPrincipal::of(&accepted.asked.caller);
    let ask = |agent: &Name, action: &Name| {
        core.view(|node| {
            let question = Question {
                caller: &caller,
                agent,
                action,
                node,
                now: core.clock.now(),
            };
            policy.judge(&question, known)
        })
    };
    let decision = match ask(&request.agent, &request.action) {
        Progress::Needs(lookup) => return Progress::Needs(lookup),
        Progress::Decided(decision) => decision,
    };
    if !decision.allowed {
        return Progress::Decided(Err(decision.rule));
    }
    match source_read(core, accepted) {
        None => {}
        Some(Err(denial)) => return Progress::Decided(Err(denial)),
        Some(Ok((data, source))) => match ask(&data, &source) {
            Progress::Needs(lookup) => return Progress::Needs(lookup),
            Progress::Decided(Decision {
                allowed: true,
                approved_by: None,
                ..
            }) => {}
            Progress::Decided(refused) => return Progress::Decided(Err(refused.rule)),
        },
    }
    let wanted = decision.approved_by.as_deref();
    let rule = decision.rule;
    if wanted.is_none() && !(accepted.dangerous && core.authority.approve_dangerous) {
        return Progress::Decided(Ok(Grant {
            rule,
            approver: None,
        }));
    }
    approval::check(core, accepted, policy, wanted, known).map(|checked| match checked {
        Ok(approver) => Ok(Grant {
            rule,
            approver: Some(approver),
        }),
        Err(why) => Err(format!("{rule}: {why}")),
    })
}

/// The question to the policy `data`, if the request reads one of the node's data sources.
fn source_read(core: &Core, accepted: &Accepted) -> Option<Result<(Name, Name), Denial>> {
    let request = &accepted.asked.request;
    let (agent, action, input) = READS;
    if (request.agent.as_str(), request.action.as_str()) != (agent, action) {
        return None;
    }
    let named = accepted.input.get(input)?.as_str()?;
    // A source that the node has not got is the action's to tell.
    core.data_sources
        .iter()
        .find(|source| source.name() == named)?;
    let asked = Name::parse(DATA).and_then(|data| Ok((data, Name::parse(named)?)));
    Some(asked.map_err(|error| format!("{DATA}: `{named}`: {error}")))
}

fn denied(core: &Core, accepted: Accepted, rule: String) -> Stop {
    core.counters.denied.count();
    let request = &accepted.asked.request;
    let caller = PolicyPrincipal::of(&accepted.asked.caller);
    let message = format!(
        "{caller} may not ask for {} {} here: {rule}",
        request.agent, request.action
    );
    let reason = Some(Reason::Denied { rule });
    Stop::refused(accepted.asked, Status::Other, message, reason)
}

fn busy(accepted: Accepted) -> Stop {
    let message = "too many requests wait here for data sources that a policy needs".to_owned();
    let reason = Some(Reason::Busy {
        retry_after_ms: RETRY_AFTER,
    });
    Stop::refused(accepted.asked, Status::Other, message, reason)
}
