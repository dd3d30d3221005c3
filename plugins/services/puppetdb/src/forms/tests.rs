//! The forms of a catalog, a report and facts, compared with files; what is refused; and the forms of any values.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::edges::EdgeError;
use super::report_schema::check_report;
use super::{
    CatalogFormError, FormSource, ReportSource, catalog_form, facts_form, inputs_form, report_form,
    trusted_facts,
};

const NOW: u64 = 1_764_201_605_250;

fn source() -> FormSource<'static> {
    FormSource {
        certname: "web1.acme.net",
        environment: "production",
        producer: "muster",
        producer_timestamp: NOW,
    }
}

fn report_source() -> ReportSource<'static> {
    ReportSource { form: source(), run: Uuid::from_u128(7), started: NOW - 5000 }
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no map"),
    }
}

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/forms/goldens").join(name);
    std::fs::read_to_string(&path).unwrap_or_default()
}

fn read_map(name: &str) -> Map<String, Value> {
    serde_json::from_str(&read(name)).unwrap()
}

/// Compares with the file of that name, or rewrites it when `UPDATE_GOLDEN` is set.
fn assert_golden(name: &str, form: &Map<String, Value>) {
    let text = serde_json::to_string_pretty(form).unwrap() + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/forms/goldens").join(name);
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(text, read(name), "{name}; UPDATE_GOLDEN=1 rewrites it");
}

