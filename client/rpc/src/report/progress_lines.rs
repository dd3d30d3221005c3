//! Renders progress of nodes: one line per event, prefixed with the node's name.

use muster_calls::ProgressUpdate;
use muster_display::printable::escape_to_line;
use muster_display::printer::{HINT, WARNING};
use muster_display::value::compact_value;
use muster_display::{TextPage, count_text};
use serde_json::Value;

pub fn render_progress_update(update: &ProgressUpdate) -> String {
    let mut page = TextPage::default();
    let node = &update.node;
    if let Some(loss) = describe_lost_events(update) {
        page.push_line(format_args!("{HINT}{node}:{HINT:#} {WARNING}({loss}){WARNING:#}"));
    }
    for event in &update.events {
        let error = event.get("stream").and_then(Value::as_str) == Some("stderr");
        for row in event_text(event).lines() {
            let row = if error { format!("{WARNING}{row}{WARNING:#}") } else { row.to_owned() };
            page.push_line(format_args!("{HINT}{node}:{HINT:#} {row}"));
        }
    }
    page.into_text()
}

/// Formats an event: a program's output line, a sentence, or the event as JSON.
fn event_text(event: &Value) -> String {
    let text = |key: &str| event.get(key).and_then(Value::as_str);
    match (text("line"), text("message"), event) {
        (Some(""), _, _) => "\n".to_owned(),
        (Some(line), _, _) => escape_to_line(line).into_owned(),
        (None, Some(message), _) => message.to_owned(),
        (None, None, Value::String(text)) => text.clone(),
        (None, None, other) => compact_value(other),
    }
}

/// Describes the events that are missing before these.
pub fn describe_lost_events(update: &ProgressUpdate) -> Option<String> {
    match (update.lost, update.dropped) {
        (0, 0) => None,
        (0, dropped) => {
            let events = count_text(dropped, "event", "events");
            let verb = if dropped == 1 { "was" } else { "were" };
            Some(format!("{events} exceeded the send rate and {verb} dropped"))
        }
        (lost, 0) => Some(lost_messages(lost)),
        (lost, dropped) => {
            let events = count_text(dropped, "event was", "events were");
            Some(format!("{}, {events} dropped", lost_messages(lost)))
        }
    }
}

fn lost_messages(count: u64) -> String {
    count_text(count, "progress message was lost", "progress messages were lost")
}

#[cfg(test)]
mod tests {
    use muster_calls::ProgressUpdate;
    use serde_json::json;

    use super::render_progress_update;

    #[test]
    fn events_are_lines_prefixed_with_the_node() {
        let tale = ProgressUpdate {
            node: "dev1".parse().unwrap(),
            events: vec![
                json!({"stream": "stdout", "line": "copied\t3 of 7"}),
                json!({"stream": "stderr", "line": "\u{1b}[2Jboo"}),
                json!({"stream": "stdout", "line": ""}),
                json!({"message": "two\nlines"}),
                json!("bare"),
                json!({"percent": 7}),
            ],
            lost: 1,
            dropped: 2,
        };
        let text = render_progress_update(&tale);
        assert!(text.contains(&muster_display::printer::WARNING.to_string()));
        let plain = anstream::adapter::strip_str(&text).to_string();
        insta::assert_snapshot!(plain.trim_end(), @r#"
        dev1: (1 progress message was lost, 2 events were dropped)
        dev1: copied\t3 of 7
        dev1: \x1b[2Jboo
        dev1:
        dev1: two
        dev1: lines
        dev1: bare
        dev1: {"percent":7}
        "#);
    }
}
