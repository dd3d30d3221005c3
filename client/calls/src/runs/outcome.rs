//! Outcome of one node's run, derived from its reply or the lack of one. Sends no requests.

use muster_base::NodeText;
use muster_contract::puppet::{PuppetRunClass, PuppetRunOutcome};
use muster_contract::read_values;
use muster_wire::Millis;
use muster_wire::reply::Reply;
use muster_wire::status::{ReplyReason, ReplyStatus};
use serde_json::{Map, Value};

use super::concurrency::PermitInterval;

/// The broker reports no subscriber for the node.
pub(super) const NOT_CONNECTED: &str = "not_connected";
/// The node received the request, and sent nothing for the maximum silence.
pub(super) const NO_ANSWER: &str = "no_answer";
/// The request could not be sent.
pub(super) const NOT_SENT: &str = "not_sent";

/// The run continues; only the wait for it has ended.
pub(super) const UNFINISHED: &str = "unfinished";

/// Classes of nodes without evidence of a run.
const UNHEARD_CLASSES: [&str; 3] = [NOT_CONNECTED, NO_ANSWER, NOT_SENT];

/// Clock differences up to this are ignored: the transport of replies takes time, too.
const TOLERATED_SKEW_MS: i64 = 1000;
/// Maximum length of a class that a node reports, in bytes.
const MAX_CLASS_BYTES: usize = 32;

/// Outcome of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// Whether the run succeeded completely.
    pub ok: bool,
    /// The outcome class: `clean`, `changed`, `failed`, `compile_failed`, `disabled`, `no_answer` and so on. Always short printable text, whatever
    /// the node sent.
    pub class: String,
    /// Message of the node about the outcome.
    pub message: NodeText,
    /// The outputs of the action; empty without a reply.
    pub data: Map<String, Value>,
    /// Whether an earlier request had started the run.
    pub attached: bool,
    /// The interval in which the run held its lock and permit: by the node's clock, or converted to the local clock if the two differ by more than a
    /// second. `None` if the run never began.
    pub permit_interval: Option<PermitInterval>,
    /// Maximum number of runs of the pool at once during this run, as the node saw it: those that others started count too.
    pub pool_highest: Option<usize>,
    /// The node's clock minus the local clock, in milliseconds; 0 within the tolerance.
    skew: i64,
}

impl RunOutcome {
    /// Evaluates a reply that arrived at this time of the local clock.
    pub fn from_reply(reply: &Reply, now: Millis) -> Self {
        let skew = clock_difference(reply.time, now);
        let is_notable = skew.abs() > TOLERATED_SKEW_MS;
        Self::from_outputs(
            reply.statuscode,
            reply.reason.as_ref(),
            reply.statusmsg.clone(),
            reply.data.clone(),
            if is_notable { skew } else { 0 },
        )
    }

    /// Evaluates a saved reply, for which the node's clock skew is unknown.
    pub fn from_saved_reply(
        status: ReplyStatus,
        reason: Option<&ReplyReason>,
        message: NodeText,
        data: Map<String, Value>,
    ) -> Self {
        Self::from_outputs(status, reason, message, data, 0)
    }

    fn from_outputs(
        status: ReplyStatus,
        reason: Option<&ReplyReason>,
        message: NodeText,
        data: Map<String, Value>,
        skew: i64,
    ) -> Self {
        let ok = status == ReplyStatus::Ok;
        let output: PuppetRunOutcome = read_values(&data).unwrap_or_default();
        Self {
            ok,
            class: outcome_class(status, reason, &output),
            attached: output.attached,
            permit_interval: permit_interval(&output, skew),
            pool_highest: output.pool_highest.and_then(|highest| usize::try_from(highest).ok()),
            message: outcome_message(ok, output).unwrap_or(message),
            data,
            skew,
        }
    }

    /// Outcome for a node that does not report whether it may run: it is not connected, or does not reply.
    pub fn state_unknown(absent: bool) -> Self {
        if absent {
            Self::without_reply(NOT_CONNECTED, "not connected")
        } else {
            Self::without_reply(NO_ANSWER, "the node did not report whether it may run")
        }
    }

    /// Outcome without a reply.
    pub fn without_reply(class: &'static str, message: impl Into<NodeText>) -> Self {
        Self {
            ok: false,
            class: class.to_owned(),
            message: message.into(),
            data: Map::new(),
            attached: false,
            permit_interval: None,
            pool_highest: None,
            skew: 0,
        }
    }

    /// Whether the node replied.
    pub fn is_heard(&self) -> bool {
        !UNHEARD_CLASSES.contains(&self.class.as_str())
    }

    /// Whether the broker reports no subscriber for the node.
    pub fn is_absent(&self) -> bool {
        self.class == NOT_CONNECTED
    }

    /// Whether the node's times were converted to the local clock.
    pub fn is_skewed(&self) -> bool {
        self.skew != 0
    }
}

fn clock_difference(node_time: Millis, local_time: Millis) -> i64 {
    let difference = i64::try_from(node_time.abs_diff(local_time)).unwrap_or(i64::MAX);
    if node_time < local_time { -difference } else { difference }
}

