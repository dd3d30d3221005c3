//! Queries of `PuppetDB` in PQL: the documents that they become, what is refused, and which nodes match.

use muster_filter::DocumentQuery;
use muster_filter::state::NodeFacts;
use proptest::prelude::*;
use serde_json::json;

fn convert(text: &str) -> String {
    DocumentQuery::parse_written(text).unwrap().to_string()
}

#[test]
fn queries_become_documents() {
    let cases = [
        ("inventory[certname] { facts.os.family = 'Debian' }", r#"{"facts.os.family":"Debian"}"#),
        ("inventory { certname ~ '^web\\\\d' }", r#"{"identity":/^web\d/}"#),
        ("nodes[certname]{}", "{}"),
        ("inventory{facts.processors.count>=4}", r#"{"facts.processors.count":{"$gte":4}}"#),
        (
            "inventory { facts.disks[0].size > 10 or facts.\"app.io/name\" = true }",
            r#"{"$or":[{"facts.disks.0.size":{"$gt":10}},{"facts.\"app.io/name\"":true}]}"#,
        ),
        (
            "inventory { facts.a = 1 or facts.b = 2 and facts.c in [1, 'x'] }",
            r#"{"$or":[{"facts.a":1},{"$and":[{"facts.b":2},{"facts.c":{"$in":[1,"x"]}}]}]}"#,
        ),
        (
            "inventory { resources { type = 'Class' and title = 'Mysql::Master' } }",
            r#"{"classes":"Mysql::Master"}"#,
        ),
        (
            "inventory { resources { title ~ '^Role' and type = 'Class' } }",
            r#"{"classes":/^Role/}"#,
        ),
        ("nodes { facts { name = 'country' and value = 'de' } }", r#"{"facts.country":"de"}"#),
        ("inventory { facts.a is null }", r#"{"facts.a":null}"#),
        ("inventory { facts.a is not null }", r#"{"$nor":[{"facts.a":null}]}"#),
        ("inventory { !(facts.a = 1) }", r#"{"facts.a":{"$ne":null},"$nor":[{"facts.a":1}]}"#),
        (
            "inventory { !(certname = 'a' or !(facts.b = 2)) }",
            r#"{"$and":[{"$nor":[{"identity":"a"}]},{"facts.b":2}]}"#,
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(convert(text), expected, "{text}");
        assert_eq!(convert(expected), expected, "{text}");
    }
}

#[test]
fn what_does_not_map_is_refused_with_its_place() {
    let cases = [
        ("reports { certname = 'a' }", "begins with inventory or nodes"),
        ("inventory[facts] { }", "[certname]"),
        ("nodes { report_timestamp > '2026-01-01' }", "\"report_timestamp\" is not supported"),
        ("inventory { trusted.certname = 'a' }", "\"trusted.certname\" is not supported"),
        ("inventory { facts.a != 1 }", "write !(field = value)"),
        ("inventory { facts.a > 'b' }", "a number after >"),
        ("inventory { facts.a ~ 5 }", "a regular expression in quotes after ~"),
        ("inventory { facts.a ~ '(' }", "regular expression"),
        ("inventory { facts.a = 1 } limit 5", "limit, offset, order by"),
        ("inventory { facts.a = 1", "the closing }"),
        ("inventory { facts.a = 1 and }", "certname"),
        ("inventory { resources { type = 'File' and title = '/a' } }", "publish their classes"),
        ("inventory { resources { } }", "type or title"),
        ("inventory { resources { type = 'Class' } }", "both type and title"),
        ("inventory { facts { name ~ 'a' and value = 1 } }", "name = \"FACT\""),
        ("inventory { !!!!!!!!! certname = 'a' }", "at most 8 levels"),
        ("inventory { facts.a = foo }", "a text in quotes"),
        ("inventory", "{ and a condition"),
    ];
    for (text, expected) in cases {
        let error = DocumentQuery::parse_written(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_missing_fact_satisfies_neither_a_test_nor_its_opposite() {
    let facts = NodeFacts::from_map(json!({"a": 1, "list": [1, 2]}).as_object().unwrap().clone());
    let (facts, classes) = (facts.unwrap(), ["apache".to_owned()]);
    let view = crate::view_of(&facts, &classes);
    let matches = |text: &str| {
        DocumentQuery::parse_written(&format!("inventory {{ {text} }}")).unwrap().matches(&view)
    };
    for (text, expected) in [
        ("facts.a = 1", true),
        ("!(facts.a = 1)", false),
        ("!(facts.a = 2)", true),
        ("facts.b = 1", false),
        ("!(facts.b = 1)", false),
        ("!(facts.a = 2 and facts.b = 1)", true),
        ("!(facts.a = 1 and facts.b = 1)", false),
        ("facts.b is null", true),
        ("!(facts.b is null)", false),
        ("facts.list = 2", true),
        ("facts.a = '1'", false),
        ("!resources { type = 'Class' and title = 'nginx' }", true),
    ] {
        assert_eq!(matches(text), expected, "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in "(inventory|nodes)?[ \\[\\]{}()!a-z.=~<>'\"0-9,]{0,60}") {
        if let Ok(query) = DocumentQuery::parse_written(&text) {
            let printed = query.to_string();
            prop_assert_eq!(convert(&printed), printed);
        }
    }
}
