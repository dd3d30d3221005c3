//! Services: init scripts that run in a scratch root, and systemd with a scripted `systemctl`.

use std::os::unix::fs::PermissionsExt;

use muster_engine::ResourceContext;
use muster_engine::providers::service::ServiceOperation;
use muster_engine::providers::service::choice::choose_provider;
use muster_engine::resource::ResourceValue;
use muster_system::System;
use muster_system::command::CancelFlag;
use muster_system::fake::FakeSystem;
use muster_system::real::RealSystem;
use serde_json::json;

use crate::support::{Scratch, apply, check, converges, error, fake, messages, output};

const SCRIPT: &str = r#"#!/bin/sh
case "$1" in
  start) echo on > /tmp/daemon ;;
  stop) rm -f /tmp/daemon ;;
  status) test -e /tmp/daemon ;;
  *) exit 2 ;;
esac
"#;

fn with_script() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("/etc/init.d/httpd", SCRIPT);
    std::fs::set_permissions(scratch.path("/etc/init.d/httpd"), PermissionsExt::from_mode(0o755))
        .unwrap();
    scratch
}

#[test]
fn init_script_is_started_and_stopped() {
    let scratch = with_script();
    let events = converges(&scratch.engine, "service", "httpd", json!({"ensure": "running"}));
    assert_eq!(messages(&events), ["ensure changed 'stopped' to 'running'"]);
    assert!(scratch.path("/tmp/daemon").exists());
    let events = converges(&scratch.engine, "service", "httpd", json!({"ensure": "stopped"}));
    assert_eq!(messages(&events), ["ensure changed 'running' to 'stopped'"]);
    assert!(!scratch.path("/tmp/daemon").exists());
}

#[test]
fn init_script_is_enabled_by_links() {
    let scratch = with_script();
    let events = converges(
        &scratch.engine,
        "service",
        "httpd",
        json!({"ensure": "running", "enable": true}),
    );
    assert_eq!(
        messages(&events),
        ["ensure changed 'stopped' to 'running'", "enable changed 'false' to 'true'"]
    );
    let link = std::fs::read_link(scratch.path("/etc/rc3.d/S01httpd")).unwrap();
    assert_eq!(link.to_str(), Some("../init.d/httpd"));
    assert!(std::fs::read_link(scratch.path("/etc/rc6.d/K01httpd")).is_ok());
    let events = converges(&scratch.engine, "service", "httpd", json!({"enable": false}));
    assert_eq!(messages(&events), ["enable changed 'true' to 'false'"]);
    assert!(std::fs::read_link(scratch.path("/etc/rc3.d/S01httpd")).is_err());
    let outcome = apply(&scratch.engine, "service", "httpd", json!({"enable": "mask"}));
    assert!(error(&outcome).contains("init scripts cannot be masked"));
}

#[test]
fn commands_of_the_resource_replace_the_script() {
    let scratch = Scratch::new();
    let words = |ensure: &str| json!({"ensure": ensure, "start": "echo on > /tmp/own", "stop": "rm /tmp/own", "status": "test -e /tmp/own"});
    converges(&scratch.engine, "service", "own", words("running"));
    assert!(scratch.path("/tmp/own").exists());
    converges(&scratch.engine, "service", "own", words("stopped"));
    assert!(!scratch.path("/tmp/own").exists());
}

#[test]
fn unknown_service_is_stopped_and_cannot_be_started() {
    let scratch = Scratch::new();
    assert!(
        converges(
            &scratch.engine,
            "service",
            "ghost",
            json!({"ensure": "stopped", "enable": false})
        )
        .is_empty()
    );
    for words in [json!({"ensure": "running"}), json!({"enable": true})] {
        let outcome = apply(&scratch.engine, "service", "ghost", words);
        assert_eq!(
            error(&outcome),
            "there is no such service: looked for an init script /etc/init.d/ghost (systemd does not run on this machine)"
        );
    }
}

