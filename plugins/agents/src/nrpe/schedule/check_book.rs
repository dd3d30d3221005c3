//! What is kept of all checks of a node: their states, the node's maintenance, and events that the broker does not have yet. Pure.

use std::collections::{BTreeMap, VecDeque};

use muster_api::wire::Millis;
use muster_contract::nrpe::{CHECK_REMOVED_EVENT, CheckEventData, CheckState, MaintenanceWindow};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::check_record::{CheckRecord, CheckResult, CheckRules, CheckTransition};

/// Most events that wait for the broker; the oldest ones are dropped.
const MAX_EVENTS: usize = 1000;
/// Time for which the state of a check is kept that no schedule has.
const UNSCHEDULED_MILLIS: Millis = 7 * 24 * 60 * 60 * 1000;
/// Most characters of an output or performance data in the book.
const MAX_OUTPUT_CHARS: usize = 2048;
/// Most characters of an output or performance data in an event.
const MAX_EVENT_OUTPUT_CHARS: usize = 1024;

/// An event of a check that was not published yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCheckEvent {
    pub id: Uuid,
    /// Its kind: `check_problem`, `check_recovery`, ...
    pub kind: String,
    /// When it happened, in milliseconds since the epoch.
    pub time: Millis,
    /// What happened, in a sentence.
    pub text: String,
    pub data: CheckEventData,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CheckBook {
    pub(crate) records: BTreeMap<String, CheckRecord>,
    pub(crate) maintenance: Option<MaintenanceWindow>,
    pub(crate) events: VecDeque<StoredCheckEvent>,
    /// Events that were dropped, because too many waited.
    pub(crate) dropped_events: u64,
}

impl CheckBook {
    pub(crate) fn is_node_in_maintenance(&self, now: Millis) -> bool {
        self.maintenance.as_ref().is_some_and(|window| now < window.until)
    }

    pub(crate) fn add_result(&mut self, check: &str, mut result: CheckResult, rules: &CheckRules) {
        result.output = shorten_text(&result.output, MAX_OUTPUT_CHARS);
        result.perfdata = shorten_text(&result.perfdata, MAX_OUTPUT_CHARS);
        let (now, quiet) = (result.finished, self.is_node_in_maintenance(result.finished));
        let record = self.records.entry(check.to_owned()).or_default();
        let transitions = record.add_result(result, rules, quiet);
        self.add_events(check, transitions, now);
    }

    /// Changes the record of a check, if it is known. Returns whether anything has changed.
    pub(crate) fn change(
        &mut self,
        check: &str,
        now: Millis,
        change: impl FnOnce(&mut CheckRecord, bool) -> Vec<CheckTransition>,
    ) -> bool {
        let quiet = self.is_node_in_maintenance(now);
        let Some(record) = self.records.get_mut(check) else { return false };
        let transitions = change(record, quiet);
        let is_changed = !transitions.is_empty();
        self.add_events(check, transitions, now);
        is_changed
    }

    pub(crate) fn begin_maintenance(&mut self, window: MaintenanceWindow, now: Millis) {
        self.maintenance = Some(window.clone());
        self.push_event(None, &CheckTransition::MaintenanceStart(window), now);
    }

    /// Ends the maintenance of the whole node. Returns whether there was one.
    pub(crate) fn end_maintenance(&mut self, author: Option<String>, now: Millis) -> bool {
        if self.maintenance.take().is_none() {
            return false;
        }
        self.push_event(None, &CheckTransition::MaintenanceEnd(author), now);
        self.expire(now);
        true
    }

    /// Notes which checks this node has; a check that it no longer has is not planned any more. Returns whether one was removed.
    pub(crate) fn keep_scheduled(
        &mut self,
        is_scheduled: impl Fn(&str) -> bool,
        now: Millis,
    ) -> bool {
        let mut removed = Vec::new();
        for (name, record) in &mut self.records {
            if is_scheduled(name) {
                continue;
            }
            record.next_check = None;
            if record.unscheduled_since.is_none() {
                record.unscheduled_since = Some(now);
                removed.push(name.clone());
            }
        }
        for name in &removed {
            self.push_event(Some(name), &CheckTransition::Removed, now);
        }
        !removed.is_empty()
    }

