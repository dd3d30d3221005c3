//! Comparing desired with found, and the words for the difference.

use muster_engine::event::EventStatus;
use muster_engine::plan::{Change, ChangeOutcome, State, compare};
use muster_engine::resource::{Resource, Value, Values};
use muster_engine::schema::{Attribute, Kind, Schema};
use proptest::prelude::*;

static SCHEMA: Schema = Schema {
    type_name: "account",
    doc: "For tests.",
    namevar: "name",
    attributes: &[
        Attribute::property("ensure", Kind::Word(&["present", "absent"]), "Is there."),
        Attribute::property("zeal", Kind::Int, "First after ensure."),
        Attribute::property("groups", Kind::List, "Then these."),
        Attribute::property("comment", Kind::Text, "Then this."),
        Attribute::property("password", Kind::Text, "Last.").secret(),
        Attribute::parameter("name", Kind::Text, "The name."),
    ],
};

fn values(values: &[(&str, Value)]) -> Values {
    values
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect()
}

fn desired(wanted: Values) -> Resource {
    Resource {
        values: wanted,
        ..Resource::named(&SCHEMA, "x").unwrap()
    }
}

#[test]
fn properties_are_synced_in_the_order_of_the_schema() {
    let found = State {
        values: values(&[
            ("ensure", "present".into()),
            ("comment", "old".into()),
            ("groups", Value::List(vec!["a".to_owned()])),
        ]),
    };
    let wanted = desired(values(&[
        ("ensure", "present".into()),
        ("comment", "new".into()),
        ("groups", Value::List(vec![])),
        ("zeal", Value::Int(7)),
    ]));
    let changes = compare(&SCHEMA, &wanted, &found);
    let messages: Vec<&str> = changes
        .iter()
        .map(|change| change.message.as_str())
        .collect();
    assert_eq!(
        messages,
        [
            "defined 'zeal' as 7",
            "undefined 'groups' from ['a']",
            "comment changed 'old' to 'new'"
        ]
    );
}

#[test]
fn ensure_comes_alone() {
    let wanted = desired(values(&[
        ("ensure", "present".into()),
        ("comment", "new".into()),
    ]));
    let changes = compare(&SCHEMA, &wanted, &State::absent());
    assert_eq!((changes.len(), changes[0].message.as_str()), (1, "created"));
    let wanted = desired(values(&[("comment", "new".into())]));
    assert!(compare(&SCHEMA, &wanted, &State::absent()).is_empty());
}

#[test]
fn a_secret_is_in_no_event() {
    let password = SCHEMA.attribute("password").unwrap();
    let (old, new) = (Value::from("$1$old"), Value::from("$1$new"));
    let change = Change::of(password, Some(&old), &new);
    for (outcome, status, message) in [
        (
            ChangeOutcome::Made,
            EventStatus::Success,
            "changed [redacted] to [redacted]",
        ),
        (
            ChangeOutcome::Planned,
            EventStatus::Noop,
            "current_value [redacted], should be [redacted] (noop)",
        ),
        (
            ChangeOutcome::Failed("no"),
            EventStatus::Failure,
            "change from [redacted] to [redacted] failed: no",
        ),
    ] {
        let event = change.event("Account[x]", &outcome);
        assert_eq!((event.status, event.message.as_str()), (status, message));
        assert!(
            !serde_json::to_string(&event).unwrap().contains("$1$"),
            "{event:?}"
        );
    }
}

fn any_values() -> impl Strategy<Value = Values> {
    let value = |name: &'static str| {
        let text = "[a-c]{0,2}".prop_map(Value::from);
        prop::option::of(prop_oneof![text, Just(Value::from("absent"))])
            .prop_map(move |value| value.map(|value| (name.to_owned(), value)))
    };
    (value("zeal"), value("comment"), value("password")).prop_map(|(zeal, comment, password)| {
        [zeal, comment, password].into_iter().flatten().collect()
    })
}

proptest! {
    #[test]
    fn making_every_change_leaves_nothing_to_change(wanted in any_values(), found in any_values()) {
        let wanted = desired(wanted);
        let mut state = State { values: found };
        state.values.insert("ensure".to_owned(), "present".into());
        for change in compare(&SCHEMA, &wanted, &state) {
            state.values.insert(change.property, change.to);
        }
        prop_assert!(compare(&SCHEMA, &wanted, &state).is_empty());
    }
}

/// What is logged by accident must not hold a secret.
#[test]
fn debug_output_never_shows_a_password() {
    let wanted = desired(values(&[("password", Value::Text("$6$new".to_owned()))]));
    let found = State {
        values: values(&[("password", Value::Text("$6$old".to_owned()))]),
    };
    let changes = compare(&SCHEMA, &wanted, &found);
    let shown = format!("{wanted:?} {found:?} {changes:?}");
    assert!(
        !shown.contains("$6$") && shown.contains("password"),
        "{shown}"
    );
}

#[test]
fn a_catalog_of_too_many_resources_is_refused_with_the_limit() {
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
        refused.contains("more than the 50000") && refused.contains("split it"),
        "{refused}"
    );
}
