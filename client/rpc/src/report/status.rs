//! Words for the outcome of a reply, and counts of failures by them.

use std::collections::BTreeMap;

use muster_client::NodeReply;
use muster_wire::status::{ReplyReason, ReplyStatus};

/// The outcome in one or two words: the reason, or the status if a failure has none.
pub fn outcome_words(status: ReplyStatus, reason: Option<&ReplyReason>) -> &'static str {
    match reason {
        Some(ReplyReason::Timeout { .. }) => "Timed out",
        Some(ReplyReason::Busy { .. }) => "Busy",
        Some(ReplyReason::Denied { .. }) => "Denied",
        Some(ReplyReason::Expired { .. }) => "Expired",
        Some(ReplyReason::Oversized { .. }) => "Too large",
        Some(ReplyReason::NotMatched) => "Not matched",
        Some(ReplyReason::Cancelled) => "Cancelled",
        Some(ReplyReason::Broken) => "Agent error",
        Some(ReplyReason::Stopping) => "Daemon stopping",
        Some(ReplyReason::Lost) => "Lost",
        None => match status {
            ReplyStatus::Ok => "OK",
            ReplyStatus::Failed => "Failed",
            ReplyStatus::UnknownAction => "Unknown action",
            ReplyStatus::MissingData => "Missing data",
            ReplyStatus::InvalidData => "Invalid data",
            ReplyStatus::Other => "Error",
        },
    }
}

/// The outcome in words, and the message of a failure.
pub fn outcome_text(status: ReplyStatus, reason: Option<&ReplyReason>, message: &str) -> String {
    match (status, outcome_words(status, reason)) {
        (ReplyStatus::Ok, words) => words.to_owned(),
        (_, words) => format!("{words}: {message}"),
    }
}

/// The failures by outcome, the most frequent first: `3 denied, 1 timed out`. Plain failures are not listed if there are no others.
pub fn count_failures(replies: &[NodeReply]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reply in replies.iter().filter(|reply| !reply.is_ok()) {
        *counts.entry(outcome_words(reply.status, reply.reason.as_ref())).or_default() += 1;
    }
    if counts.keys().all(|words| *words == "Failed") {
        return String::new();
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    // The sort is stable, so equal counts stay in alphabetical order.
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let parts = counts.iter().map(|(words, count)| match *words {
        "Failed" => format!("{count} action failed"),
        words => format!("{count} {}", words.to_lowercase()),
    });
    parts.collect::<Vec<_>>().join(", ")
}
