//! Name patterns of bootstrap tokens, and the grants that contain them.

use muster_wire::enrol::{NamePattern, TokenGrant, TokenGrantFact};
use muster_wire::identity::Identity;
use proptest::prelude::*;

use crate::world::identity;

#[test]
fn star_matches_within_a_label_and_two_stars_match_whole_labels() {
    for (pattern, identity_text, matches) in [
        ("web-*.example.com", "web-1.example.com", true),
        ("web-*.example.com", "WEB-1.Example.com.", true),
        ("web-*.example.com", "web-1.evil.example.com", false),
        ("web-*.example.com", "web-1.example.com.evil.org", false),
        ("web-*.example.com", "xweb-1.example.com", false),
        ("web-*.example.com", "web1.example.com", false),
        ("*.example.com", "example.com", false),
        ("*", "web1", true),
        ("*", "web1.example.com", false),
        ("a*b*c", "aXbYbZc", true),
        ("a*b*c", "aXbYbZ", false),
        ("*a*", "bab", true),
        ("**.lab.example.com", "a.b.lab.example.com", true),
        ("**.lab.example.com", "a.lab.example.com", true),
        ("**.lab.example.com", "lab.example.com", false),
        ("web.**", "web.a.b.c", true),
        ("web.**", "web", false),
        ("a.**.z", "a.b.z", true),
        ("a.**.z", "a.z", false),
        ("a.**.m.**.z", "a.m.m.m.z", true),
        ("**", "any.name.at.all", true),
        ("db1.example.com", "db1.example.com", true),
        ("db1.example.com", "db2.example.com", false),
    ] {
        let parsed = NamePattern::parse(pattern).unwrap();
        assert_eq!(
            parsed.matches(&Identity::parse(identity_text).unwrap()),
            matches,
            "{pattern} {identity_text}"
        );
    }
    for bad in ["", ".", "a..b", "a.", "a***", "a**b", "***", "a b", "[a-z]", "a,b", "grün", "a/b"]
    {
        assert!(NamePattern::parse(bad).is_err(), "{bad}");
    }
    assert!(NamePattern::parse(&"a".repeat(64)).is_err());
    assert!(NamePattern::parse(&"a.".repeat(200)).is_err());
}

/// A simple recursive reference implementation.
fn matches_reference(pattern: &[&str], parts: &[&str]) -> bool {
    fn part(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|n| part(rest, &text[n..])),
            Some((byte, rest)) => text.first() == Some(byte) && part(rest, &text[1..]),
        }
    }
    match pattern.split_first() {
        None => parts.is_empty(),
        Some((&"**", rest)) => (1..=parts.len()).any(|n| matches_reference(rest, &parts[n..])),
        Some((wanted, rest)) => parts.split_first().is_some_and(|(first, others)| {
            part(wanted.as_bytes(), first.as_bytes()) && matches_reference(rest, others)
        }),
    }
}

proptest! {
    #[test]
    fn patterns_match_like_the_reference_implementation(
        pattern in "((\\*\\*|[ab*]{1,3})\\.){0,4}(\\*\\*|[ab*]{1,3})",
        identity_text in "([ab]{1,4}\\.){0,4}[ab]{1,4}",
    ) {
        if let Ok(parsed) = NamePattern::parse(&pattern) {
            let wanted: Vec<&str> = pattern.split('.').collect();
            let parts: Vec<&str> = identity_text.split('.').collect();
            prop_assert_eq!(parsed.matches(&identity(&identity_text)), matches_reference(&wanted, &parts));
        }
    }

    #[test]
    fn arbitrary_text_does_not_panic_in_patterns_and_grants(text in "(\\PC|[.*:=]){0,40}") {
        if let Ok(pattern) = NamePattern::parse(&text) {
            let _ = pattern.matches(&identity("web-1.example.com"));
        }
        let _ = TokenGrant::from_tags(std::slice::from_ref(&text));
        let _ = text.parse::<TokenGrantFact>();
    }

    #[test]
    fn grants_round_trip_through_tags(
        names in proptest::collection::vec("[a-z*]{1,5}(\\.[a-z]{1,5}){0,2}", 1..5),
        uses in proptest::option::of(1..1000_u32),
        facts in proptest::collection::btree_map("[a-zA-Z_.-]{1,8}", "[^\\p{C}]{0,20}", 0..5),
    ) {
        let names: Result<Vec<_>, _> = names.iter().map(|name| NamePattern::parse(name)).collect();
        prop_assume!(names.is_ok());
        let grant = TokenGrant { names: names.unwrap(), uses, facts };
        prop_assert_eq!(TokenGrant::from_tags(&grant.to_tags().unwrap()).unwrap(), grant);
    }
}