#[test]
fn failing_script_fails_the_resource() {
    let scratch = with_script();
    scratch.write("/etc/init.d/httpd", "#!/bin/sh\necho broken >&2; exit 1\n");
    let outcome = apply(&scratch.engine, "service", "httpd", json!({"ensure": "running"}));
    assert_eq!(
        outcome.events[0].message,
        "change from 'stopped' to 'running' failed: \
         `/etc/init.d/httpd start` ended with code 1: broken"
    );
}

/// Scripts `systemctl` for one unit; its commands change the files that contain the state.
fn with_systemd(system: &FakeSystem, load: &str, active: &str, enabled: &str) {
    system.add_directory("/run/systemd/system");
    for (path, value) in [("/load", load), ("/active", active), ("/enabled", enabled)] {
        system.add_file(path, value);
    }
    system.script_handler(&["systemctl", "show"], |system, _| {
        let (load, active, enabled) =
            (system.file_text("/load"), system.file_text("/active"), system.file_text("/enabled"));
        output(0, &format!("LoadState={load}\nActiveState={active}\nUnitFileState={enabled}\n"))
    });
    for (verb, path, value) in [
        ("start", "/active", "active"),
        ("stop", "/active", "inactive"),
        ("enable", "/enabled", "enabled"),
        ("disable", "/enabled", "disabled"),
        ("unmask", "/enabled", "disabled"),
        ("mask", "/enabled", "masked"),
    ] {
        system.script_handler(&["systemctl", verb], move |system, _| {
            system.add_file(path, value);
            output(0, "")
        });
    }
    let code = i32::from(load == "not-found");
    system.script_output(&["systemctl", "cat"], output(code, ""));
}

/// The command lines that change the machine.
fn changing_commands(system: &FakeSystem) -> Vec<String> {
    let is_query = |line: &String| {
        ["systemctl show", "systemctl cat"].iter().any(|query| line.starts_with(query))
    };
    system.recorded_command_lines().into_iter().filter(|line| !is_query(line)).collect()
}

/// The state of a unit, the values of the resource, and the commands of Puppet's provider for them.
type UnitCase = (&'static str, &'static str, serde_json::Value, &'static [&'static str]);

fn check_units(cases: &[UnitCase]) {
    for (active, enabled, words, verbs) in cases {
        let (system, engine) = fake();
        with_systemd(&system, "loaded", active, enabled);
        converges(&engine, "service", "nginx", words.clone());
        let expected: Vec<String> =
            verbs.iter().map(|verb| format!("systemctl {verb} -- nginx.service")).collect();
        assert_eq!(changing_commands(&system), expected, "{active} {enabled} {words}");
    }
}

#[test]
fn systemctl_gets_the_commands_of_puppet() {
    let running = json!({"ensure": "running"});
    check_units(&[
        ("inactive", "disabled", running.clone(), &["unmask", "start"]),
        ("failed", "disabled", running, &["unmask", "start"]),
        ("active", "enabled", json!({"ensure": "stopped"}), &["stop"]),
        ("active", "enabled", json!({"enable": false}), &["disable"]),
        ("active", "disabled", json!({"enable": true}), &["unmask", "enable"]),
        ("reloading", "enabled", json!({"ensure": "running", "enable": "true"}), &[]),
        // A linked unit is known to systemd, and not enabled.
        ("active", "linked", json!({"enable": true}), &["unmask", "enable"]),
        ("active", "static", json!({"enable": true}), &[]),
        ("active", "static", json!({"enable": false}), &[]),
    ]);
}

