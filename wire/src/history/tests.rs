//! Records of other versions, and records that are too large.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{HistoryEvent, HistoryRecord, compress_records, decompress_records};
use crate::limits::{MAX_HISTORY_RECORD_BYTES, MAX_HISTORY_TEXT_BYTES};

#[test]
fn unknown_kinds_and_fields_are_accepted() {
    let text = json!({"seq": 1, "time": 2, "kind": "measured", "run": "x", "values": [1]});
    let record: HistoryRecord = serde_json::from_value(text).unwrap();
    assert_eq!(
        record,
        HistoryRecord { seq: 1, time: 2, number: None, event: HistoryEvent::Unknown }
    );
    let run = Uuid::nil();
    let text = json!({"seq": 1, "time": 2, "kind": "aborted", "run": run, "reason": "x", "new": 1});
    let record: HistoryRecord = serde_json::from_value(text).unwrap();
    assert_eq!(record.event, HistoryEvent::Aborted { run, reason: "x".to_owned() });
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(Value::from),
        // Not compressible, and longer as JSON.
        prop::collection::vec(any::<char>(), 0..3000)
            .prop_map(|text| String::from_iter(text).into()),
    ];
    leaf.prop_recursive(3, 60, 30, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..30).prop_map(Value::Array),
            prop::collection::btree_map(".{0,90}", inner, 0..30)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_event_fits_into_a_message(map in prop::collection::btree_map(".{0,90}", values(), 0..40)) {
        let log: Map<String, Value> = map.into_iter().collect();
        let event = HistoryEvent::Log { run: Uuid::nil(), log }.shortened();
        let record = HistoryRecord { seq: u64::MAX, time: u64::MAX, number: Some(u64::MAX), event };
        let bytes = serde_json::to_vec(&record).unwrap().len();
        prop_assert!(bytes <= MAX_HISTORY_RECORD_BYTES, "{bytes}");
        let records = vec![record; 3];
        let (text, count) = compress_records(&records).unwrap();
        prop_assert!(text.len() <= MAX_HISTORY_TEXT_BYTES && count >= 1, "{} {count}", text.len());
        prop_assert_eq!(decompress_records(&text).unwrap(), &records[..count]);
    }
}