    /// Ends what has an end, and forgets checks that no schedule has had for long. Returns whether anything has changed.
    pub(crate) fn expire(&mut self, now: Millis) -> bool {
        let before = (self.events.len(), self.dropped_events, self.records.len());
        if self.maintenance.as_ref().is_some_and(|window| now >= window.until) {
            self.end_maintenance(None, now);
        }
        self.records.retain(|_, record| {
            record
                .unscheduled_since
                .is_none_or(|since| now < since.saturating_add(UNSCHEDULED_MILLIS))
        });
        let quiet = self.is_node_in_maintenance(now);
        let mut all = Vec::new();
        for (name, record) in &mut self.records {
            if record.unscheduled_since.is_none() {
                all.push((name.clone(), record.expire(now, quiet)));
            }
        }
        for (name, transitions) in all {
            self.add_events(&name, transitions, now);
        }
        before != (self.events.len(), self.dropped_events, self.records.len())
    }

    /// Removes events that the broker has.
    pub(crate) fn confirm_events(&mut self, published: &[Uuid]) -> bool {
        let before = self.events.len();
        self.events.retain(|event| !published.contains(&event.id));
        before != self.events.len()
    }

    fn add_events(&mut self, check: &str, transitions: Vec<CheckTransition>, now: Millis) {
        for transition in transitions {
            self.push_event(Some(check), &transition, now);
        }
    }

    fn push_event(&mut self, check: Option<&str>, transition: &CheckTransition, now: Millis) {
        let record = check.and_then(|check| self.records.get(check));
        let event = describe_event(check, record, transition, now);
        self.events.push_back(event);
        while self.events.len() > MAX_EVENTS {
            self.events.pop_front();
            self.dropped_events = self.dropped_events.saturating_add(1);
        }
    }
}

fn describe_event(
    check: Option<&str>,
    record: Option<&CheckRecord>,
    transition: &CheckTransition,
    now: Millis,
) -> StoredCheckEvent {
    let mut data = CheckEventData { check: check.map(str::to_owned), ..CheckEventData::default() };
    if let Some(record) = record {
        data.state = record.hard;
        data.output = shorten_text(&record.output, MAX_EVENT_OUTPUT_CHARS);
        data.perfdata = shorten_text(&record.perfdata, MAX_EVENT_OUTPUT_CHARS);
        data.flapping = record.flaps.is_flapping();
        data.acknowledged = record.acknowledgement.is_some();
    }
    let state = data.state.map_or("NOT CHECKED", CheckState::as_str);
    let by = |author: &Option<String>, otherwise: &str| {
        author.as_ref().map_or_else(|| otherwise.to_owned(), |author| format!("by {author}"))
    };
    let (kind, what) = match transition {
        CheckTransition::Problem(before) => {
            data.previous = Some(*before);
            let output = &data.output;
            ("check_problem", format!("{state} (was {}): {output}", before.as_str()))
        }
        CheckTransition::Recovery(before) => {
            data.previous = Some(*before);
            let output = &data.output;
            ("check_recovery", format!("{state} (was {}): {output}", before.as_str()))
        }
        CheckTransition::FlappingStart => {
            ("check_flapping_start", format!("flapping started; the state is {state}"))
        }
        CheckTransition::FlappingEnd => {
            ("check_flapping_end", format!("flapping stopped; the state is {state}"))
        }
        CheckTransition::Acknowledged(acknowledgement) => {
            data.author = Some(acknowledgement.author.clone());
            data.comment = Some(acknowledgement.comment.clone());
            data.until = acknowledgement.until;
            let (author, comment) = (&acknowledgement.author, &acknowledgement.comment);
            ("check_acknowledged", format!("{state} acknowledged by {author}: {comment}"))
        }
        CheckTransition::Unacknowledged(author) => {
            data.author.clone_from(author);
            let by = by(author, "because its time has passed");
            ("check_unacknowledged", format!("{state}, acknowledgement removed {by}"))
        }
        CheckTransition::MaintenanceStart(window) => {
            data.author = Some(window.author.clone());
            data.comment = Some(window.comment.clone()).filter(|comment| !comment.is_empty());
            data.until = Some(window.until);
            let until = muster_api::base::format_utc(window.until / 1000);
            (
                "check_maintenance_start",
                format!("in maintenance until {until} by {}", window.author),
            )
        }
        CheckTransition::MaintenanceEnd(author) => {
            data.author.clone_from(author);
            let by = by(author, "because its time has passed");
            ("check_maintenance_end", format!("maintenance ended {by}"))
        }
        CheckTransition::Removed => {
            (CHECK_REMOVED_EVENT, format!("no longer scheduled on this node; it was {state}"))
        }
    };
    let subject = check.unwrap_or("all checks");
    let text = format!("{subject}: {what}");
    StoredCheckEvent { id: Uuid::now_v7(), kind: kind.to_owned(), time: now, text, data }
}

