//! Conditions, answers, scopes and PQL, over rows of JSON.

use std::ops::ControlFlow;

use muster_filter::read_pql_syntax;
use serde_json::{Value, json};

use super::collect::RowCollector;
use super::entity::Entity;
use super::reader::QueryReader;
use super::row::Row;
use super::scope::QueryScope;
use super::statement::QueryStatement;

fn statement(entity: Entity, query: &Value) -> QueryStatement {
    QueryStatement::read(&mut QueryReader::default(), entity, Some(query)).unwrap()
}

fn refusal(entity: Entity, query: &Value) -> String {
    let read = QueryStatement::read(&mut QueryReader::default(), entity, Some(query));
    read.map_or_else(|error| error.to_string(), |statement| format!("accepted {statement:?}"))
}

fn answer(statement: &QueryStatement, rows: &[Value]) -> Vec<Value> {
    let mut collector = RowCollector::new(statement).unwrap();
    for row in rows {
        let row = Row::new(row.as_object().unwrap().clone());
        let condition = statement.condition.as_ref();
        if condition.is_none_or(|condition| condition.selects(&row).unwrap())
            && collector.take(row).unwrap() == ControlFlow::Break(())
        {
            break;
        }
    }
    collector.finish().unwrap().rows.into_iter().map(Value::Object).collect()
}

fn selected(entity: Entity, query: &Value, row: Value) -> bool {
    !answer(&statement(entity, query), &[row]).is_empty()
}

#[test]
fn conditions_compare_by_the_kind_of_the_field() {
    let event = json!({
        "certname": "web1", "line": 12, "property": null, "timestamp": "2026-12-01T10:00:00.000Z",
        "containment_path": ["Stage[main]", "Site"], "corrective_change": false,
    });
    for (query, expected) in [
        (json!(["=", "certname", "web1"]), true),
        (json!(["=", "certname", "WEB1"]), false),
        (json!(["~", "certname", "^w\\w+\\d$"]), true),
        (json!([">", "line", 11]), true),
        (json!([">", "line", "12"]), false),
        (json!(["<", "timestamp", "2026-12-01T11:00:00+00:00"]), true),
        (json!([">=", "timestamp", "2026-12-01"]), true),
        (json!([">=", "timestamp", "2026-12-01 10:00:01"]), false),
        (json!(["=", "corrective_change", "false"]), true),
        (json!(["=", "containment_path", "site"]), true),
        (json!(["=", "property", "ensure"]), false),
        (json!(["not", ["=", "property", "ensure"]]), false),
        (json!(["null?", "property", true]), true),
        (json!(["or", ["=", "property", "a"], ["=", "line", 12]]), true),
        (json!(["and", ["=", "line", 12], ["not", ["~", "certname", "db"]]]), true),
        (json!(["in", "certname", ["array", ["db1", "web1"]]]), true),
        (json!(["in", "timestamp", ["array", ["2026-12-01T11:00:00+01:00"]]]), true),
        (json!(["=", "node_state", "inactive"]), false),
    ] {
        assert_eq!(selected(Entity::Events, &query, event.clone()), expected, "{query}");
    }
}

#[test]
fn facts_and_parameters_are_found_by_path() {
    let inventory = json!({"certname": "web1", "facts": {
        "kernel": "Linux", "cpus": 4, "os": {"family": "Debian"}, "disks": [{"a.b": 1.0}],
    }});
    for (query, expected) in [
        (json!(["=", "facts.os.family", "Debian"]), true),
        (json!(["=", "facts.disks[0].\"a.b\"", 1]), true),
        (json!(["=", ["fact", "kernel"], "Linux"]), true),
        (json!([">", "facts.cpus", 3.5]), true),
        (json!(["=", "facts.cpus", "4"]), false),
        (json!([">", "facts.kernel", 3]), false),
        (json!(["not", ["=", "facts.none", 1]]), true),
        (json!(["not", [">", "facts.none", 1]]), false),
        (json!(["in", "facts.cpus", ["array", [4.0]]]), true),
        (json!(["=", "facts.os", {"family": "Debian"}]), true),
    ] {
        assert_eq!(selected(Entity::Inventory, &query, inventory.clone()), expected, "{query}");
    }
    let resource = json!({"type": "File", "tag": ["site", "web"], "parameters": {"mode": "0644"}});
    for (query, expected) in [
        (json!(["=", ["parameter", "mode"], "0644"]), true),
        (json!(["~", "parameters.mode", "^06"]), true),
        (json!(["=", "tag", "Web"]), true),
        (json!(["~", "tag", "^we"]), true),
        (json!(["in", "tag", ["array", ["none", "web"]]]), true),
    ] {
        assert_eq!(selected(Entity::Resources, &query, resource.clone()), expected, "{query}");
    }
    let content = json!({"path": ["networking", "eth0", "macs", 0], "value": "aa"});
    for (query, expected) in [
        (json!(["~>", "path", ["networking", "eth.*", "macs", 0]]), true),
        (json!(["~>", "path", ["networking", "eth", "macs", 0]]), false),
        (json!(["~>", "path", ["networking", "eth0", "macs", "[01]"]]), true),
        (json!(["=", "path", ["networking", "eth0", "macs", 0]]), true),
    ] {
        assert_eq!(selected(Entity::FactContents, &query, content.clone()), expected, "{query}");
    }
}

