//! Tests of changes: what is noted, how it is limited, and what differs between two times.

use muster_filter::state::NodeFacts;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::identity::SubjectName;

fn content(facts: &Value, classes: &[&str]) -> NodeContent {
    NodeContent {
        version: "1.0.0".to_owned(),
        collectives: vec![SubjectName::parse("muster").unwrap()],
        agents: [("puppet".to_owned(), "1.0.0".to_owned())].into(),
        classes: Some(classes.iter().map(|&class| class.to_owned()).collect()),
        facts: NodeFacts::from_value(facts.clone()).unwrap(),
        ..NodeContent::default()
    }
}

fn change(path: &str, before: Option<Value>, after: Option<Value>) -> ValueChange {
    ValueChange { path: path.to_owned(), before, after }
}

#[test]
fn change_names_each_value_with_its_path() {
    let before = content(&json!({"os": {"name": "Debian", "release": "12.5"}}), &["apache", "ntp"]);
    let mut after =
        content(&json!({"os": {"name": "Debian", "release": "12.6"}, "a.b": 1}), &["mysql", "ntp"]);
    after.version = "1.1.0".to_owned();
    after.agents = [("shell".to_owned(), "1.0.0".to_owned())].into();
    let mut history = NodeHistory::default();
    history.note(&before, &after, 7);
    let expected = [
        change("agents.puppet", Some(json!("1.0.0")), None),
        change("agents.shell", None, Some(json!("1.0.0"))),
        change("classes", Some(json!("apache")), None),
        change("classes", None, Some(json!("mysql"))),
        change("facts.\"a.b\"", None, Some(json!(1))),
        change("facts.os.release", Some(json!("12.5")), Some(json!("12.6"))),
        change("version", Some(json!("1.0.0")), Some(json!("1.1.0"))),
    ];
    assert_eq!(history.changes(), [NodeChange { time: 7, values: expected.into(), more: 0 }]);
    history.note(&after, &after, 8);
    assert_eq!(history.changes().len(), 1, "equal contents are no change");
}

#[test]
fn classes_that_are_unknown_are_no_change() {
    let known = content(&json!({}), &["ntp"]);
    let unknown = NodeContent { classes: None, ..known.clone() };
    let mut history = NodeHistory::default();
    history.note(&known, &unknown, 1);
    history.note(&unknown, &known, 2);
    assert_eq!(history, NodeHistory::default());
}

#[test]
fn value_that_came_back_is_no_difference() {
    let contents = ["a", "b", "a"].map(|value| content(&json!({ "fact": value }), &["ntp"]));
    let mut history = NodeHistory::default();
    history.note(&contents[0], &contents[1], 10);
    history.note(&contents[1], &contents[2], 20);
    assert_eq!(history.between(0, 20), []);
    assert_eq!(history.between(0, 19), [change("facts.fact", Some("a".into()), Some("b".into()))]);
    assert_eq!(history.between(10, 20), [change("facts.fact", Some("b".into()), Some("a".into()))]);
    assert_eq!(history.between(20, 99), []);
}

#[test]
fn history_has_limits() {
    let mut history = NodeHistory::default();
    for number in 0..MAX_CHANGES + 3 {
        let facts = |value: usize| content(&json!({ "fact": value }), &[]);
        history.note(&facts(number), &facts(number + 1), 100 + number as u64);
    }
    assert_eq!(history.changes().len(), MAX_CHANGES);
    assert_eq!(history.changes()[0].time, 103);
    assert!(history.reaches(103));
    assert!(!history.reaches(102), "the change at 102 was dropped");

    let many: serde_json::Map<String, Value> = (0..MAX_CHANGED_VALUES + 5)
        .map(|number| (format!("fact{number:03}"), Value::from("x".repeat(MAX_VALUE_BYTES))))
        .collect();
    let mut history = NodeHistory::default();
    history.note(&content(&json!({}), &[]), &content(&Value::Object(many), &[]), 1);
    let [noted] = history.changes() else { panic!("one change") };
    assert_eq!((noted.values.len(), noted.more), (MAX_CHANGED_VALUES, 5));
    assert_eq!(noted.values[0].after, Some(json!("(514 bytes)")));
}

/// Values that do not compress.
#[test]
fn oldest_changes_are_dropped_from_a_large_history() {
    let mut history = NodeHistory::default();
    let mut seed = 1_u64;
    let mut random_text = || {
        let word = |_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            format!("{:x}", seed.rotate_left(32))
        };
        (0..30).map(word).collect::<String>()
    };
    for time in 0..40 {
        let facts = |text: String| content(&json!({ "fact": text }), &[]);
        history.note(&facts(random_text()), &facts(random_text()), time);
    }
    let text = history.compress().unwrap().unwrap();
    assert!(text.len() <= MAX_HISTORY_BYTES, "{}", text.len());
    let read = NodeHistory::decompress(&text).unwrap();
    assert!(!read.changes().is_empty() && read.changes().len() < 40);
    assert_eq!(read.changes().last(), history.changes().last());
    assert_eq!(NodeHistory::default().compress().unwrap(), None);
    assert!(NodeHistory::decompress("AAAA").is_err());
}

fn any_content() -> impl Strategy<Value = NodeContent> {
    let facts = prop::collection::btree_map("[ab]", 0..3_i32, 0..3);
    let classes = prop::collection::btree_set("[xyz]", 0..3);
    (facts, classes).prop_map(|(facts, classes)| {
        let classes: Vec<&str> = classes.iter().map(String::as_str).collect();
        content(&json!(facts), &classes)
    })
}

proptest! {
    /// What differs between two times is what differs between the contents at those times.
    #[test]
    fn difference_of_two_times_is_that_of_their_contents(
        contents in prop::collection::vec(any_content(), 2..12),
        from in 0..12_usize,
        length in 0..12_usize,
    ) {
        let mut history = NodeHistory::default();
        for (time, pair) in contents.windows(2).enumerate() {
            history.note(&pair[0], &pair[1], time as u64 + 1);
        }
        let last = contents.len() - 1;
        let (from, until) = (from.min(last), (from + length).min(last));
        let mut direct = NodeHistory::default();
        direct.note(&contents[from], &contents[until], 1);
        let direct = direct.changes().first().map(|change| change.values.clone());
        let mut found = history.between(from as u64, until as u64);
        let mut expected = direct.unwrap_or_default();
        for list in [&mut found, &mut expected] {
            list.sort_by_key(|change| format!("{change:?}"));
        }
        prop_assert_eq!(found, expected);
    }
}
