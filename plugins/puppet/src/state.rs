//! What the node's record says of Puppet: the values of the action `status`, and of the last run's summary.

use std::sync::Arc;

use muster_api::StateSource;
use muster_api::state::bounded_text;
use muster_api::system::System;
use serde_json::{Map, Value, json};

use crate::actions::status::{describe_activity, read_agent_activity};
use crate::files::summary::PuppetRunSummary;
use crate::runs::PuppetRunManager;

/// Counters of resources in `last_run`, each with its name in Puppet's summary.
const RESOURCE_COUNTERS: [(&str, &str); 5] = [
    ("total", "total"),
    ("changed", "changed"),
    ("out_of_sync", "out_of_sync"),
    ("corrected", "corrective_change"),
    ("skipped", "skipped"),
];

#[derive(Debug)]
pub(crate) struct PuppetStateSource(pub(crate) Arc<PuppetRunManager>);

impl StateSource for PuppetStateSource {
    fn name(&self) -> &'static str {
        "puppet"
    }

    fn read_state(&self, system: &dyn System) -> Option<Map<String, Value>> {
        let activity = read_agent_activity(&self.0, system).ok()?;
        let status = describe_activity(&self.0, system, &activity);
        let mut state = Map::from_iter([
            ("disabled".to_owned(), json!(!status.enabled)),
            ("applying".to_owned(), json!(status.applying)),
            ("daemon_present".to_owned(), json!(status.daemon_present)),
            ("status".to_owned(), json!(status.status)),
            ("engine".to_owned(), json!(status.engine)),
        ]);
        if !status.enabled {
            state.insert("disable_message".to_owned(), bounded_text(status.disable_message.raw()));
        }
        if let (Some(run), Some(class)) = (&activity.last_run, &status.last_class) {
            let mut last_run = describe_last_run(&run.summary, class);
            last_run.extend(run.ended.map(|ended| ("ended".to_owned(), json!(ended))));
            state.insert("last_run".to_owned(), Value::Object(last_run));
        }
        Some(state)
    }
}

/// The last run, with its time rather than its age.
fn describe_last_run(
    summary: &PuppetRunSummary,
    class: &impl serde::Serialize,
) -> Map<String, Value> {
    let mut run = Map::from_iter([
        ("class".to_owned(), json!(class)),
        ("failed".to_owned(), json!(summary.failure_count())),
        ("noop".to_owned(), json!(summary.noop_count())),
    ]);
    for (name, counter) in RESOURCE_COUNTERS {
        run.extend(summary.resource_count(counter).map(|count| (name.to_owned(), json!(count))));
    }
    run.extend(summary.last_run().map(|time| ("time".to_owned(), json!(time))));
    let mut insert_text = |name: &str, text: Option<String>| {
        run.extend(text.map(|text| (name.to_owned(), bounded_text(&text))));
    };
    insert_text("config_version", summary.config_version());
    insert_text("environment", summary.environment());
    run
}
