//! Identities and subject names have exactly one spelling.

use muster_wire::identity::{Identity, SubjectName};
use muster_wire::subject::{self, RequestAddress};
use proptest::prelude::*;

proptest! {
    #[test]
    fn parsed_identity_is_canonical(text in "\\PC{0,40}|[A-Za-z0-9._-]{1,260}") {
        if let Ok(identity) = Identity::parse(&text) {
            prop_assert_eq!(Identity::parse(identity.as_str()).unwrap(), identity.clone());
            prop_assert_eq!(identity.as_str().to_ascii_lowercase(), identity.as_str());
            prop_assert_eq!(identity.as_str(), text.trim_end_matches('.').to_ascii_lowercase());
        }
    }

    /// A parsed name has no empty label and no character with a meaning to a broker, a path or a shell.
    #[test]
    fn parsed_name_is_one_subject_token_and_one_path_component(text in "\\PC{0,40}|[a-zA-Z0-9./*>\\\\$ _-]{1,40}|[a-c.-]{1,9}") {
        let plain = |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c));
        if let Ok(identity) = Identity::parse(&text) {
            for label in identity.as_str().split('.') {
                prop_assert!(!label.is_empty() && !label.starts_with('-') && plain(label), "{}", identity);
            }
        }
        if let Ok(name) = SubjectName::parse(&text) {
            prop_assert!(name.as_str().starts_with(|c: char| c.is_ascii_lowercase()) && plain(name.as_str()), "{}", name);
        }
    }

    #[test]
    fn valid_identities_round_trip_as_json(text in "[a-z0-9_]{1,20}(\\.[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?){0,5}") {
        let identity = Identity::parse(&text).unwrap();
        let json = serde_json::to_string(&identity).unwrap();
        prop_assert_eq!(serde_json::from_str::<Identity>(&json).unwrap(), identity);
    }

    #[test]
    fn built_subject_parses_to_its_parts(
        names in prop::collection::vec("[a-z][a-z0-9_]{0,20}", 3),
        node in prop::option::of("[a-z0-9]{1,9}(\\.[a-z0-9]{1,9}){0,3}"),
    ) {
        let names: Vec<SubjectName> = names.iter().map(|n| SubjectName::parse(n).unwrap()).collect();
        let node = node.map(|n| Identity::parse(&n).unwrap());
        let text = match &node {
            None => subject::broadcast_request(&names[0], &names[1], &names[2]),
            Some(node) => subject::node_request(&names[0], &names[1], &names[2], node),
        };
        let address = RequestAddress::parse(&text).unwrap();
        prop_assert_eq!((&address.collective, &address.agent, &address.action), (&names[0], &names[1], &names[2]));
        prop_assert_eq!(address.node, node);
    }
}

#[test]
fn names_unsafe_in_a_subject_or_a_path_are_refused() {
    for bad in [
        "", ".", "..", "a..b", ".a", "a.*", ">", "a b", "a/b", "-a", "a-", "a.-b", "ä", "a\n",
        "a\0",
    ] {
        assert!(Identity::parse(bad).is_err(), "{bad:?}");
        assert!(SubjectName::parse(bad).is_err(), "{bad:?}");
    }
    assert!(Identity::parse(&"a".repeat(64)).is_err());
    assert!(Identity::parse(&["a"; 127].join(".")).is_ok());
    assert!(Identity::parse(&["a"; 128].join(".")).is_err());
    for bad in ["a.b", "1a", "_a"] {
        assert!(SubjectName::parse(bad).is_err(), "{bad:?}");
    }
}