fn shorten_text(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use muster_contract::nrpe::{CheckState, MaintenanceWindow};

    use super::{CheckBook, MAX_EVENTS, UNSCHEDULED_MILLIS};
    use crate::nrpe::schedule::check_record::{CheckResult, CheckRules};
    use crate::nrpe::schedule::timing::CheckTiming;

    fn add(book: &mut CheckBook, state: CheckState, at: u64) {
        let timing = CheckTiming {
            interval_millis: 1000,
            retry_millis: 1000,
            phase_millis: 0,
            is_splayed: true,
        };
        let rules = CheckRules { timing, max_attempts: 1, flapping: None };
        let (output, perfdata) = ("x".repeat(5000), "a=1".to_owned());
        let result = CheckResult { state, output, perfdata, started: at, finished: at };
        book.add_result("load", result, &rules);
    }

    fn kinds(book: &CheckBook) -> Vec<&str> {
        book.events.iter().map(|event| event.kind.as_str()).collect()
    }

    #[test]
    fn events_wait_until_they_are_confirmed_and_their_number_is_bounded() {
        let mut book = CheckBook::default();
        for number in 0..1010 {
            let state = if number % 2 == 0 { CheckState::Critical } else { CheckState::Ok };
            add(&mut book, state, number);
        }
        assert_eq!((book.events.len(), book.dropped_events), (MAX_EVENTS, 10));
        assert!(book.events.iter().all(|event| event.data.output.len() == 1024));
        let ids: Vec<_> = book.events.iter().map(|event| event.id).collect();
        assert!(book.confirm_events(&ids[..999]) && !book.confirm_events(&ids[..999]));
        assert_eq!(kinds(&book), ["check_recovery"]);
    }

    #[test]
    fn maintenance_of_the_node_holds_problems_back_until_its_end() {
        let mut book = CheckBook::default();
        let window = MaintenanceWindow {
            author: "rip".into(),
            comment: String::new(),
            time: 0,
            until: 1000,
        };
        book.begin_maintenance(window, 0);
        add(&mut book, CheckState::Critical, 10);
        assert!(!book.expire(999) && book.expire(1000) && !book.expire(1001));
        assert_eq!(
            kinds(&book),
            ["check_maintenance_start", "check_maintenance_end", "check_problem"]
        );
        assert!(!book.end_maintenance(None, 1002));
    }

    #[test]
    fn state_of_a_check_without_a_schedule_is_forgotten_after_a_week() {
        let mut book = CheckBook::default();
        add(&mut book, CheckState::Ok, 10);
        if let Some(record) = book.records.get_mut("load") {
            record.unscheduled_since = Some(20);
        }
        assert!(!book.expire(19 + UNSCHEDULED_MILLIS) && book.records.len() == 1);
        assert!(book.expire(20 + UNSCHEDULED_MILLIS) && book.records.is_empty());
    }
}
