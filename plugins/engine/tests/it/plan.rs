//! Comparison of desired and current state: the changes, their messages, redaction; and the limit of resources in a catalog.

use muster_engine::event::ChangeEventStatus;
use muster_engine::plan::{ChangeOutcome, PropertyChange, ResourceState, compare_properties};
use muster_engine::resource::{Resource, ResourceValue, ResourceValues};
use muster_engine::schema::{AttributeKind, TypeSchema, parameter, property};
use proptest::prelude::*;

static SCHEMA: TypeSchema = TypeSchema {
    type_name: "account",
    doc: "For tests.",
    namevar: "name",
    attributes: &[
        property("ensure", AttributeKind::Word(&["present", "absent"]), "Is there."),
        property("zeal", AttributeKind::Int, "First after ensure."),
        property("groups", AttributeKind::List, "Then these."),
        property("comment", AttributeKind::Text, "Then this."),
        property("password", AttributeKind::Text, "Last.").with_hidden_value(),
        parameter("name", AttributeKind::Text, "The name."),
    ],
};

fn values(values: &[(&str, ResourceValue)]) -> ResourceValues {
    values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

fn desired(wanted: ResourceValues) -> Resource {
    Resource { values: wanted, ..Resource::without_values(&SCHEMA, "x").unwrap() }
}

#[test]
fn properties_are_changed_in_schema_order() {
    let found = ResourceState {
        values: values(&[
            ("ensure", "present".into()),
            ("comment", "old".into()),
            ("groups", ResourceValue::List(vec!["a".to_owned()])),
        ]),
    };
    let wanted = desired(values(&[
        ("ensure", "present".into()),
        ("comment", "new".into()),
        ("groups", ResourceValue::List(vec![])),
        ("zeal", ResourceValue::Int(7)),
    ]));
    let changes = compare_properties(&SCHEMA, &wanted, &found);
    let messages: Vec<&str> = changes.iter().map(|change| change.message.as_str()).collect();
    assert_eq!(
        messages,
        ["defined 'zeal' as 7", "undefined 'groups' from ['a']", "comment changed 'old' to 'new'"]
    );
}

#[test]
fn creation_is_one_change_of_ensure() {
    let wanted = desired(values(&[("ensure", "present".into()), ("comment", "new".into())]));
    let changes = compare_properties(&SCHEMA, &wanted, &ResourceState::absent());
    assert_eq!((changes.len(), changes[0].message.as_str()), (1, "created"));
    let wanted = desired(values(&[("comment", "new".into())]));
    assert!(compare_properties(&SCHEMA, &wanted, &ResourceState::absent()).is_empty());
}

#[test]
fn events_contain_no_sensitive_value() {
    let password = SCHEMA.find_attribute("password").unwrap();
    let (old, new) = (ResourceValue::from("$1$old"), ResourceValue::from("$1$new"));
    let change = PropertyChange::from_attribute(password, Some(&old), &new);
    for (outcome, status, message) in [
        (ChangeOutcome::Made, ChangeEventStatus::Success, "changed [redacted] to [redacted]"),
        (
            ChangeOutcome::Planned,
            ChangeEventStatus::Noop,
            "current_value [redacted], should be [redacted] (noop)",
        ),
        (
            ChangeOutcome::Failed("no"),
            ChangeEventStatus::Failure,
            "change from [redacted] to [redacted] failed: no",
        ),
    ] {
        let event = change.to_event("Account[x]", &outcome);
        assert_eq!((event.status, event.message.as_str()), (status, message));
        assert!(!serde_json::to_string(&event).unwrap().contains("$1$"), "{event:?}");
    }
}

fn any_values() -> impl Strategy<Value = ResourceValues> {
    let value = |name: &'static str| {
        let text = "[a-c]{0,2}".prop_map(ResourceValue::from);
        prop::option::of(prop_oneof![text, Just(ResourceValue::from("absent"))])
            .prop_map(move |value| value.map(|value| (name.to_owned(), value)))
    };
    (value("zeal"), value("comment"), value("password")).prop_map(|(zeal, comment, password)| {
        [zeal, comment, password].into_iter().flatten().collect()
    })
}

proptest! {
    #[test]
    fn applying_all_changes_leaves_no_difference(wanted in any_values(), found in any_values()) {
        let wanted = desired(wanted);
        let mut state = ResourceState { values: found };
        state.values.insert("ensure".to_owned(), "present".into());
        for change in compare_properties(&SCHEMA, &wanted, &state) {
            state.values.insert(change.property, change.to);
        }
        prop_assert!(compare_properties(&SCHEMA, &wanted, &state).is_empty());
    }
}

/// Debug output may reach a log.
#[test]
fn debug_output_contains_no_password() {
    let wanted = desired(values(&[("password", ResourceValue::Text("$6$new".to_owned()))]));
    let found =
        ResourceState { values: values(&[("password", ResourceValue::Text("$6$old".to_owned()))]) };
    let changes = compare_properties(&SCHEMA, &wanted, &found);
    let shown = format!("{wanted:?} {found:?} {changes:?}");
    assert!(!shown.contains("$6$") && shown.contains("password"), "{shown}");
}

#[test]
fn refuses_a_catalog_with_too_many_resources() {
    use muster_engine::catalog::{Catalog, MAX_RESOURCES};
    let catalog = |count: usize| {
        let resources: Vec<serde_json::Value> = (0..count)
            .map(|number| serde_json::json!({"type": "notify", "title": number.to_string()}))
            .collect();
        Catalog::parse(&serde_json::to_vec(&resources).unwrap(), "node")
    };
    assert!(catalog(1000).is_ok());
    let refused = catalog(MAX_RESOURCES + 1).unwrap_err().to_string();
    assert!(
        refused.contains("more than the limit of 50000") && refused.contains("split it"),
        "{refused}"
    );
}
