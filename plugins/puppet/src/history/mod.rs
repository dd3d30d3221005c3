//! Records runs in the fleet's history.
//!
//! [`engine_run`]: runs of the engine. `puppet_run`: runs of Puppet that the agent follows. `other_run`: reports of runs that were started outside.

mod engine_run;
mod other_run;
mod puppet_run;

pub use engine_run::EngineRunRecorder;
pub(crate) use other_run::OtherRunRecorder;
pub(crate) use puppet_run::{PuppetRunRecorder, start_values};

use muster_api::wire::history::HistoryEvent;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::files::report::PuppetRunReport;

/// Values of a report that have events of their own.
const SEPARATE_VALUES: [&str; 2] = ["logs", "resource_statuses"];

/// The event that ends a run, with what the report says of the whole run.
fn end_event(run: Uuid, mut report: Map<String, Value>) -> HistoryEvent {
    report.retain(|name, _| !SEPARATE_VALUES.contains(&name.as_str()));
    HistoryEvent::End { run, report }
}

/// The events of the resources in a report.
fn resource_events(run: Uuid, report: &PuppetRunReport) -> impl Iterator<Item = HistoryEvent> {
    let statuses = report.values().get("resource_statuses").and_then(Value::as_object);
    let statuses = statuses.into_iter().flatten().filter_map(|(_, status)| status.as_object());
    statuses.map(move |status| HistoryEvent::Resource { run, status: status.clone() })
}
