//! Tests of types that the local Puppet implements, not the engine: permission and effect.
//!
//! The second test passes without Puppet, except in continuous integration.

use std::path::Path;

use muster_api::system::real::RealSystem;
use serde_json::{Value, json};

use super::{Machine, memory};

#[tokio::test]
async fn puppet_types_must_be_allowed_by_name_and_need_the_real_root() {
    let machine = Machine::new(RealSystem::new("/".into()), json!({"ruby": "/no/such/ruby"}));
    let wanted = json!({"type": "augeas", "name": "x", "changes": "set a b"});
    let unknown = machine.ask("do", wanted.clone()).await.unwrap_err();
    assert!(unknown.to_string().contains("no resource type `augeas`"), "{unknown}");
    let options = json!({"allow_types": ["augeas"], "ruby": "/no/such/ruby"});
    let machine = Machine::new(RealSystem::new("/".into()), options);
    let absent = machine.ask("do", wanted.clone()).await.unwrap_err();
    assert!(absent.to_string().contains("install puppet-agent"), "{absent}");
    let machine = Machine::new(memory(), json!({"allow_types": ["augeas"]}));
    let elsewhere = machine.ask("do", wanted).await.unwrap_err();
    assert!(elsewhere.to_string().contains("not another root"), "{elsewhere}");
}

#[tokio::test]
async fn augeas_is_planned_applied_and_then_unchanged() {
    if !Path::new("/usr/share/puppet/modules/augeas_core").exists() {
        assert!(
            std::env::var_os("CI").is_none(),
            "puppet is not installed: run tools/fetch-puppet"
        );
        println!("skipped: there is no augeas_core on this machine");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let hosts = directory.path().join("hosts");
    std::fs::write(&hosts, "127.0.0.1\tlocalhost\n").unwrap();
    let path = |name: &str| Value::from(directory.path().join(name).display().to_string());
    let mut settings = serde_json::Map::new();
    for setting in ["confdir", "codedir", "vardir", "rundir", "logdir", "publicdir", "ssldir"] {
        settings.insert(setting.to_owned(), path(setting));
    }
    settings.insert("basemodulepath".to_owned(), json!("/usr/share/puppet/modules"));
    let denying = json!({"puppet_settings": settings.clone()});
    let machine = Machine::new(RealSystem::new("/".into()), denying);
    let wanted = json!({"type": "augeas", "name": "x"});
    let denied = machine.ask("do", wanted).await.unwrap_err();
    assert!(denied.to_string().contains("allow_types"), "{denied}");
    let options = json!({"allow_types": ["augeas"], "puppet_settings": settings});
    let machine = Machine::new(RealSystem::new("/".into()), options);
    let lens = json!({
        "type": "augeas", "name": "one host", "incl": hosts, "lens": "Hosts.lns",
        "changes": ["set 01/ipaddr 10.0.0.1", "set 01/canonical new.example.net"],
        "onlyif": "match *[ipaddr = '10.0.0.1'] size == 0",
    });
    // The effect of a Puppet provider with these values is unknown, so a plan does not evaluate it.
    let plan = machine.ask("plan", lens.clone()).await.unwrap();
    let result = plan["result"].as_str().unwrap();
    assert!(result.starts_with("not evaluated: "), "{plan}");
    let done = machine.ask("do", lens.clone()).await.unwrap();
    let again = machine.ask("do", lens).await.unwrap();
    assert_eq!(again["changed"], json!(false), "{again}");
    assert_eq!(done["resource"], json!("Augeas[one host]"));
    assert_eq!(done["events"][0]["message"], json!("executed successfully"));
    let text = std::fs::read_to_string(&hosts).unwrap();
    assert!(text.contains("10.0.0.1\tnew.example.net"), "{text}");
    let found = machine.ask("search", json!({"type": "component"})).await.unwrap_err();
    assert!(found.to_string().contains("no resource type `component`"), "{found}");
}