#[test]
fn catalog_has_all_edges_and_no_secrets() {
    let form = catalog_form(&read_map("catalog.json"), None, source()).unwrap();
    assert_golden("catalog_v9.json", &form);
    let text = Value::Object(form).to_string();
    for secret in ["\"secret\"", "clear", "muster::Secret", "aliases", "sensitive_parameters"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

#[test]
fn report_has_changed_and_skipped_resources() {
    assert_golden("report_v8.json", &report_form(&read_map("report.json"), report_source()));
}

#[test]
fn report_without_anything_has_defaults() {
    let form = report_form(&Map::new(), report_source());
    assert_eq!(form["transaction_uuid"], Uuid::from_u128(7).to_string());
    assert_eq!(form["start_time"], "2025-11-27T00:00:00.250Z");
    assert_eq!(form["end_time"], form["start_time"]);
    assert_eq!((&form["status"], &form["noop"]), (&json!("failed"), &json!(false)));
    assert_eq!(check_report(&form), Ok(()));
}

#[test]
fn long_title_fits_the_index() {
    let title = "é".repeat(2000);
    let status = json!({"title": title, "resource_type": "Exec", "skipped": true});
    let report = map(json!({"resource_statuses": {"Exec[x]": status}}));
    let form = report_form(&report, report_source());
    let title = form["resources"][0]["resource_title"].as_str().unwrap();
    assert!(title.len() <= 2500 && title.len() > 2400 && title.ends_with('…'), "{}", title.len());
}

#[test]
fn facts_have_the_verified_name_and_packages() {
    let facts = map(json!({
        "os": {"family": "Debian", "odd\u{0}key": "a\u{0}b"},
        "trusted": {"certname": "other"},
        "_puppet_inventory_1": {"packages": [["bash", "5.2", "apt"], ["broken"], "x"]},
        "nothing": null,
    }));
    let trusted = trusted_facts("web1.acme.net", &map(json!({"pp_role": "web"})));
    let form = facts_form(&facts, trusted, source());
    assert_golden("facts_v5.json", &form);
    let single = trusted_facts("web1", &Map::new());
    assert_eq!((&single["hostname"], &single["domain"]), (&json!("web1"), &Value::Null));
}

#[test]
fn inputs_are_pairs() {
    let inputs = [("hiera", "ntp::servers"), ("fact", "facts.os.family")];
    let inputs = inputs.map(|(kind, name)| (kind.to_owned(), name.to_owned()));
    assert_golden("inputs_v1.json", &inputs_form(inputs, Uuid::from_u128(3), source()));
}

#[test]
fn catalogs_that_would_be_discarded_are_refused() {
    let refusal = |catalog: Value| catalog_form(&map(catalog), None, source()).unwrap_err();
    let file = json!({"type": "File", "title": "/a", "tags": [], "exported": false});
    assert_eq!(
        refusal(json!({"resources": [file, file], "edges": []})),
        CatalogFormError::DuplicateResource { reference: "File[/a]".to_owned() },
    );
    assert_eq!(
        refusal(json!({"resources": [file, {"type": "File"}]})),
        CatalogFormError::UnnamedResource { position: 2 },
    );
    let of_parameter = |reference: &str| {
        let mut file = file.clone();
        file["parameters"] = json!({"require": ["File[/a]", reference]});
        refusal(json!({"resources": [file]}))
    };
    let (resource, parameter) = ("File[/a]".to_owned(), "require");
    let reference = "File[/b]".to_owned();
    let missing = EdgeError::MissingResource { resource: resource.clone(), parameter, reference };
    assert_eq!(of_parameter("File[/b]"), CatalogFormError::Edge(missing));
    for reference in ["file[/a]", "/a", "File[/a", "File/a]", "Site::web[/a]", "[/a]"] {
        let (resource, reference) = (resource.clone(), reference.to_owned());
        let error = EdgeError::NotAReference { resource, parameter, reference: reference.clone() };
        assert_eq!(of_parameter(&reference), CatalogFormError::Edge(error));
    }
}

/// A list of values of which some have the keys of a report.
fn any_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        Just("2026-11-27T00:00:00Z".to_owned()),
        Just("9999-12-30T00:00:00Z".to_owned()),
        Just("0b8d0a36-3f1c-4f39-9a0e-5b8a2f1e7c44".to_owned()),
        Just("File[/etc/motd]".to_owned()),
        Just("total".to_owned()),
        prop::collection::vec(any::<char>(), 0..12).prop_map(String::from_iter),
        Just("a\u{0}b".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::btree_map(any_key(), inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_key() -> impl Strategy<Value = String> {
    const KEYS: &[&str] = &[
        "time",
        "logs",
        "metrics",
        "resource_statuses",
        "events",
        "skipped",
        "status",
        "title",
        "resource_type",
        "file",
        "line",
        "containment_path",
        "corrective_change",
        "property",
        "desired_value",
        "previous_value",
        "message",
        "name",
        "values",
        "tags",
        "level",
        "source",
        "noop",
        "noop_pending",
        "environment",
        "report_format",
        "configuration_version",
        "transaction_uuid",
        "catalog_uuid",
        "puppet_version",
        "type",
        "parameters",
        "edges",
        "target",
        "resources",
        "require",
        "alias",
        "__ptype",
        "__pvalue",
        "total",
    ];
    prop_oneof![
        8 => prop::sample::select(KEYS).prop_map(str::to_owned),
        1 => ".{0,6}",
    ]
}

/// A report whose fields are often of the expected types.
fn any_report() -> impl Strategy<Value = Map<String, Value>> {
    let object = || prop::collection::btree_map(any_key(), any_value(), 0..12);
    let list = || prop::collection::vec(object(), 0..4);
    (object(), list(), list(), list()).prop_map(|(rest, logs, statuses, events)| {
        let mut report: Map<String, Value> = rest.into_iter().collect();
        let objects = |maps: Vec<std::collections::BTreeMap<String, Value>>| -> Vec<Value> {
            maps.into_iter().map(|map| Value::Object(map.into_iter().collect())).collect()
        };
        report.insert("logs".to_owned(), objects(logs).into());
        let events = Value::from(objects(events));
        let statuses = objects(statuses).into_iter().enumerate().map(|(index, mut status)| {
            status["events"] = events.clone();
            (format!("File[{index}]"), status)
        });
        report.insert("resource_statuses".to_owned(), Value::Object(statuses.collect()));
        report
    })
}

/// Whether a text or a key has a byte that `PostgreSQL` cannot store. Its escape in Ruby's text of a list is none.
fn has_zero_byte(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_zero_byte),
        Value::Object(map) => {
            map.iter().any(|(key, value)| key.contains('\0') || has_zero_byte(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

proptest! {
    #[test]
    fn any_report_is_valid(report in any_report()) {
        let form = report_form(&report, report_source());
        prop_assert_eq!(check_report(&form), Ok(()), "{:?}", form);
        prop_assert!(!has_zero_byte(&Value::Object(form)));
    }

    #[test]
    fn any_catalog_is_sent_or_refused(catalog in any_report(), resources in any_value()) {
        let mut catalog = catalog;
        catalog.insert("resources".to_owned(), resources);
        if let Ok(form) = catalog_form(&catalog, None, source()) {
            prop_assert_eq!(form.len(), 11);
            prop_assert!(!has_zero_byte(&Value::Object(form)));
        }
    }
}
