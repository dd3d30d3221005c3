//! Any sequence of desired users converges: after each apply, a second one changes nothing.

use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

use super::node::Node;

fn any_user() -> impl Strategy<Value = Json> {
    let some = |strategy: BoxedStrategy<Json>| proptest::option::of(strategy).boxed();
    let days = || (-1_i64..100).prop_map(Json::from).boxed();
    (
        some("[ -9;-~é]{0,12}".prop_map(Json::from).boxed()),
        some((1100_u32..1200).prop_map(Json::from).boxed()),
        some(proptest::sample::select(vec!["g1", "g2", "5001"]).prop_map(Json::from).boxed()),
        some(
            proptest::sample::subsequence(vec!["g1", "g2", "g3"], 0..=3)
                .prop_map(|g| json!(g))
                .boxed(),
        ),
        some("/home/[a-z]{1,5}".prop_map(Json::from).boxed()),
        some("\\$6\\$[a-zA-Z0-9./$]{1,20}".prop_map(Json::from).boxed()),
        (some(days()), some(days()), some(days())),
        some(
            proptest::sample::select(vec!["absent", "2031-01-01", "1999-12-31"])
                .prop_map(Json::from)
                .boxed(),
        ),
        (proptest::bool::ANY, proptest::bool::ANY, proptest::bool::ANY),
    )
        .prop_map(|(comment, uid, gid, groups, home, password, ages, expiry, flags)| {
            let membership = if flags.0 { "inclusive" } else { "minimum" };
            let mut words = Map::from_iter([
                ("membership".to_owned(), json!(membership)),
                ("managehome".to_owned(), json!(flags.1)),
                ("system".to_owned(), json!(flags.2)),
                ("allowdupe".to_owned(), json!(true)),
            ]);
            let given = [
                ("comment", comment),
                ("uid", uid),
                ("gid", gid),
                ("groups", groups),
                ("home", home),
                ("password", password),
                ("password_min_age", ages.0),
                ("password_max_age", ages.1),
                ("password_warn_days", ages.2),
                ("expiry", expiry),
            ];
            words.extend(
                given.into_iter().filter_map(|(name, word)| Some((name.to_owned(), word?))),
            );
            Json::Object(words)
        })
}

fn settles(node: &Node, steps: &[(String, Json)]) {
    for group in ["g1", "g2", "g3"] {
        node.apply("group", group, json!({}));
    }
    node.apply("group", "g4", json!({"gid": 5001}));
    for (name, wanted) in steps {
        node.apply("user", name, wanted.clone());
    }
    for name in ["a", "b"] {
        node.apply("user", name, json!({"ensure": "absent", "managehome": true}));
    }
    assert_eq!(node.text("/etc/passwd") + &node.text("/etc/shadow"), "");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn users_converge_in_memory(steps in proptest::collection::vec(("[ab]", any_user()), 1..5)) {
        settles(&Node::memory(), &steps);
    }

    #[test]
    fn users_converge_on_disk(steps in proptest::collection::vec(("[ab]", any_user()), 1..3)) {
        settles(&Node::scratch().1, &steps);
    }
}
