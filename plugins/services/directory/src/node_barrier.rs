//! What a node's record says of waits between nodes: the conditions that it waits for, and the end of its last run. Pure.

use std::sync::Arc;

use muster_contract::again::{MAX_WAITING_BARRIERS, WaitingBarrier};
use muster_filter::state::NodeFacts;
use muster_wire::Millis;
use serde::Deserialize as _;
use serde_json::Value;
use uuid::Uuid;

const MAX_FILTER_BYTES: usize = 4096;

/// A condition that a node waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeBarrier {
    /// Its id, which the release names.
    pub(crate) id: Uuid,
    /// The JSON form of the filter.
    pub(crate) filter: Arc<str>,
    /// Runs must have ended after this time.
    pub(crate) after: Millis,
}

/// What cannot be read is left out.
pub(crate) fn read_barriers(state: Option<&NodeFacts>) -> Vec<NodeBarrier> {
    let rows = state.and_then(|state| state.get("again")?.get("barriers")?.as_array());
    let rows = rows.into_iter().flatten().take(MAX_WAITING_BARRIERS);
    rows.filter_map(|row| {
        let WaitingBarrier { id, filter, after } = WaitingBarrier::deserialize(row).ok()?;
        let is_short = filter.len() <= MAX_FILTER_BYTES;
        is_short.then_some(())?;
        Some(NodeBarrier { id: Uuid::try_parse(&id).ok()?, filter: filter.into(), after })
    })
    .collect()
}

/// The end of a node's last run in its state; 0 if it never ran. Older versions state it in whole seconds.
pub(crate) fn read_run_end(state: Option<&NodeFacts>) -> Millis {
    let last_run = state.and_then(|state| state.get("puppet")?.get("last_run"));
    let number = |name: &str| last_run?.get(name).and_then(Value::as_u64);
    let seconds = || number("time").map(|time| time.saturating_mul(1000));
    number("ended").or_else(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn state_of_a_node_is_read_with_bounds() {
        let id = Uuid::from_u128(7).to_string();
        let row = |id: &str, filter: &str| json!({"id": id, "filter": filter, "after": 9});
        let long = "x".repeat(MAX_FILTER_BYTES + 1);
        let mut rows = vec![row(&id, "{}"), row("7", "{}"), row(&id, &long), json!({"id": id})];
        let state = |rows: &Vec<Value>| {
            NodeFacts::from_value(json!({"again": {"pending": true, "barriers": rows}})).unwrap()
        };
        let expected = NodeBarrier { id: Uuid::from_u128(7), filter: "{}".into(), after: 9 };
        assert_eq!(read_barriers(Some(&state(&rows))), [expected]);
        rows = vec![row(&id, "{}"); 40];
        assert_eq!(read_barriers(Some(&state(&rows))).len(), MAX_WAITING_BARRIERS);
        let other = NodeFacts::from_value(json!({"again": {"barriers": "x"}})).unwrap();
        assert_eq!(read_barriers(Some(&other)), []);
        assert_eq!(read_barriers(None), []);

        let end = |last_run: Value| {
            let state = json!({"puppet": {"last_run": last_run}});
            read_run_end(Some(&NodeFacts::from_value(state).unwrap()))
        };
        assert_eq!(end(json!({"time": 5, "ended": 5_250})), 5_250);
        assert_eq!(end(json!({"time": 5})), 5_000);
        assert_eq!((end(json!("x")), read_run_end(None)), (0, 0));
    }
}
