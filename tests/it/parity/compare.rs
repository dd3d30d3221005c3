//! Two runs side by side: every difference has a place, and the two values that are there.
//!
//! Why something failed is told by each in its own words: of a failure's message only what comes before the reason is compared.

use serde_json::Value;

use super::outcome::Run;

/// Where two runs of one scenario part.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    /// `run 2: outcome/resources/File[x]/events/0/message`.
    pub(crate) place: String,
    pub(crate) expected: Value,
    pub(crate) found: Value,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n    puppet: {}\n    found:  {}", self.place, self.expected, self.found)
    }
}

/// All differences, run by run.
pub(crate) fn differences(expected: &[Run], found: &[Run]) -> Vec<Difference> {
    let mut all = Vec::new();
    assert_eq!(expected.len(), found.len(), "another number of runs");
    for (number, (expected, found)) in expected.iter().zip(found).enumerate() {
        let json = |run: &Run| serde_json::to_value(without_reasons(run)).unwrap();
        walk(&format!("run {}: ", number + 1), &json(expected), &json(found), &mut all);
    }
    all
}

/// What cannot be put into a sentence of one's own.
const FIXED: [&str; 2] = ["resource is part of a dependency cycle", "Failed to call refresh"];

fn without_reasons(run: &Run) -> Run {
    let mut run = run.clone();
    let events = run.outcome.resources.values_mut().flat_map(|status| &mut status.events);
    for event in events.filter(|event| event.status == "failure") {
        let fixed = FIXED.iter().find(|fixed| event.message.starts_with(**fixed));
        let end = event.message.find(" failed: ");
        event.message = match (fixed, end) {
            (Some(fixed), _) => (*fixed).to_owned(),
            (None, Some(end)) => event.message.split_at(end).0.to_owned(),
            (None, None) => String::new(),
        };
    }
    run
}

fn walk(place: &str, expected: &Value, found: &Value, all: &mut Vec<Difference>) {
    match (expected, found) {
        (Value::Object(one), Value::Object(other)) => {
            let names: std::collections::BTreeSet<&String> =
                one.keys().chain(other.keys()).collect();
            for name in names {
                let get = |map: &serde_json::Map<String, Value>| {
                    map.get(name).cloned().unwrap_or_default()
                };
                walk(&format!("{place}/{name}"), &get(one), &get(other), all);
            }
        }
        (Value::Array(one), Value::Array(other))
            if one.len() == other.len() && one.iter().any(Value::is_object) =>
        {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                walk(&format!("{place}/{index}"), one, other, all);
            }
        }
        _ if expected == found => {}
        _ => all.push(Difference {
            place: place.replace(": /", ": "),
            expected: expected.clone(),
            found: found.clone(),
        }),
    }
}
