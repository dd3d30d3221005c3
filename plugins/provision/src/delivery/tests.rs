//! Unit tests of the names, values and sizes that a node accepts.

use std::collections::BTreeMap;

use muster_api::ActionError;
use muster_api::wire::status::ReplyReason;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{AcceptedDelivery, DeliveryRefusal, MAX_POLICY_BYTES, NodeDelivery, SettingPattern};

fn patterns(keys: &[&str]) -> Vec<SettingPattern> {
    serde_json::from_value(json!(keys)).unwrap()
}

fn check_settings(accepted: &[&str], settings: Value) -> Result<NodeDelivery, DeliveryRefusal> {
    let accepted = patterns(accepted);
    let settings: Map<String, Value> = serde_json::from_value(settings).unwrap();
    AcceptedDelivery { settings: &accepted, policies: false }.check(Some(settings), None)
}

fn check_policies(names: &[&str]) -> Result<NodeDelivery, DeliveryRefusal> {
    let text = |name: &&str| ((*name).to_owned(), "policy default deny\n".to_owned());
    let policies = names.iter().map(text).collect();
    AcceptedDelivery { settings: &[], policies: true }.check(None, Some(policies))
}

/// A9.10: keys are sorted, and each is one line of TOML that means the delivered value.
#[test]
fn settings_are_rendered_as_sorted_lines() {
    let settings = json!({
        "plugins.puppet.command": ["/opt/puppet", "a\"b\\c"],
        "limits.agents.service.queue": 3,
        "facts.cloud_imds_v1": true,
        "log.level": "debug",
    });
    let accepted = ["facts.*", "log.level", "limits.*", "plugins.puppet.*"];
    let delivered = check_settings(&accepted, settings).unwrap().settings.unwrap();
    assert_eq!(
        delivered.keys,
        [
            "facts.cloud_imds_v1",
            "limits.agents.service.queue",
            "log.level",
            "plugins.puppet.command"
        ]
    );
    let text = delivered.text.unwrap();
    let (comment, lines) = text.split_once('\n').unwrap();
    assert!(comment.starts_with("# Written by the agent `provision`"), "{comment}");
    assert_eq!(
        lines,
        "facts.cloud_imds_v1 = true\nlimits.agents.service.queue = 3\nlog.level = \"debug\"\n\
         plugins.puppet.command = [\"/opt/puppet\",\"a\\\"b\\\\c\"]\n"
    );
    let nothing = check_settings(&["log.level"], json!({})).unwrap().settings.unwrap();
    assert_eq!(nothing.text, None);
}

/// A9.10: a line break in a value is refused, also in a list.
#[test]
fn line_breaks_and_structures_are_refused() {
    let refused = |value: Value| check_settings(&["log.level"], json!({ "log.level": value }));
    let key = || "log.level".to_owned();
    for value in [json!("a\nb"), json!("a\r"), json!(["x", "y\n"]), json!("\u{0}"), json!("\u{7f}")]
    {
        assert_eq!(refused(value), Err(DeliveryRefusal::ControlCharacter(key())));
    }
    for value in [json!(null), json!({}), json!([["a"]]), json!([null])] {
        assert_eq!(refused(value), Err(DeliveryRefusal::Kind(key())));
    }
}

