//! Packages by apt: the commands that are run, and how their output is parsed.

use muster_engine::resource::ResourceValue;
use muster_system::fake::FakeSystem;
use serde_json::json;

use crate::support::{Scratch, apply, check, converges, error, fake, messages, output};

/// Scripts dpkg and apt for one package. `/state` contains its line `want ok status name version`; the commands change it.
fn with_apt(system: &FakeSystem, status: &str) {
    system.add_file("/var/lib/dpkg/status", "");
    system.add_file("/state", status);
    system.script_handler(&["dpkg-query"], |system, _| {
        let state = system.file_text("/state");
        output(i32::from(state.is_empty()), &state)
    });
    system.script_output(
        &["apt-cache", "policy"],
        output(0, "x:\n  Installed: 1.0\n  Candidate: 2.0\n"),
    );
    system.script_handler(&["apt-get"], |system, command| {
        let last = command.argv.last().cloned().unwrap_or_default();
        let version = last.split_once('=').map_or("2.0", |(_, version)| version).to_owned();
        let state =
            match command.argv.iter().find(|word| ["install", "remove"].contains(&word.as_str())) {
                Some(verb) if verb == "install" => format!("install ok installed x {version}\n"),
                _ if command.argv.contains(&"--purge".to_owned()) => String::new(),
                _ => "deinstall ok config-files x 1.0\n".to_owned(),
            };
        system.add_file("/state", state);
        output(0, "")
    });
    system.script_handler(&["apt-mark"], |system, command| {
        let want = if command.argv[1] == "hold" { "hold" } else { "install" };
        let state = system.file_text("/state");
        let rest = state.split_once(' ').map_or("", |(_, rest)| rest);
        system.add_file("/state", format!("{want} {rest}"));
        output(0, "")
    });
}

fn changes(system: &FakeSystem) -> Vec<String> {
    system
        .recorded_command_lines()
        .into_iter()
        .filter(|line| line.starts_with("apt-get") || line.starts_with("apt-mark"))
        .collect()
}

const INSTALLED: &str = "install ok installed x 1.0\n";
const HELD: &str = "hold ok installed x 1.0\n";
const REMOVED: &str = "deinstall ok config-files x 1.0\n";

#[test]
fn every_initial_state_reaches_the_desired_state() {
    let install = "apt-get -q -y -o DPkg::Options::=--force-confold install";
    for (found, ensure, message, calls) in [
        ("", "present", Some("created"), vec![format!("{install} x")]),
        (REMOVED, "installed", Some("created"), vec![format!("{install} x")]),
        (INSTALLED, "present", None, vec![]),
        (INSTALLED, "absent", Some("removed"), vec!["apt-get -q -y remove x".to_owned()]),
        (REMOVED, "absent", None, vec![]),
        ("", "purged", None, vec![]),
        (REMOVED, "purged", Some("purged"), vec!["apt-get -q -y remove --purge x".to_owned()]),
        (INSTALLED, "purged", Some("purged"), vec!["apt-get -q -y remove --purge x".to_owned()]),
        (INSTALLED, "latest", Some("ensure changed '1.0' to '2.0'"), vec![format!("{install} x")]),
        (INSTALLED, "1.0", None, vec![]),
        (
            INSTALLED,
            "0.9-1~bpo",
            Some("ensure changed '1.0' to '0.9-1~bpo'"),
            vec![format!("{install} --allow-downgrades x=0.9-1~bpo")],
        ),
        ("", "held", Some("created"), vec![format!("{install} x"), "apt-mark hold x".to_owned()]),
        (
            INSTALLED,
            "held",
            Some("ensure changed '1.0' to 'held'"),
            vec!["apt-mark hold x".to_owned()],
        ),
        (
            HELD,
            "latest",
            Some("ensure changed '1.0' to '2.0'"),
            vec![
                "apt-mark unhold x".to_owned(),
                format!("{install} x"),
                "apt-mark hold x".to_owned(),
            ],
        ),
    ] {
        let (system, engine) = fake();
        with_apt(&system, found);
        let events = converges(&engine, "package", "x", json!({"ensure": ensure}));
        assert_eq!(messages(&events), Vec::from_iter(message), "{found:?} to {ensure}");
        assert_eq!(changes(&system), calls, "{found:?} to {ensure}");
    }
}

