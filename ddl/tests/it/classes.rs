//! The reviewed class of every built-in action, and the default class of documents without classes.

use muster_ddl::ActionClass::{self, Change, Read, RootEquivalent};
use muster_ddl::{AgentDdl, BUILTIN_AGENTS};
use serde_json::json;

/// A change of this table changes which actions need a second person: a `root_equivalent` action can run arbitrary programs as
/// root, transfer the node to another authority, or destroy data.
const REVIEWED: &[(&str, &str, ActionClass)] = &[
    ("again", "request", Change),
    ("again", "cancel", Change),
    ("again", "reset", Change),
    ("again", "release", Change),
    ("again", "note_missing", Read),
    ("again", "list", Read),
    ("again", "history", Read),
    ("catalog", "apply", RootEquivalent),
    ("catalog", "plan", Read),
    ("catalog", "lint", Read),
    ("compiler", "compile", Change),
    ("compiler", "announce", Change),
    ("compiler", "check", Read),
    ("compiler", "list", Read),
    ("compiler", "show", Read),
    ("compiler", "catalog", Read),
    ("compiler", "environments", Read),
    ("compiler", "draft", Change),
    ("compiler", "publish", Change),
    ("compiler", "releases", Read),
    ("compiler", "release", Read),
    ("compiler", "diff", Read),
    ("compiler", "promote", Change),
    ("compiler", "content", Read),
    ("compiler", "verify", Read),
    ("compiler", "collect", Change),
    ("config", "deploy", RootEquivalent),
    ("config", "upgrade", RootEquivalent),
    ("config", "confirm", Change),
    ("config", "revert", RootEquivalent),
    ("config", "status", Read),
    ("config", "who", Read),
    ("directory", "find", Read),
    ("directory", "list", Read),
    ("directory", "show", Read),
    ("directory", "facets", Read),
    ("directory", "changes", Read),
    ("directory", "forget", Change),
    ("directory", "status", Read),
    ("filecopy", "begin", Change),
    ("filecopy", "write", Change),
    ("filecopy", "finish", Change),
    ("filecopy", "abort", Change),
    ("filecopy", "inspect", Read),
    ("filecopy", "read", Read),
    ("filemgr", "status", Read),
    ("filemgr", "list", Read),
    ("filemgr", "read", Read),
    ("filemgr", "touch", Change),
    ("filemgr", "mkdir", Change),
    ("filemgr", "remove", RootEquivalent),
    ("history", "query", Read),
    ("history", "runs", Read),
    ("history", "drift", Read),
    ("history", "report", Read),
    ("history", "statistics", Read),
    ("ledger", "list", Read),
    ("ledger", "replay", Change),
    ("ledger", "drop", Change),
    ("motd", "register", Change),
    ("motd", "unregister", Change),
    ("motd", "render", Read),
    ("nettest", "connect", Read),
    ("nettest", "dns", Read),
    ("nettest", "ping", Read),
    ("nrpe", "runcommand", Read),
    ("nrpe", "runallcommands", Read),
    ("nrpe", "checks", Read),
    ("nrpe", "trigger", Change),
    ("nrpe", "acknowledge", Change),
    ("nrpe", "unacknowledge", Change),
    ("nrpe", "maintenance", Change),
    ("nrpe", "endmaintenance", Change),
    ("package", "install", RootEquivalent),
    ("package", "update", Change),
    ("package", "uninstall", RootEquivalent),
    ("package", "purge", RootEquivalent),
    ("package", "status", Read),
    ("package", "checkupdates", Read),
    ("package", "refresh", Change),
    ("permit", "list", Read),
    ("permit", "release", Change),
    ("process", "list", Read),
    ("process", "summary", Read),
    ("process", "kill", Change),
    ("provision", "lock", RootEquivalent),
    ("provision", "unlock", RootEquivalent),
    ("provision", "is_locked", Read),
    ("provision", "disable", RootEquivalent),
    ("provision", "is_disabled", Read),
    ("provision", "release", RootEquivalent),
    ("provision", "reprovision", RootEquivalent),
    ("provision", "configure", RootEquivalent),
    ("provision", "set_puppet_host", RootEquivalent),
    ("provision", "has_cert", Read),
    ("provision", "request_certificate", RootEquivalent),
    ("provision", "bootstrap_puppet", RootEquivalent),
    ("provision", "run_puppet", RootEquivalent),
    ("provision", "daemonize_puppet", RootEquivalent),
    ("provisioner", "status", Read),
    ("provisioner", "retry", Change),
    ("provisioner", "pause", Change),
    ("provisioner", "resume", Change),
    ("provisioner", "retire", RootEquivalent),
    ("puppet", "status", Read),
    ("puppet", "runonce", Change),
    ("puppet", "runs", Read),
    ("puppet", "enable", Change),
    ("puppet", "disable", Change),
    ("puppet", "last_run_summary", Read),
    ("puppet", "last_run_report", Read),
    ("puppet", "locks", Read),
    ("puppetca", "list", Read),
    ("puppetca", "status", Read),
    ("puppetca", "sign", RootEquivalent),
    ("puppetca", "revoke", RootEquivalent),
    ("puppetca", "clean", RootEquivalent),
    ("puppetral", "do", RootEquivalent),
    ("puppetral", "plan", Read),
    ("puppetral", "find", Read),
    ("puppetral", "search", Read),
    ("release", "promote", RootEquivalent),
    ("release", "plan", Read),
    ("release", "apply", RootEquivalent),
    ("release", "status", Read),
    ("release", "held", Read),
    ("restart", "request", Change),
    ("restart", "status", Read),
    ("rpcutil", "ping", Read),
    ("rpcutil", "inventory", Read),
    ("rpcutil", "get_fact", Read),
    ("rpcutil", "get_facts", Read),
    ("rpcutil", "daemon_stats", Read),
    ("rpcutil", "agent_inventory", Read),
    ("rpcutil", "ddl", Read),
    ("rpcutil", "collective_info", Read),
    ("rpcutil", "get_config_item", Read),
    ("rpcutil", "get_data", Read),
    ("rpcutil", "running", Read),
    ("rpcutil", "cancel", Change),
    ("rpcutil", "cancel_any", Change),
    ("rpcutil", "diagnose", Read),
    ("schedule", "add", Change),
    ("schedule", "list", Read),
    ("schedule", "show", Read),
    ("schedule", "pause", Change),
    ("schedule", "resume", Change),
    ("schedule", "remove", Change),
    ("schedule", "rebalance", Change),
    ("schedule", "history", Read),
    ("service", "status", Read),
    ("service", "start", Change),
    ("service", "stop", Change),
    ("service", "restart", Change),
    ("shell", "run", RootEquivalent),
    ("shell", "start", RootEquivalent),
    ("shell", "status", Read),
    ("shell", "tail", Read),
    ("shell", "list", Read),
    ("shell", "kill", Change),
    ("ssh", "login", Read),
    ("ssh_ca", "sign", Change),
    ("tunnel", "open", Change),
];

