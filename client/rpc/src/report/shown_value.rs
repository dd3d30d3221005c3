//! The form of a node's value in text for people: sentences instead of lists of events and of scheduled checks, and times instead of numbers.
//! Documents for programs have the values themselves.

use std::borrow::Cow;

use muster_contract::nrpe::ScheduledCheckRow;
use muster_ddl::OutputSchema;
use muster_display::time::{format_time, format_time_millis};
use muster_display::value::event_sentences;
use serde_json::Value;

/// The value of an output, or of a value without a declared output, as text for people shows it.
pub fn shown_value<'a>(
    output: Option<&OutputSchema>,
    value: &'a Value,
    is_verbose: bool,
) -> Cow<'a, Value> {
    if let Some(time) = output.and_then(|output| time_text(&output.description, value)) {
        return Cow::Owned(time.into());
    }
    let sentences = event_sentences(value).or_else(|| check_sentences(value));
    match sentences.filter(|_| !is_verbose) {
        Some(sentences) => Cow::Owned(sentences),
        None => Cow::Borrowed(value),
    }
}

/// The time that a number means whose description names the unit. Zero stands for no time.
fn time_text(description: &str, value: &Value) -> Option<String> {
    let number = value.as_u64().filter(|number| *number > 0)?;
    if description.contains("in milliseconds since the epoch") {
        Some(format_time_millis(number))
    } else if description.contains("in seconds since the epoch") {
        Some(format_time(number))
    } else {
        None
    }
}

/// The sentences of a list of scheduled checks; `None` for any other value.
fn check_sentences(value: &Value) -> Option<Value> {
    let rows = value.as_array().filter(|rows| !rows.is_empty())?;
    rows.iter().map(check_sentence).collect()
}

fn check_sentence(row: &Value) -> Option<Value> {
    let is_check = ["check", "state_type", "max_attempts"].iter().all(|key| row.get(key).is_some());
    let row: ScheduledCheckRow = serde_json::from_value(row.clone()).ok().filter(|_| is_check)?;
    let mut sentence = match (row.state, row.since) {
        (None, _) => format!("{} has no hard state yet", row.check),
        (Some(state), None) => format!("{} is {}", row.check, state.as_str()),
        (Some(state), Some(since)) => {
            format!("{} is {} since {}", row.check, state.as_str(), format_time_millis(since))
        }
    };
    if let Some(current) = row.current.filter(|current| Some(*current) != row.state) {
        sentence.extend([", ", current.as_str(), " in the last result"]);
    }
    if let Some(acknowledgement) = &row.acknowledgement {
        let until = match acknowledgement.until {
            Some(until) => format!("until {}", format_time_millis(until)),
            None => "until it is OK".to_owned(),
        };
        let by = (&acknowledgement.author, &acknowledgement.comment);
        sentence += &describe_change("acknowledged", by, &until);
    }
    if let Some(window) = &row.maintenance {
        let until = format!("until {}", format_time_millis(window.until));
        sentence += &describe_change("in maintenance", (&window.author, &window.comment), &until);
    }
    if !row.output.is_empty() {
        sentence.extend([": ", row.output.as_str()]);
    }
    Some(sentence.into())
}

fn describe_change(what: &str, (author, comment): (&String, &String), until: &str) -> String {
    let comment = if comment.is_empty() { String::new() } else { format!(" ({comment})") };
    format!("; {what} by {author}{comment} {until}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{check_sentences, time_text};

    #[test]
    fn numbers_are_times_if_their_description_says_so() {
        let text = |description: &str, value| time_text(description, &value);
        let time = Some("1970-01-01 00:01:00Z".to_owned());
        assert_eq!(text("Expiry, in seconds since the epoch; 0 if none", json!(60)), time);
        assert_eq!(text("Start, in milliseconds since the epoch", json!(60_000)), time);
        assert_eq!(text("Expiry, in seconds since the epoch", json!(0)), None);
        assert_eq!(text("Age in seconds", json!(60)), None);
        assert_eq!(text("In seconds since the epoch", json!("60")), None);
    }

    #[test]
    fn scheduled_checks_are_sentences() {
        let row = json!({
            "check": "load", "state": "critical", "since": 60_000, "current": "critical", "state_type": "hard", "attempt": 3, "max_attempts": 3,
            "output": "CRITICAL - load 20", "acknowledgement": {"author": "anna", "comment": "backup runs", "time": 60_000, "until": 120_000},
            "maintenance": {"author": "rip", "comment": "", "time": 60_000, "until": 180_000},
        });
        let sentence = "load is CRITICAL since 1970-01-01 00:01:00Z; acknowledged by anna (backup runs) until 1970-01-01 00:02:00Z; \
                        in maintenance by rip until 1970-01-01 00:03:00Z: CRITICAL - load 20";
        assert_eq!(check_sentences(&json!([row])), Some(json!([sentence])));
        let fresh = json!({"check": "disk", "state_type": "soft", "max_attempts": 3});
        assert_eq!(check_sentences(&json!([fresh])), Some(json!(["disk has no hard state yet"])));
        for other in [json!([]), json!([{"check": "load"}]), json!("load"), json!([1])] {
            assert_eq!(check_sentences(&other), None, "{other}");
        }
    }
}
