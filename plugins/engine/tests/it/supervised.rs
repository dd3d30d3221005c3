//! Services without an init system: what the resource says is run, and a process of ours is known again by everybody.

use std::sync::Arc;

use muster_engine::ResourceEngine;
use muster_engine::event::ChangeEventStatus;
use muster_system::real::RealSystem;
use serde_json::json;

use crate::support::{Scratch, apply, converges, error, fake, messages, output};

#[test]
fn a_supervised_service_is_started_found_again_and_stopped() {
    let scratch = Scratch::new();
    let words = |ensure: &str| json!({"ensure": ensure, "provider": "supervised", "start": "echo here; exec sleep 300"});
    let engine = &scratch.engine;
    let events = converges(engine, "service", "worker", words("running"));
    assert_eq!(messages(&events), ["ensure changed 'stopped' to 'running'"]);
    // Somebody else who only has the directory, as a daemon that was started anew.
    let later = ResourceEngine::new(Arc::new(RealSystem::new(scratch.path("/"))));
    assert!(converges(&later, "service", "worker", words("running")).is_empty());
    let events = converges(&later, "service", "worker", words("stopped"));
    assert_eq!(messages(&events), ["ensure changed 'running' to 'stopped'"]);
    assert_eq!(scratch.text("/var/lib/muster/services/worker/stdout"), "here\n");
}

#[test]
fn what_ends_at_once_has_not_started() {
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
fn base_does_what_the_resource_says_and_knows_a_process_by_its_line() {
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
