//! Compares two runs: each difference has a place and the two values.
//!
//! The reason of a failure is worded differently by each program, so only the part of a failure message before the
//! reason is compared.

use serde_json::Value;

use super::outcome::ScenarioRun;

/// A difference between two runs of one scenario.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    /// For example `run 2: outcome/resources/File[x]/events/0/message`.
    pub(crate) location: String,
    pub(crate) expected: Value,
    pub(crate) found: Value,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n    puppet: {}\n    found:  {}", self.location, self.expected, self.found)
    }
}

/// All differences, in the order of the runs.
pub(crate) fn find_differences(expected: &[ScenarioRun], found: &[ScenarioRun]) -> Vec<Difference> {
    let mut all = Vec::new();
    assert_eq!(expected.len(), found.len(), "the numbers of runs differ");
    for (number, (expected, found)) in expected.iter().zip(found).enumerate() {
        let json = |run: &ScenarioRun| serde_json::to_value(without_reasons(run)).unwrap();
        compare_values(&format!("run {}: ", number + 1), &json(expected), &json(found), &mut all);
    }
    all
}

/// Messages that are the same in both programs.
const FIXED_MESSAGES: [&str; 2] =
    ["resource is part of a dependency cycle", "Failed to call refresh"];

fn without_reasons(run: &ScenarioRun) -> ScenarioRun {
    let mut run = run.clone();
    let events = run.outcome.resources.values_mut().flat_map(|status| &mut status.events);
    for event in events.filter(|event| event.status == "failure") {
        let fixed = FIXED_MESSAGES.iter().find(|fixed| event.message.starts_with(**fixed));
        let end = event.message.find(" failed: ");
        event.message = match (fixed, end) {
            (Some(fixed), _) => (*fixed).to_owned(),
            (None, Some(end)) => event.message.split_at(end).0.to_owned(),
            (None, None) => String::new(),
        };
    }
    run
}

fn compare_values(location: &str, expected: &Value, found: &Value, all: &mut Vec<Difference>) {
    match (expected, found) {
        (Value::Object(one), Value::Object(other)) => {
            let names: std::collections::BTreeSet<&String> =
                one.keys().chain(other.keys()).collect();
            for name in names {
                let get = |map: &serde_json::Map<String, Value>| {
                    map.get(name).cloned().unwrap_or_default()
                };
                compare_values(&format!("{location}/{name}"), &get(one), &get(other), all);
            }
        }
        (Value::Array(one), Value::Array(other))
            if one.len() == other.len() && one.iter().any(Value::is_object) =>
        {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                compare_values(&format!("{location}/{index}"), one, other, all);
            }
        }
        _ if expected == found => {}
        _ => all.push(Difference {
            location: location.replace(": /", ": "),
            expected: expected.clone(),
            found: found.clone(),
        }),
    }
}
