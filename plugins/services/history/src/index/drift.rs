//! What the last run of each node would have changed, and since when.

use std::collections::BTreeMap;

use muster_contract::history::{HistoryDriftRow, HistoryKind, MAX_DRIFT_NODES};
use muster_wire::identity::Identity;
use rusqlite::params;
use serde_json::Value;

use super::database::HistoryIndex;
use super::error::IndexError;
use super::row::kind_number;

/// Differences that are folded, of all nodes together.
const MAX_DIFFERENCES: i64 = 100_000;

/// The difference of a property: resource, property, value and wanted value, message.
type Difference = [Option<String>; 5];

/// Differences, and whether there are more than were read.
#[derive(Debug)]
pub struct Drift {
    pub rows: Vec<HistoryDriftRow>,
    pub is_cut: bool,
}

impl HistoryIndex {
    /// The differences that the last complete run of each node reported and did not correct; those of most nodes first. `nodes`: only of these.
    ///
    /// A difference exists since the first run that reported it after the resource was last changed by a run.
    pub fn drift(&self, nodes: Option<&[Identity]>) -> Result<Drift, IndexError> {
        let names = nodes.map(|nodes| {
            Value::from(nodes.iter().map(Identity::as_str).collect::<Vec<_>>()).to_string()
        });
        let reader = self.read();
        let mut select = reader.prepare_cached(
            "SELECT node.name, found.resource, found.property, found.before, found.after, found.message, (
                 SELECT min(time) FROM happened AS same
                 WHERE same.node = found.node AND same.resource = found.resource AND same.property IS found.property
                     AND same.status = 'noop' AND same.time > coalesce((
                         SELECT max(time) FROM happened AS changed
                         WHERE changed.node = found.node AND changed.resource = found.resource AND changed.status = 'success'
                     ), 0)
             )
             FROM node JOIN happened AS found ON found.run = (
                 SELECT id FROM run WHERE run.node = node.id AND ended IS NOT NULL AND status <> 'aborted'
                 ORDER BY started DESC LIMIT 1
             )
             WHERE found.kind = ?1 AND found.status = 'noop' AND found.resource IS NOT NULL
                 AND (?2 IS NULL OR node.name IN (SELECT value FROM json_each(?2)))
             ORDER BY node.name LIMIT ?3",
        )?;
        let values = params![kind_number(HistoryKind::Change), names, MAX_DIFFERENCES];
        let found = select.query_map(values, |row| {
            let difference: Difference =
                [row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?];
            let since: Option<u64> = row.get(6)?;
            Ok((row.get::<_, String>(0)?, difference, since.unwrap_or_default()))
        })?;
        let mut folded: BTreeMap<Difference, HistoryDriftRow> = BTreeMap::new();
        let mut count = 0;
        for difference in found {
            let (node, difference, since) = difference?;
            count += 1;
            let row =
                folded.entry(difference.clone()).or_insert_with(|| new_row(difference, since));
            row.count += 1;
            row.since = row.since.min(since);
            if row.nodes.len() < MAX_DRIFT_NODES {
                row.nodes.push(node);
            }
        }
        let mut rows: Vec<HistoryDriftRow> = folded.into_values().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.count));
        Ok(Drift { rows, is_cut: count >= MAX_DIFFERENCES })
    }
}

fn new_row(difference: Difference, since: u64) -> HistoryDriftRow {
    let [resource, property, before, after, message] = difference.map(|text| text.map(Into::into));
    HistoryDriftRow {
        resource: resource.unwrap_or_default(),
        property,
        before,
        after,
        message,
        since,
        ..HistoryDriftRow::default()
    }
}
