//! Two runs side by side: every difference has a place, and the two values that are there.

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
        write!(
            f,
            "{}\n    puppet: {}\n    found:  {}",
            self.place, self.expected, self.found
        )
    }
}

/// All differences, run by run.
pub(crate) fn differences(expected: &[Run], found: &[Run]) -> Vec<Difference> {
    let mut all = Vec::new();
    assert_eq!(expected.len(), found.len(), "another number of runs");
    for (number, (expected, found)) in expected.iter().zip(found).enumerate() {
        let json = |run| serde_json::to_value(run).unwrap();
        walk(
            &format!("run {}: ", number + 1),
            &json(expected),
            &json(found),
            &mut all,
        );
    }
    all
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
