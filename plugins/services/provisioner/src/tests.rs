//! Unit tests of the plan, the node record and the choice of masters.
//! `tests/it/provisioning/mod.rs` tests the service with a real broker, real nodes and a certificate authority.

use muster_api::wire::identity::Identity;
use muster_contract::provisioner::ProvisioningState;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::masters::{PuppetMaster, choose_master};
use crate::options::{Options, StepName};
use crate::plan::{ProvisioningPlan, ProvisioningPlanError, RetryBackoff};
use crate::record::{NextAction, NodeRecord, StepError};

fn identity(name: &str) -> Identity {
    Identity::parse(name).unwrap()
}

fn options(value: Value) -> Options {
    serde_json::from_value(value).unwrap()
}

fn names(plan: &ProvisioningPlan) -> Vec<&str> {
    plan.steps().iter().map(|step| step.name.as_str()).collect()
}

const PAUSES: RetryBackoff = RetryBackoff { initial: 1_000, max: 60_000 };

#[test]
fn default_plan_has_the_documented_steps() {
    let plan = ProvisioningPlan::from_options(&Options::default()).unwrap();
    assert_eq!(
        names(&plan),
        [
            "lock",
            "place",
            "set_puppet_host",
            "clean",
            "request_certificate",
            "sign",
            "bootstrap",
            "final_run",
            "release",
            "notify"
        ]
    );
}

#[test]
fn steps_can_be_disabled_added_moved_and_replaced() {
    let plan = ProvisioningPlan::from_options(&options(json!({ "steps": [
        { "name": "bootstrap", "enabled": false },
        { "name": "daemonize" },
        { "name": "monitoring", "agent": { "agent": "nagios", "action": "add", "inputs": { "host": "{{identity}}" } }, "after": "final_run" },
        { "name": "inventory", "helper": { "command": ["/usr/bin/true"] } },
        { "name": "configure", "inputs": { "configuration": { "log.level": "debug" } } },
        { "name": "sign", "helper": { "command": ["/usr/local/bin/sign"], "timeout": 30 } },
    ] })))
    .unwrap();
    assert_eq!(
        names(&plan),
        [
            "lock",
            "configure",
            "place",
            "set_puppet_host",
            "clean",
            "request_certificate",
            "sign",
            "final_run",
            "monitoring",
            "daemonize",
            "inventory",
            "release",
            "notify"
        ]
    );
}

#[test]
fn plan_without_puppet_ends_and_keeps_the_steps_that_are_named() {
    let plan = |steps: Value| {
        ProvisioningPlan::from_options(&options(json!({ "puppet": false, "steps": steps })))
    };
    assert_eq!(names(&plan(json!([])).unwrap()), ["lock", "release", "notify"]);
    let named = json!([
        { "name": "configure", "inputs": { "configuration": { "log.level": "debug" } } },
        { "name": "site", "agent": { "agent": "catalog", "action": "apply" }, "after": "configure" },
        { "name": "place" },
    ]);
    assert_eq!(
        names(&plan(named).unwrap()),
        ["lock", "configure", "site", "place", "release", "notify"]
    );
    let disabled = plan(json!([{ "name": "lock", "enabled": false }])).unwrap();
    assert_eq!(names(&disabled), ["release", "notify"]);
}

#[test]
fn invalid_plans_and_unknown_options_are_refused() {
    let refused = |steps: Value| {
        ProvisioningPlan::from_options(&options(json!({ "steps": steps }))).unwrap_err()
    };
    let name = |text: &str| StepName::try_from(text.to_owned()).unwrap();
    assert_eq!(
        refused(json!([{ "name": "sign", "after": "lock" }])),
        ProvisioningPlanError::Order { step: name("sign"), needs: name("request_certificate") }
    );
    assert_eq!(
        refused(json!([{ "name": "puppet_daemonize" }])),
        ProvisioningPlanError::Unknown(name("puppet_daemonize"))
    );
    assert_eq!(
        refused(json!([{ "name": "clean", "after": "nothing" }])),
        ProvisioningPlanError::NoSuch { step: name("clean"), after: name("nothing") }
    );
    assert_eq!(refused(json!([{ "name": "configure" }])), ProvisioningPlanError::NothingToDeliver);
    let misspelt = refused(json!([{ "name": "configure", "inputs": { "polices": {} } }]));
    assert!(misspelt.to_string().contains("unknown field `polices`"), "{misspelt}");
    assert_eq!(
        refused(json!([{ "name": "configure", "helper": { "command": [] } }])),
        ProvisioningPlanError::NoProgram(name("configure"))
    );
    assert_eq!(
        refused(json!([{ "name": "sign" }, { "name": "sign", "enabled": false }])),
        ProvisioningPlanError::Duplicate(name("sign"))
    );
    let read =
        |value: Value| serde_json::from_value::<Options>(value).map_err(|error| error.to_string());
    let hook = |more: Value| {
        let mut target = json!({ "name": "hook", "kind": "webhook", "url": "https://example.net", "events": ["failed"] });
        target.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "notify": [target] })
    };
    assert!(read(json!({ "stepps": [] })).unwrap_err().contains("stepps"));
    assert!(read(hook(json!({ "urll": 1 }))).unwrap_err().contains("urll"));
    assert!(read(hook(json!({ "kind": "pigeon" }))).unwrap_err().contains("pigeon"));
    assert_eq!(read(hook(json!({}))).unwrap().notify.len(), 1);
}