#[test]
fn built_in_actions_have_their_reviewed_classes() {
    let mut declared = Vec::new();
    for (agent, document) in BUILTIN_AGENTS {
        let raw: serde_json::Value = serde_json::from_str(document).unwrap();
        let ddl = AgentDdl::from_slice(document.as_bytes()).unwrap();
        for (action, raw) in ddl.actions().iter().zip(raw["actions"].as_array().unwrap()) {
            let written = raw["class"].as_str();
            assert_eq!(written, Some(action.class().as_str()), "{agent} {}", action.name());
            declared.push((*agent, action.name().to_owned(), action.class()));
        }
    }
    let reviewed: Vec<_> = REVIEWED
        .iter()
        .map(|(agent, action, class)| (*agent, (*action).to_owned(), *class))
        .collect();
    assert_eq!(declared, reviewed);
}

fn load(keys: serde_json::Value) -> Result<ActionClass, String> {
    let mut action = json!({"action": "act"});
    action.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    let document = json!({"metadata": {"name": "a"}, "actions": [action]}).to_string();
    let ddl = AgentDdl::from_slice(document.as_bytes()).map_err(|error| error.to_string())?;
    let action = ddl.find_action("act").unwrap();
    assert_eq!(action.is_dangerous(), action.class() == RootEquivalent);
    Ok(action.class())
}

#[test]
fn document_without_classes_gets_safe_defaults() {
    for (keys, class) in [
        (json!({}), RootEquivalent),
        (json!({"read_only": true}), Read),
        (json!({"dangerous": true}), RootEquivalent),
        (json!({"read_only": true, "dangerous": true}), RootEquivalent),
        (json!({"class": "change"}), Change),
        (json!({"class": "root_equivalent", "read_only": true}), RootEquivalent),
    ] {
        assert_eq!(load(keys.clone()), Ok(class), "{keys}");
    }
}

#[test]
fn class_that_contradicts_other_keys_is_refused() {
    for (keys, told) in [
        (json!({"class": "read"}), "the class `read` needs `read_only: true`"),
        (json!({"class": "change", "read_only": true}), "contradicts `read_only: true`"),
        (json!({"class": "change", "dangerous": true}), "contradicts `dangerous: true`"),
        (json!({"class": "harmless"}), "not a JSON document"),
    ] {
        let refused = load(keys.clone()).unwrap_err();
        assert!(refused.contains(told), "{keys}: {refused}");
    }
}
