//! Services without an init system: the providers `supervised` and `base`.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use muster_engine::ResourceEngine;
use muster_engine::event::ChangeEventStatus;
use muster_system::process::wait_until;
use muster_system::real::RealSystem;
use serde_json::json;

use crate::support::{Scratch, apply, converges, error, fake, messages, output};

#[test]
fn supervised_service_is_recognized_by_another_engine() {
    let scratch = Scratch::new();
    let words = |ensure: &str| json!({"ensure": ensure, "provider": "supervised", "start": "echo here; exec sleep 300"});
    let engine = &scratch.engine;
    let events = converges(engine, "service", "worker", words("running"));
    assert_eq!(messages(&events), ["ensure changed 'stopped' to 'running'"]);
    // A second engine knows only the directory, like a daemon after its restart.
    let later = ResourceEngine::new(Arc::new(RealSystem::new(scratch.path("/"))));
    assert!(converges(&later, "service", "worker", words("running")).is_empty());
    // On a busy machine the shell may not have printed yet when the start returns.
    let stdout = scratch.path("/var/lib/muster/services/worker/stdout");
    let printed = || fs::read_to_string(&stdout).is_ok_and(|text| text == "here\n");
    assert!(wait_until(Duration::from_mins(1), printed), "{:?}", fs::read_to_string(&stdout));
    let events = converges(&later, "service", "worker", words("stopped"));
    assert_eq!(messages(&events), ["ensure changed 'running' to 'stopped'"]);
    assert!(printed());
}

#[test]
fn process_that_exits_at_once_fails_the_start() {
    let scratch = Scratch::new();
    let words =
        json!({"ensure": "running", "provider": "supervised", "binary": "echo no >&2; exit 3"});
    let outcome = apply(&scratch.engine, "service", "worker", words);
    assert_eq!(outcome.events[0].status, ChangeEventStatus::Failure);
    assert!(error(&outcome).ends_with("ended immediately with code 3: no"), "{}", error(&outcome));
    let outcome = apply(
        &scratch.engine,
        "service",
        "worker",
        json!({"ensure": "running", "provider": "supervised"}),
    );
    assert!(error(&outcome).contains("must specify a start command or a binary"));
}

#[test]
fn base_provider_runs_the_given_commands_and_matches_the_process_table() {
    let (system, engine) = fake();
    system.add_file("/table", "");
    system.script_handler(&["ps", "-eo", "pid=,args="], |system, _| {
        output(0, &system.file_text("/table"))
    });
    system.script_handler(&["/bin/sh", "-c", "/opt/bin/thing --daemon"], |system, _| {
        system.add_file("/table", "    1 init\n 4711 /opt/bin/thing --daemon\n 4712 other\n");
        output(0, "")
    });
    system.script_handler(&["kill", "4711"], |system, _| {
        system.add_file("/table", "    1 init\n");
        output(0, "")
    });
    let words = |ensure: &str| {
        json!({"ensure": ensure, "provider": "base", "start": "/opt/bin/thing --daemon",
               "pattern": "bin/thing", "enable": true})
    };
    let events = converges(&engine, "service", "thing", words("running"));
    assert_eq!(messages(&events), ["ensure changed 'stopped' to 'running'"]);
    let events = converges(&engine, "service", "thing", words("stopped"));
    assert_eq!(messages(&events), ["ensure changed 'running' to 'stopped'"]);
    let outcome =
        apply(&engine, "service", "other", json!({"ensure": "running", "provider": "base"}));
    assert!(error(&outcome).contains("Services must specify a start command or a binary"));
}