#[test]
fn webhook_urls_are_https_or_loopback() {
    let read = |url: &str| {
        let target = json!({ "name": "hook", "kind": "webhook", "url": url });
        serde_json::from_value::<Options>(json!({ "notify": [target] }))
            .map_err(|error| error.to_string())
    };
    for (url, good) in [
        ("https://hooks.example.net/a?b=c", true),
        ("http://127.0.0.1:8080/", true),
        ("http://[::1]:8080/", true),
        ("http://localhost", true),
        ("http://hooks.example.net/", false),
        ("http://127.0.0.1.example.net/", false),
        ("http://localhost@example.net/", false),
        ("https://rip:hush@example.net/", false),
        ("https:///nobody", false),
        ("https://example.net/a b", false),
        ("file:///etc/passwd", false),
        ("example.net", false),
    ] {
        match read(url) {
            Ok(_) => assert!(good, "{url}"),
            Err(told) => assert!(!good && !told.contains("hush"), "{url}: {told}"),
        }
    }
}

fn master(name: &str, facts: Value) -> PuppetMaster {
    let Value::Object(facts) = facts else {
        panic!("facts are an object");
    };
    PuppetMaster { identity: identity(name), address: "192.0.2.1".to_owned(), facts }
}

/// A9.1: the first criterion that matches decides, not the last one; ties are broken deterministically.
#[test]
fn first_matching_criterion_chooses_the_master() {
    let masters = [
        master("puppet-a.example.net", json!({ "region": "a", "country": "de" })),
        master("puppet-b.example.net", json!({ "region": "b", "country": "fr" })),
    ];
    let criteria = ["region".to_owned(), "country".to_owned()];
    let placed = |facts: Value, any| {
        let facts = facts.as_object().unwrap().clone();
        choose_master(&identity("web1.example.net"), &facts, &criteria, &masters, any).map(
            |placement| {
                (placement.master.identity.to_string(), placement.criterion.map(str::to_owned))
            },
        )
    };
    let at = |name: &str, by: &str| Some((format!("{name}.example.net"), Some(by.to_owned())));
    assert_eq!(placed(json!({ "region": "a", "country": "fr" }), true), at("puppet-a", "region"));
    assert_eq!(placed(json!({ "region": "c", "country": "fr" }), true), at("puppet-b", "country"));
    assert_eq!(placed(json!({ "region": "", "country": null }), false), None);
    let any = placed(json!({ "region": "c" }), true).unwrap();
    assert_eq!(any.1, None);
    assert_eq!(placed(json!({ "region": "c" }), true), Some(any));
}

#[test]
fn nodes_are_spread_over_equal_masters() {
    let masters: Vec<PuppetMaster> = (1..=4)
        .map(|number| master(&format!("puppet{number}.example.net"), json!({ "region": "a" })))
        .collect();
    let facts = json!({ "region": "a" }).as_object().unwrap().clone();
    let criteria = ["region".to_owned()];
    let mut counts = std::collections::BTreeMap::new();
    for number in 0..1_000 {
        let node = identity(&format!("web{number}.example.net"));
        let chosen = choose_master(&node, &facts, &criteria, &masters, false).unwrap();
        *counts.entry(chosen.master.identity.clone()).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 4);
    assert!(counts.values().all(|count| (150..350).contains(count)), "{counts:?}");
}

#[test]
fn failing_step_is_retried_with_backoff_and_then_fails() {
    let plan = ProvisioningPlan::from_options(&Options::default()).unwrap();
    let mut record = NodeRecord::new(identity("web1.example.net"), Uuid::nil(), 0);
    let lock = plan.steps()[0].name.clone();
    let mut now = 0;
    for attempt in 1..=3 {
        assert!(
            matches!(record.next_action(&plan, now), NextAction::Step(step) if step.name == lock)
        );
        record.begin_step(&lock, now);
        assert_eq!(record.current.as_ref().unwrap().attempt, attempt);
        record.fail_step(&lock, &StepError::transient("not connected"), 3, PAUSES, now);
        if attempt < 3 {
            let NextAction::Wait(until) = record.next_action(&plan, now) else {
                panic!("it must wait");
            };
            assert_eq!(until - now, PAUSES.delay_after(attempt));
            now = until;
        }
    }
    assert_eq!(record.state, ProvisioningState::Failed);
    assert_eq!(record.error.as_deref(), Some("lock: not connected"));
    assert_eq!(record.next_action(&plan, now), NextAction::Settle);
    record.mark_settled(now);
    assert_eq!(record.next_action(&plan, now), NextAction::Rest);
    assert!(record.request_retry(&identity("anna"), now));
    assert!(matches!(record.next_action(&plan, now), NextAction::Step(step) if step.name == lock));
}