#[test]
fn answers_have_columns_groups_order_and_pages() {
    let row = |certname: &str, name: &str, value: Value| json!({"certname": certname, "environment": "production", "name": name, "value": value});
    let rows = [
        row("a", "cpus", 4.into()),
        row("b", "cpus", 2.into()),
        row("c", "kernel", "Linux".into()),
    ];
    let query = json!(["extract", [["function", "count"], "name"], ["group_by", "name"]]);
    let counts = [json!({"name": "cpus", "count": 2}), json!({"name": "kernel", "count": 1})];
    assert_eq!(answer(&statement(Entity::Facts, &query), &rows), counts);
    let query = json!(["extract", [["function", "count"]], ["=", "name", "none"]]);
    assert_eq!(answer(&statement(Entity::Facts, &query), &rows), [json!({"count": 0})]);
    let functions = ["avg", "sum", "min", "max", "count"];
    let functions = functions.map(|name| json!(["function", name, "value"]));
    let query = json!(["extract", functions, ["=", "name", "cpus"]]);
    let expected = json!({"avg": 3.0, "sum": 6.0, "min": 2, "max": 4, "count": 2});
    assert_eq!(answer(&statement(Entity::Facts, &query), &rows), [expected]);
    let text = "facts[certname] { order by certname desc limit 1 offset 1 }";
    let query = read_pql_syntax(text).unwrap();
    let paged = QueryStatement::read_from(&mut QueryReader::default(), &query).unwrap();
    assert_eq!(answer(&paged, &rows), [json!({"certname": "b"})]);
}

#[test]
fn scope_is_what_every_selected_row_satisfies() {
    let scope = |query: Value| QueryScope::of(statement(Entity::Events, &query).condition.as_ref());
    let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    let query = json!([
        "and",
        ["in", "certname", ["array", ["a", "b"]]],
        ["=", "certname", "a"],
        ["=", "latest_report?", true],
        ["=", "report", "x"]
    ]);
    let expected = QueryScope { certnames: names(&["a"]), reports: names(&["x"]), is_latest: true };
    assert_eq!(scope(query), expected);
    let query = json!(["or", ["=", "certname", "a"], ["=", "line", 1]]);
    assert_eq!(scope(query), QueryScope::default());
    assert_eq!(scope(json!(["not", ["=", "certname", "a"]])), QueryScope::default());
}

#[test]
fn invalid_queries_are_refused_with_the_reason() {
    let mut deep = json!(["=", "certname", "a"]);
    for _ in 0..40 {
        deep = json!(["not", deep]);
    }
    let many: Value =
        [json!("or")].into_iter().chain((0..1001).map(|_| json!(["=", "certname", "a"]))).collect();
    for (query, expected) in [
        (json!(["=", "none", "a"]), "'none' is not a queryable object for nodes"),
        (json!(["<", "certname", "a"]), "incompatible"),
        (json!([">", "report_timestamp", "yesterday"]), "not a valid timestamp"),
        (json!(["~", "certname", "(?=a)"]), "another meaning"),
        (json!(["~", "certname", 5]), "a text"),
        (json!(["nand", ["=", "certname", "a"]]), "'nand' with 1 arguments"),
        (json!("certname"), "not a condition"),
        (json!(["extract", ["certname", ["function", "count"]]]), "must be in group_by"),
        (json!(["extract", [["function", "median", "x"]]]), "not supported"),
        (
            json!(["in", "certname", ["extract", ["certname", "name"], ["select_facts", null]]]),
            "a column for each field",
        ),
        (json!(["in", "certname", ["extract", "certname", ["select_x", null]]]), "not a subquery"),
        (json!(["subquery", "fact_names", ["=", "name", "a"]]), "no relation"),
        (deep, "at most 32 levels"),
        (many, "at most 1000 conditions"),
    ] {
        let error = refusal(Entity::Nodes, &query);
        assert!(error.contains(expected), "{query}: {error}");
    }
}
