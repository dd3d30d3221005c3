//! Queries of `PuppetDB` in PQL: how they travel, what is refused, and what is unknown. `pql_answers` has the answers of `PuppetDB`.

use std::collections::BTreeSet;

use muster_filter::state::{MapField, NodeFacts};
use muster_filter::{DocumentQuery, NodeFilter, ReferencedFacts, TruthValue};
use proptest::prelude::*;
use serde_json::json;

fn convert(text: &str) -> String {
    DocumentQuery::parse_written(text).unwrap().to_string()
}

#[test]
fn queries_travel_as_text_in_a_document() {
    let cases = [
        (
            " inventory[certname] {\n facts.os.family = 'Debian' } ",
            r#"{"$pql":"inventory[certname] {  facts.os.family = 'Debian' }"}"#,
        ),
        ("nodes { certname ~ \"a\\\\d\" }", r#"{"$pql":"nodes { certname ~ \"a\\\\d\" }"}"#),
        ("nodes[certname]{}", "{}"),
    ];
    for (text, expected) in cases {
        assert_eq!(convert(text), expected, "{text}");
        assert_eq!(convert(expected), expected, "{text}");
    }
    let filter = NodeFilter::default().with_query("inventory { facts.a = 1 }").unwrap();
    let filter = filter.with_query("{classes: apache}").unwrap();
    assert_eq!(
        filter.query().unwrap().to_string(),
        r#"{"$and":[{"$pql":"inventory { facts.a = 1 }"},{"classes":"apache"}]}"#
    );
    assert_eq!(
        filter.explain(),
        "nodes that PuppetDB would select with inventory { facts.a = 1 } and that have class \"apache\""
    );
    let names = BTreeSet::from(["a".to_owned()]);
    assert_eq!(filter.referenced_values(MapField::Facts), ReferencedFacts::Named(names));
}

#[test]
fn what_cannot_have_the_same_answer_is_refused_with_its_place() {
    let cases = [
        ("reports { certname = 'a' }", 1, "begins with inventory or nodes"),
        ("inventory[facts] { }", 11, "[certname]"),
        ("nodes { facts.a = 1 }", 9, "write inventory { facts.PATH ... }"),
        ("inventory { facts.a > 'b' }", 23, "the order of texts depends"),
        ("inventory { facts.a in [1] }", 13, "value in [ ... ]"),
        ("inventory { facts.a[0] is null }", 13, "PuppetDB ignores it"),
        ("inventory { facts.a is  null }", 21, "is null with one space"),
        ("inventory { facts.a ~ '\\bx' }", 23, "PostgreSQL"),
        ("inventory { facts.a = 1 } limit 5", 27, "limit, offset, order by"),
        ("inventory { facts.a = 1 and }", 29, "certname"),
        ("inventory { facts.a = 1 // b\n }", 25, "the closing }"),
        ("inventory { resources { type = 'File' and title = '/a' } }", 13, "publish their classes"),
        ("inventory { !!!!!!!!!!!!!!!!! certname = 'a' }", 29, "at most 16 levels"),
        ("inventory { facts.a = 9223372036854775808 }", 23, "64 bits"),
        ("{$pql: 5}", 8, "in quotes after $pql"),
        ("{facts.a: {$elemMatch: {$or: [{$pql: 'nodes {}'}]}}}", 38, "outside of $elemMatch"),
        ("{facts.a: {$pql: 'nodes {}'}}", 12, "in place of a path"),
    ];
    for (text, column, expected) in cases {
        let error = DocumentQuery::parse_written(text).unwrap_err();
        assert!(error.expected().contains(expected), "{text}: {error}");
        assert_eq!(error.column(), column, "{text}: {error}");
    }
    let error = DocumentQuery::parse_loose("inventory { facts.a = 1 }").unwrap_err();
    assert!(error.expected().contains("without --loose"), "{error}");
    let regexes = |count: usize| {
        let tests = vec!["facts.a ~ 'a'"; count].join(" and ");
        format!("inventory {{ {tests} }}")
    };
    assert!(DocumentQuery::parse_written(&regexes(64)).is_ok());
    assert!(DocumentQuery::parse_written(&regexes(65)).is_err());
    let both = format!("{{$and: [{{$pql: \"{}\"}}, {{classes: /a/}}]}}", regexes(64));
    assert!(DocumentQuery::parse(&both).is_err());
}

#[test]
fn facts_and_classes_that_were_never_read_are_unknown() {
    let map = json!({"a": 1}).as_object().unwrap().clone();
    let facts = NodeFacts::from_map(map).unwrap().with_known_names(["a".to_owned()].into());
    let view = crate::view_of(&facts, &[]).with_classes(None);
    for (condition, expected) in [
        ("facts.a = 1", TruthValue::True),
        ("facts.b = 1", TruthValue::Unknown),
        ("!(facts.b > 1)", TruthValue::Unknown),
        ("facts.a = 2 and facts.b = 1", TruthValue::False),
        ("facts.a = 1 or facts.b = 1", TruthValue::True),
        ("facts { name = 'a' and value = 1 }", TruthValue::Unknown),
        ("resources { type = 'Class' and title = 'Apache' }", TruthValue::Unknown),
    ] {
        let query = DocumentQuery::parse_written(&format!("inventory {{ {condition} }}")).unwrap();
        assert_eq!(query.evaluate(&view), expected, "{condition}");
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

    #[test]
    fn any_regular_expression_is_compiled_or_refused(pattern in "[\\[\\](){}|*+?^$.\\\\a-d0-9,:=-]{0,20}") {
        let pattern = pattern.replace('\\', "\\\\");
        let _ = DocumentQuery::parse_written(&format!("inventory {{ facts.a ~ \"{pattern}\" }}"));
    }
}