#[test]
fn masks_are_set_and_removed_as_in_puppet() {
    let start_and = |enable: &str| json!({"ensure": "running", "enable": enable});
    check_units(&[
        ("active", "enabled", json!({"enable": "mask"}), &["disable", "mask"]),
        ("active", "static", json!({"enable": "mask"}), &["disable", "mask"]),
        ("active", "masked", json!({"enable": "mask"}), &[]),
        // A mask until the next boot is not the mask that was asked for.
        ("active", "masked-runtime", json!({"enable": "mask"}), &["disable", "mask"]),
        ("active", "indirect", json!({"enable": "mask"}), &[]),
        ("active", "masked", json!({"enable": false}), &[]),
        ("active", "masked-runtime", json!({"enable": false}), &[]),
        ("active", "masked", start_and("true"), &["unmask", "enable"]),
        ("inactive", "masked", json!({"ensure": "running"}), &["unmask", "start"]),
        ("inactive", "masked", start_and("true"), &["unmask", "start", "unmask", "enable"]),
        // The start removes the mask, so the unit may be enabled again.
        ("inactive", "masked", start_and("false"), &["unmask", "start", "disable"]),
        ("inactive", "masked", start_and("mask"), &["unmask", "start", "disable", "mask"]),
        ("inactive", "enabled", start_and("mask"), &["unmask", "start", "disable", "mask"]),
    ]);
}

#[test]
fn unit_that_cannot_be_started_is_not_enabled_as_in_puppet() {
    let (system, engine) = fake();
    with_systemd(&system, "loaded", "inactive", "disabled");
    system.script_output(&["systemctl", "start"], output(1, ""));
    let words = json!({"ensure": "running", "enable": "true"});
    let outcome = apply(&engine, "service", "nginx", words);
    assert!(error(&outcome).contains("systemctl start"), "{}", error(&outcome));
    let commands = changing_commands(&system);
    assert_eq!(
        commands,
        ["unmask", "start"].map(|verb| format!("systemctl {verb} -- nginx.service"))
    );
    assert_eq!(outcome.events.len(), 1);
}

#[test]
fn unit_that_does_not_exist_is_masked_as_in_puppet() {
    let (system, engine) = fake();
    with_systemd(&system, "not-found", "inactive", "");
    converges(&engine, "service", "later", json!({"enable": "mask"}));
    assert_eq!(changing_commands(&system), ["systemctl mask -- later.service"]);
}

#[test]
fn units_of_all_kinds_keep_their_suffix() {
    for name in ["home.automount", "dev-sdb1.swap", "boot.mount", "nginx.service"] {
        let (system, engine) = fake();
        with_systemd(&system, "loaded", "active", "enabled");
        converges(&engine, "service", name, json!({"ensure": "stopped"}));
        assert_eq!(changing_commands(&system), [format!("systemctl stop -- {name}")]);
    }
}

/// `update-rc.d` of Debian, which `systemctl enable` runs for an init script: links in the run levels.
fn with_init_script(system: &FakeSystem, enabled: bool) {
    with_systemd(system, "loaded", "active", "generated");
    system.script_handler(&["systemctl", "show"], |_, _| {
        output(0, "LoadState=loaded\nActiveState=active\nUnitFileState=generated\nSourcePath=/etc/init.d/legacy\n")
    });
    let relink = |system: &FakeSystem, enabled: bool| {
        for level in ["2", "3", "4", "5"] {
            let letter = if enabled { "S" } else { "K" };
            let directory = format!("/etc/rc{level}.d");
            system.remove_tree(directory.as_ref()).unwrap();
            system.add_file(&format!("{directory}/{letter}01legacy"), "");
        }
    };
    relink(system, enabled);
    system.script_handler(&["systemctl", "enable"], move |system, _| {
        relink(system, true);
        output(0, "")
    });
    system.script_handler(&["systemctl", "disable"], move |system, _| {
        relink(system, false);
        output(0, "")
    });
    system.script_output(&["systemctl", "unmask"], output(0, ""));
}

#[test]
fn init_script_under_systemd_is_enabled_by_its_links() {
    for (enabled, wanted) in [(false, "true"), (true, "false")] {
        let (system, engine) = fake();
        with_init_script(&system, enabled);
        let events = converges(&engine, "service", "legacy", json!({"enable": wanted}));
        assert_eq!(messages(&events), [format!("enable changed '{enabled}' to '{wanted}'")]);
        let found = engine.find_state("service", "legacy").unwrap();
        assert_eq!(found.get("enable"), Some(&ResourceValue::from(wanted)));
    }
}