#[test]
fn interrupted_step_is_repeated_without_using_an_attempt() {
    let plan = ProvisioningPlan::from_options(&Options::default()).unwrap();
    let lock = plan.steps()[0].name.clone();
    let mut record = NodeRecord::new(identity("web1.example.net"), Uuid::nil(), 0);
    for _ in 0..20 {
        record.begin_step(&lock, 1);
        let kept = serde_json::to_vec(&record).unwrap();
        record = serde_json::from_slice(&kept).unwrap();
        assert!(
            matches!(record.next_action(&plan, 2), NextAction::Step(step) if step.name == lock)
        );
    }
    assert_eq!(record.current.as_ref().unwrap().attempt, 1);
    record.finish_step(&lock, Map::new(), 3);
    assert!(
        matches!(record.next_action(&plan, 3), NextAction::Step(step) if step.name == plan.steps()[1].name)
    );
}

proptest! {
    /// For any sequence of events: a finished step does not begin again unless its effect was undone, a paused record
    /// rests, and if all later steps succeed, the whole plan gets done.
    #[test]
    fn every_record_can_finish(events in proptest::collection::vec(0..6_u8, 0..80)) {
        let plan = ProvisioningPlan::from_options(&Options::default()).unwrap();
        let by = identity("anna");
        let mut record = NodeRecord::new(identity("web1.example.net"), Uuid::nil(), 0);
        let mut now = 0;
        for event in events {
            now += 100_000;
            match (record.next_action(&plan, now), event) {
                (NextAction::Step(step), 0) => {
                    prop_assert!(!record.done.contains(&step.name));
                    record.begin_step(&step.name, now);
                }
                (NextAction::Step(step), 1) => record.finish_step(&step.name, Map::new(), now),
                (NextAction::Step(step), 2) => {
                    record.begin_step(&step.name, now);
                    record.fail_step(&step.name, &StepError::transient("x"), 2, PAUSES, now);
                }
                (NextAction::Step(step), 3) => record.fail_step(&step.name, &StepError::permanent("x"), 2, PAUSES, now),
                (NextAction::Settle, 0..4) => {
                    record.mark_compensated(Map::new(), now);
                    record.mark_settled(now);
                }
                (_, 4) => {
                    let paused = !record.paused;
                    record.set_paused(paused, &by, now);
                    prop_assert!(!paused || record.next_action(&plan, now) == NextAction::Rest);
                }
                (_, 5) => { record.request_retry(&by, now); }
                _ => {}
            }
        }
        record.set_paused(false, &by, now);
        for _ in 0..100 {
            now += 100_000;
            match record.next_action(&plan, now) {
                NextAction::Step(step) => {
                    let name = step.name.clone();
                    record.begin_step(&name, now);
                    record.finish_step(&name, Map::new(), now);
                }
                NextAction::Settle => record.mark_settled(now),
                NextAction::Rest if record.state == ProvisioningState::Failed => { record.request_retry(&by, now); }
                NextAction::Rest => break,
                other => prop_assert!(false, "{other:?}"),
            }
        }
        prop_assert_eq!(record.done.len(), plan.steps().len());
    }
}

/// A9.10: the results of a helper, including unusable output.
#[tokio::test]
async fn helper_returns_values_defers_or_fails() {
    use crate::options::HelperStep;
    use crate::record::FailureKind;
    use muster_api::system::real::RealSystem;
    use std::sync::Arc;

    let record = NodeRecord::new(identity("web1.example.net"), Uuid::nil(), 0);
    let ask = async |script: &str, timeout: u64| {
        let helper =
            HelperStep { command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(), timeout };
        let system = Arc::new(RealSystem::new("/".into()));
        crate::helper::run_helper(system, &helper, &record).await
    };
    let found = ask(
        r#"read -r record; case $record in *web1.example.net*) echo '{"rack": 7, "msg": "x"}';; esac"#,
        10,
    );
    assert_eq!(Value::Object(found.await.unwrap()), json!({ "rack": 7 }));

    for (script, trouble, words) in [
        (r#"echo '{"defer": true, "msg": "no quota yet"}'"#, FailureKind::Deferred, "no quota yet"),
        (r#"echo '{"fail": "not ours"}'"#, FailureKind::Permanent, "not ours"),
        ("echo nonsense; echo 'bad day' >&2", FailureKind::Deferred, "bad day"),
        ("echo '[]'", FailureKind::Deferred, "did not print a JSON object"),
        (
            "echo 'disk on fire' >&2; exit 3",
            FailureKind::Deferred,
            "exited with code 3: disk on fire",
        ),
        // Only the end of much output on standard error is kept.
        ("yes x | head -c 3000000 >&2; echo the cause >&2", FailureKind::Deferred, "the cause"),
    ] {
        let error = ask(script, 10).await.unwrap_err();
        assert_eq!(error.kind, trouble, "{script}");
        assert!(error.message.contains(words), "{script}: {error}");
        assert!(error.message.len() < 400, "{script}: {error}");
    }
    let begun = std::time::Instant::now();
    let error =
        ask("echo 'waiting for the database' >&2; sleep 60 & sleep 60", 1).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Deferred);
    assert!(error.message.ends_with(": waiting for the database"), "{error}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(30));
}