#[test]
fn errors_of_apt_and_dpkg_are_shown_and_name_the_package_that_failed() {
    let unmet = "Reading package lists...\nThe following packages have unmet dependencies:\n \
        x : Depends: liby (>= 2) but it is not installable\n\
        E: Unable to correct problems, you have held broken packages.\n";
    let postinst = |name: &str| {
        format!(
            "Setting up {name} (1.0) ...\nno such database\n\
             dpkg: error processing package {name} (--configure):\n installed {name} package post-installation script subprocess returned error exit status 3\n\
             Processing triggers for man-db (2.11) ...\n\
             Errors were encountered while processing:\n {name}\n\
             E: Sub-process /usr/bin/dpkg returned an error code (1)\n"
        )
    };
    for (text, expected) in [
        (
            unmet.to_owned(),
            "ended with code 100: The following packages have unmet dependencies: x : Depends: liby (>= 2) but it is not installable; E: Unable to correct problems, you have held broken packages.",
        ),
        (
            postinst("x"),
            "ended with code 100: dpkg: error processing package x (--configure): installed x package post-installation script subprocess returned error exit status 3; E: Sub-process /usr/bin/dpkg returned an error code (1)",
        ),
        (
            postinst("broken:amd64"),
            "ended with code 100 because of other packages (broken:amd64): dpkg: error processing package broken:amd64 (--configure):",
        ),
        (format!("E: {}\n", "Unable to fetch some archives. ".repeat(10)).repeat(100), "; ..."),
    ] {
        let (system, engine) = fake();
        with_apt(&system, "");
        system.script_output(&["apt-get"], output(100, &text));
        let outcome = apply(&engine, "package", "x", json!({}));
        let message = error(&outcome);
        assert!(message.contains(expected), "{message}");
        assert!(message.len() < 4096, "{} bytes", message.len());
    }
}

#[test]
fn apt_get_runs_noninteractively_with_the_install_options() {
    let (system, engine) = fake();
    with_apt(&system, "");
    apply(&engine, "package", "x", json!({"install_options": ["--no-install-recommends"]}));
    let commands = system.recorded_commands();
    assert!(commands.iter().all(|command| command.env["DEBIAN_FRONTEND"] == "noninteractive"));
    assert!(
        changes(&system)[0].ends_with("--no-install-recommends install x"),
        "{:?}",
        changes(&system)
    );
}

#[test]
fn mark_can_be_managed_alone() {
    let (system, engine) = fake();
    with_apt(&system, INSTALLED);
    let events = converges(&engine, "package", "x", json!({"mark": "hold"}));
    assert_eq!(messages(&events), ["mark changed 'none' to 'hold'"]);
    assert_eq!(changes(&system), ["apt-mark hold x"]);
}

#[test]
fn errors_of_apt_are_reported() {
    let (system, engine) = fake();
    with_apt(&system, "");
    system.script_output(
        &["apt-get"],
        output(100, "Reading package lists...\nE: Unable to locate package x\n"),
    );
    let outcome = apply(&engine, "package", "x", json!({}));
    assert_eq!(
        outcome.events[0].message,
        "change from 'purged' to 'present' failed: `apt-get -q -y -o DPkg::Options::=--force-confold install x` \
         ended with code 100: E: Unable to locate package x"
    );
    let locked =
        "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt)\n";
    system.script_output(&["apt-get"], output(100, locked));
    let outcome = apply(&engine, "package", "x", json!({}));
    assert!(
        error(&outcome).contains("another process holds the lock of the package system"),
        "{}",
        error(&outcome)
    );
    system.script_output(&["apt-cache"], output(0, ""));
    let outcome = apply(&engine, "package", "x", json!({"ensure": "latest"}));
    assert!(error(&outcome).contains("no source provides this package"), "{}", error(&outcome));
}

#[test]
fn missing_package_database_is_reported() {
    let scratch = Scratch::new();
    let outcome = apply(&scratch.engine, "package", "unix2dos", json!({"ensure": "absent"}));
    assert!(
        error(&outcome).starts_with("no package database at /var/lib/dpkg/status"),
        "{}",
        error(&outcome)
    );
}

#[test]
fn names_that_look_like_options_are_refused() {
    let (_, engine) = fake();
    for name in ["-o", "x y", "x=1", "../x"] {
        assert!(check(&engine, "package", name, json!({})).unwrap_err().is_invalid(), "{name}");
    }
}

#[test]
fn search_lists_packages_of_dpkg() {
    let (system, engine) = fake();
    with_apt(&system, "install ok installed a 1\ndeinstall ok config-files b 2\n");
    let found = engine.list_instances("package").unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].0.as_str(), &found[0].1["ensure"]), ("a", &ResourceValue::from("1")));
    assert_eq!((found[1].0.as_str(), &found[1].1["ensure"]), ("b", &ResourceValue::from("absent")));
}

/// Reads the dpkg database of the real root.
#[test]
fn real_dpkg_database_is_read() {
    if !std::path::Path::new("/var/lib/dpkg/status").exists() {
        assert!(
            std::env::var("MUSTER_TESTS_WITHOUT")
                .is_ok_and(|tools| tools.split(',').any(|tool| tool == "dpkg")),
            "there is no dpkg on this machine: name it in MUSTER_TESTS_WITHOUT"
        );
        return;
    }
    let engine = muster_engine::ResourceEngine::new(std::sync::Arc::new(
        muster_system::real::RealSystem::new("/".into()),
    ));
    let found = engine.find_state("package", "dpkg").unwrap();
    let version = found.get("ensure").and_then(ResourceValue::as_text).unwrap();
    assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{version}");
}