/// The interval of the permit; a node with a wrong clock is corrected by `skew`.
fn permit_interval(output: &PuppetRunOutcome, skew: i64) -> Option<PermitInterval> {
    let start = output.started_at?.saturating_add_signed(-skew);
    let end = output.finished_at?.saturating_add_signed(-skew);
    (start > 0 && end >= start).then_some(PermitInterval { start, end })
}

/// The class of a reply: the run's own class, or the reason that no run took place.
fn outcome_class(
    status: ReplyStatus,
    reason: Option<&ReplyReason>,
    output: &PuppetRunOutcome,
) -> String {
    let class = output.class.as_ref().map(PuppetRunClass::as_str);
    let is_plain = |word: &&str| {
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'_' | b'+');
        !word.is_empty() && word.len() <= MAX_CLASS_BYTES && word.bytes().all(is_allowed)
    };
    if let Some(word) = class.filter(is_plain) {
        return word.to_owned();
    }
    if status != ReplyStatus::Ok && !output.state.is_over() {
        return UNFINISHED.to_owned();
    }
    let word = reason.map_or(
        match status {
            ReplyStatus::Ok => PuppetRunClass::Clean.as_str(),
            ReplyStatus::Failed => PuppetRunClass::Failed.as_str(),
            ReplyStatus::UnknownAction => "no_agent",
            ReplyStatus::MissingData | ReplyStatus::InvalidData => "refused",
            ReplyStatus::Other => "broken",
        },
        ReplyReason::as_str,
    );
    word.to_owned()
}

/// The node's message: the error or the summary.
fn outcome_message(ok: bool, output: PuppetRunOutcome) -> Option<NodeText> {
    let error = output.error.filter(|_| !ok).into_iter();
    error.chain(output.summary).find(|text| !text.is_empty()).map(NodeText::from)
}

#[cfg(test)]
mod tests {
    use muster_wire::reply::Reply;
    use serde_json::{Value, json};

    use super::{NO_ANSWER, RunOutcome};
    use crate::runs::PermitInterval;

    fn reply(code: u8, reason: &Value, data: &Value) -> Reply {
        let reply = json!({
            "request": "01890a5d-ac96-774b-bcce-b302099a8057", "sender": "web1", "agent": "puppet", "action": "runonce",
            "statuscode": code, "statusmsg": "as it was", "reason": reason, "data": data, "time": 100_000,
        });
        serde_json::from_value(reply).unwrap()
    }

    #[test]
    fn every_kind_of_reply_has_its_outcome_class() {
        let none = Value::Null;
        for (code, reason, data, ok, class, said) in [
            (
                0,
                none.clone(),
                json!({"class": "changed", "summary": "changed 2"}),
                true,
                "changed",
                "changed 2",
            ),
            (
                1,
                none.clone(),
                json!({"class": "disabled", "error": "hand hacking"}),
                false,
                "disabled",
                "hand hacking",
            ),
            (
                1,
                none.clone(),
                json!({"class": "compile_failed"}),
                false,
                "compile_failed",
                "as it was",
            ),
            (
                1,
                none.clone(),
                json!({"class": "\u{1b}[2J", "error": ""}),
                false,
                "failed",
                "as it was",
            ),
            (
                5,
                json!({"kind": "denied", "rule": "default"}),
                json!({}),
                false,
                "denied",
                "as it was",
            ),
            (
                1,
                none.clone(),
                json!({"state": "applying", "class": null}),
                false,
                "unfinished",
                "as it was",
            ),
            (2, none.clone(), json!({}), false, "no_agent", "as it was"),
            (4, none.clone(), json!({}), false, "refused", "as it was"),
            (5, none, json!({}), false, "broken", "as it was"),
        ] {
            let outcome = RunOutcome::from_reply(&reply(code, &reason, &data), 100_000);
            assert_eq!(
                (outcome.ok, outcome.class.as_str(), outcome.message.raw()),
                (ok, class, said)
            );
            assert!(outcome.is_heard());
        }
        assert!(!RunOutcome::without_reply(NO_ANSWER, "silent for 60 s").is_heard());
    }

    #[test]
    fn started_run_has_an_interval_corrected_for_clock_skew() {
        let data = json!({"class": "clean", "started_at": 40_000, "finished_at": 90_000});
        let at = |now| RunOutcome::from_reply(&reply(0, &Value::Null, &data), now);
        let span = |start, end| Some(PermitInterval { start, end });
        assert_eq!(at(100_900).permit_interval, span(40_000, 90_000));
        let late = at(130_000);
        assert!(late.is_skewed());
        assert_eq!(late.permit_interval, span(70_000, 120_000));
        let never = json!({"class": "locked", "started_at": null});
        assert_eq!(
            RunOutcome::from_reply(&reply(1, &Value::Null, &never), 100_000).permit_interval,
            None
        );
        let backwards = json!({"started_at": 5, "finished_at": 4});
        assert_eq!(
            RunOutcome::from_reply(&reply(0, &Value::Null, &backwards), 100_000).permit_interval,
            None
        );
    }
}