#[test]
fn only_listed_settings_are_accepted() {
    let refused =
        |accepted: &[&str], key: &str| check_settings(accepted, json!({ key: "x" })).unwrap_err();
    assert_eq!(refused(&[], "log.level"), DeliveryRefusal::AnySetting);
    for key in ["trust.operator", "log", "log.level.x", "log.levels", "factsx.y", "facts"] {
        let expected = DeliveryRefusal::Setting(key.to_owned());
        assert_eq!(refused(&["log.level", "facts.*"], key), expected);
    }
    for key in ["plugins.provision.accept_policies", "plugins.provision"] {
        let expected = DeliveryRefusal::OwnSetting(key.to_owned());
        assert_eq!(refused(&["plugins.*", "plugins.provision"], key), expected);
    }
    for key in ["identity", "paths.state"] {
        let expected = DeliveryRefusal::FixedSetting(key.to_owned());
        assert_eq!(refused(&["identity", "paths.*"], key), expected);
    }
    let too_long = "x".repeat(201);
    for key in ["", ".", "a..b", "a b", "a=b", "a\nb", "a.b\" = 1", "ä", too_long.as_str()] {
        assert!(matches!(refused(&["a.*"], key), DeliveryRefusal::Key(_)), "{key:?}");
    }
    let error = ActionError::from(refused(&["facts.*"], "trust.operator"));
    let rule = "plugins.provision.accept_settings".to_owned();
    assert_eq!(error.reason, Some(ReplyReason::Denied { rule }));
    for pattern in ["*", ".*", "", "a.", "a.*.b", "a*", "a b"] {
        assert!(serde_json::from_value::<SettingPattern>(json!(pattern)).is_err(), "{pattern}");
    }
}

/// A9.10: the names of policies match `^[a-z0-9_]+\.(policy|rego)$`. Nodes evaluate no Rego, so such a file is refused all the same.
#[test]
fn names_of_policies_are_checked() {
    let delivered = check_policies(&["service.policy", "my_agent2.policy"]).unwrap();
    assert_eq!(delivered.policies.len(), 2);
    let too_long = format!("{}.policy", "a".repeat(200));
    for name in [
        "../x.policy",
        "X.policy",
        "a.txt",
        "",
        ".policy",
        "a.b.policy",
        "a/b.policy",
        "a.policy\n",
        "groups",
        "a-b.policy",
        "/etc/passwd",
        "a.policy/../b.policy",
        "ä.policy",
        too_long.as_str(),
    ] {
        assert!(
            matches!(
                check_policies(&["service.policy", name]),
                Err(DeliveryRefusal::PolicyName(_))
            ),
            "{name:?}"
        );
    }
    let rego = check_policies(&["service.rego"]).unwrap_err();
    assert_eq!(rego, DeliveryRefusal::Rego("service.rego".to_owned()));
    let off = AcceptedDelivery { settings: &patterns(&["a.*"]), policies: false };
    assert_eq!(off.check(None, Some(BTreeMap::new())), Err(DeliveryRefusal::Policies));
}

#[test]
fn numbers_and_sizes_are_limited() {
    let many: Map<String, Value> = (0..257).map(|n| (format!("a.k{n}"), Value::from(n))).collect();
    assert!(matches!(
        check_settings(&["a.*"], Value::Object(many)),
        Err(DeliveryRefusal::TooMany { found: 257, limit: 256, .. })
    ));
    assert!(matches!(
        check_settings(&["a.*"], json!({ "a.b": "x".repeat(70_000) })),
        Err(DeliveryRefusal::TooLarge { .. })
    ));
    let names: Vec<String> = (0..65).map(|n| format!("a{n}.policy")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert!(matches!(check_policies(&names), Err(DeliveryRefusal::TooMany { .. })));
    let half = "#".repeat(MAX_POLICY_BYTES / 2 + 1);
    let policies = ["a.policy", "b.policy"].map(|name| (name.to_owned(), half.clone()));
    assert!(matches!(
        AcceptedDelivery { settings: &[], policies: true }.check(None, Some(policies.into())),
        Err(DeliveryRefusal::TooLarge { .. })
    ));
}

proptest! {
    /// No value makes more than one line, or another key, of its line.
    #[test]
    fn every_accepted_value_is_one_line(text in any::<String>()) {
        if let Ok(delivery) = check_settings(&["log.level"], json!({ "log.level": text })) {
            let file = delivery.settings.unwrap().text.unwrap();
            prop_assert_eq!(file.lines().count(), 2);
            let line = file.lines().nth(1).unwrap();
            let value = line.strip_prefix("log.level = ").unwrap();
            prop_assert_eq!(serde_json::from_str::<String>(value).unwrap(), text);
        } else {
            prop_assert!(text.contains(char::is_control));
        }
    }
}
