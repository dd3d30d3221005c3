//! Renders fleet events: one line each, for people or as JSON.

use muster_base::{NodeText, format_rfc3339};
use muster_display::printer::{BAD, STRONG};
use muster_display::time::format_time_millis;
use muster_wire::event::FleetEvent;
use serde::Serialize;
use serde_json::{Map, Value};

/// Renders an event as a line: time, node, kind and text.
pub fn render_event(event: &FleetEvent) -> String {
    let time = format_time_millis(event.time);
    let (node, kind, text) = (&event.sender, &event.kind, event.text.block());
    let kind = kind.as_str();
    let bad_ends = ["_failed", "_timeout", "_problem", "_flapping_start"];
    let is_bad = bad_ends.iter().any(|end| kind.ends_with(end));
    let style = if is_bad { BAD } else { STRONG };
    format!("{time}  {node}  {style}{kind}{style:#}  {text}")
}

/// An event as a line of JSON.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct EventLine<'a> {
    schema: &'static str,
    id: String,
    sender: &'a str,
    kind: &'a str,
    text: &'a NodeText,
    time_utc: String,
    // Details, which the kind defines.
    data: &'a Map<String, Value>,
}

impl<'a> EventLine<'a> {
    pub fn new(event: &'a FleetEvent) -> Self {
        Self {
            schema: "muster.event.line.v1",
            id: event.id.to_string(),
            sender: event.sender.as_str(),
            kind: event.kind.as_str(),
            text: &event.text,
            time_utc: format_rfc3339(event.time),
            data: &event.data,
        }
    }
}
