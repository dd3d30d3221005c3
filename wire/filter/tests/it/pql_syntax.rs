//! PQL of any entity as the JSON of `PuppetDB`.

use muster_filter::read_pql_syntax;
use serde_json::Value;

fn check_syntax(text: &str, expected: &str) {
    let expected: Value = serde_json::from_str(expected).unwrap();
    assert_eq!(read_pql_syntax(text).unwrap(), expected, "{text}");
}

#[test]
fn queries_are_read_as_json() {
    for (text, expected) in [
        ("nodes {}", r#"["from", "nodes"]"#),
        ("facts[] { name = 'a' }", r#"["from", "facts", ["=", "name", "a"]]"#),
        (
            "nodes[certname]{ certname ~ \"^web\\\\d\" and !(report_timestamp < '2026-01-01' or deactivated is not null) }",
            r#"["from", "nodes", ["extract", ["certname"], ["and", ["~", "certname", "^web\\d"], ["not", ["or", ["<", "report_timestamp", "2026-01-01"], ["null?", "deactivated", false]]]]]]"#,
        ),
        (
            "reports[status, count()] { latest_report? = true group by status order by count desc, status limit 5 offset 1 }",
            r#"["from", "reports", ["extract", ["status", ["function", "count"]], ["=", "latest_report?", true], ["group_by", "status"]], ["order_by", [["count", "desc"], ["status", "asc"]]], ["limit", 5], ["offset", 1]]"#,
        ),
        (
            "facts[name, avg(value)] { group by name }",
            r#"["from", "facts", ["extract", ["name", ["function", "avg", "value"]], ["group_by", "name"]]]"#,
        ),
        (
            "nodes { resources { type = 'Class' and title = 'Apache' } and certname != 'a' }",
            r#"["from", "nodes", ["and", ["subquery", "resources", ["and", ["=", "type", "Class"], ["=", "title", "Apache"]]], ["not", ["=", "certname", "a"]]]]"#,
        ),
        (
            "facts { [certname, name] in fact_contents[certname, name] { value < 100 } }",
            r#"["from", "facts", ["in", ["certname", "name"], ["from", "fact_contents", ["extract", ["certname", "name"], ["<", "value", 100]]]]]"#,
        ),
        (
            "inventory[facts.os.family, facts.\"a.b\".c[0]] { facts.cpus >= 4 and trusted.certname in ['a', 'b'] }",
            r#"["from", "inventory", ["extract", ["facts.os.family", "facts.\"a.b\".c[0]"], ["and", [">=", "facts.cpus", 4], ["in", "trusted.certname", ["array", ["a", "b"]]]]]]"#,
        ),
        (
            "fact_contents { path ~> ['networking', '.*', 'mac'] }",
            r#"["from", "fact_contents", ["~>", "path", ["networking", ".*", "mac"]]]"#,
        ),
        (
            "events { order by timestamp limit 1 }",
            r#"["from", "events", ["order_by", [["timestamp", "asc"]]], ["limit", 1]]"#,
        ),
    ] {
        check_syntax(text, expected);
    }
}

#[test]
fn invalid_queries_are_refused_with_the_place() {
    for (text, column, expected) in [
        ("", 1, "the name of an entity"),
        ("nodes", 6, "{ and a condition"),
        ("nodes { certname }", 18, "=, !=, ~"),
        ("nodes { certname = }", 20, "a text in quotes"),
        ("nodes { certname = 'a' } x", 26, "the end of the query"),
        ("nodes { certname = 'a' limt 5 }", 24, "limit, offset"),
        ("nodes { order certname }", 15, "by"),
        ("nodes[certname { }", 16, "a comma or the closing ]"),
        ("nodes { facts { limit 1 } }", 16, "without clauses"),
        ("nodes { group by certname }", 1, "columns in [ ]"),
        ("nodes { !!!!!!!!!!!!!!!!! certname = 'a' }", 25, "at most 16 levels"),
    ] {
        let error = read_pql_syntax(text).unwrap_err();
        assert!(error.expected().contains(expected), "{text}: {error}");
        assert_eq!(error.column(), column, "{text}: {error}");
    }
}