#[test]
fn changed_unit_file_is_reloaded_before_a_start() {
    let (system, engine) = fake();
    with_systemd(&system, "loaded", "inactive", "enabled");
    let shown = ["systemctl", "show", "--property=NeedDaemonReload"];
    system.script_output(&shown, output(0, "NeedDaemonReload=yes\n"));
    system.script_output(&["systemctl", "daemon-reload"], output(0, ""));
    converges(&engine, "service", "nginx", json!({"ensure": "running"}));
    let expected = ["daemon-reload", "unmask -- nginx.service", "start -- nginx.service"];
    assert_eq!(changing_commands(&system), expected.map(|words| format!("systemctl {words}")));
}

#[test]
fn commands_of_the_resource_replace_those_of_systemctl() {
    let lines = json!({"start": "own start", "stop": "own stop", "restart": "own restart"});
    let (start, stop, restart) =
        (ServiceOperation::Start, ServiceOperation::Stop, ServiceOperation::Restart);
    for (operation, command) in [(start, "own start"), (stop, "own stop"), (restart, "own restart")]
    {
        let (system, engine) = fake();
        with_systemd(&system, "loaded", "active", "enabled");
        system.script_output(&["/bin/sh", "-c"], output(0, ""));
        let resource = check(&engine, "service", "nginx", lines.clone()).unwrap();
        let cx = ResourceContext::new(&system, CancelFlag::default());
        let provider = choose_provider(&cx.bind(&resource)).unwrap();
        provider.run_operation(&cx.bind(&resource), operation).unwrap();
        assert_eq!(changing_commands(&system), [format!("/bin/sh -c {command}")]);
    }
}

#[test]
fn status_command_of_the_resource_decides_whether_a_unit_runs() {
    for (code, ensure) in [(0, "running"), (3, "stopped")] {
        let (system, engine) = fake();
        with_systemd(&system, "loaded", "inactive", "enabled");
        system.script_output(&["/bin/sh", "-c", "own status"], output(code, ""));
        let values = json!({"ensure": ensure, "status": "own status"});
        assert_eq!(converges(&engine, "service", "nginx", values).len(), 0);
    }
}

#[test]
fn unknown_unit_is_reported_with_its_name() {
    let (system, engine) = fake();
    with_systemd(&system, "not-found", "inactive", "");
    let outcome = apply(&engine, "service", "ngnix", json!({"ensure": "running"}));
    assert_eq!(
        error(&outcome),
        "there is no such service: looked for a systemd unit ngnix.service"
    );
    assert!(check(&engine, "service", "--all", json!({})).unwrap_err().is_invalid());
    assert!(check(&engine, "service", "../x", json!({})).unwrap_err().is_invalid());
}

#[test]
fn restart_uses_the_script_only_with_hasrestart() {
    for (words, calls) in [
        (json!({}), vec!["stop", "start"]),
        (json!({"hasrestart": "false"}), vec!["stop", "start"]),
        (json!({"hasrestart": "true"}), vec!["restart"]),
        (json!({"restart": "echo own >> /tmp/told"}), vec!["own"]),
    ] {
        let scratch = with_script();
        scratch.write("/etc/init.d/httpd", "#!/bin/sh\necho $1 >> /tmp/told\n");
        let resource = check(&scratch.engine, "service", "httpd", words.clone()).unwrap();
        let system = RealSystem::new(scratch.path("/"));
        let cx = ResourceContext::new(&system, CancelFlag::default());
        let provider = choose_provider(&cx.bind(&resource)).unwrap();
        provider.run_operation(&cx.bind(&resource), ServiceOperation::Restart).unwrap();
        let told = scratch.text("/tmp/told");
        assert_eq!(told.lines().collect::<Vec<_>>(), calls, "{words}");
    }
}

#[test]
fn find_returns_ensure_and_enable() {
    let scratch = with_script();
    let all = scratch.engine.list_instances("service").unwrap();
    assert_eq!(all.len(), 1);
    let found = scratch.engine.find_state("service", "httpd").unwrap();
    assert_eq!(
        (found.get("ensure"), found.get("enable")),
        (Some(&ResourceValue::from("stopped")), Some(&ResourceValue::from("false")))
    );
}
