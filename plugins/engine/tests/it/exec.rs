//! `exec`: guards, exit codes, timeouts, retries, and the environment of the command.

use muster_engine::event::ChangeEventStatus;
use muster_system::command::CancelFlag;
use serde_json::{Value as Json, json};

use crate::support::{Scratch, apply, check, converges, error, fake, messages, nothing, output};

#[test]
fn command_with_creates_runs_once() {
    let scratch = Scratch::new();
    let words = json!({"command": "/bin/date > /tmp/date", "creates": "/tmp/date", "timeout": 20});
    let events = converges(&scratch.engine, "exec", "/bin/date > /tmp/date", words);
    assert_eq!(messages(&events), ["executed successfully"]);
    assert_eq!(
        (events[0].resource.as_str(), events[0].property.as_str()),
        ("Exec[/bin/date > /tmp/date]", "returns")
    );
    assert!(!scratch.text("/tmp/date").is_empty());
}

/// The expected results are those of Puppet 7.
#[test]
fn command_runs_only_if_all_guards_permit_it() {
    let scratch = Scratch::new();
    scratch.write("/tmp/there", "");
    let (yes, no) = ("/bin/true", "/bin/false");
    for (guards, runs) in [
        (nothing(), true),
        (json!({"creates": ["/tmp/missing", "/tmp/there"]}), false),
        (json!({"creates": ["/tmp/missing", "/tmp/gone"]}), true),
        (json!({"onlyif": [yes, no]}), false),
        (json!({"onlyif": [yes, yes]}), true),
        (json!({"unless": [no, yes]}), false),
        (json!({"unless": [no, no]}), true),
        (json!({"unless": no, "onlyif": no}), false),
        (json!({"unless": no, "onlyif": yes}), true),
        (json!({"refreshonly": true}), false),
        (json!({"refreshonly": true, "onlyif": yes}), false),
        (json!({"refreshonly": false}), true),
    ] {
        let mut words = guards.as_object().unwrap().clone();
        words.insert("command".to_owned(), Json::from("/bin/echo ran >> /tmp/log"));
        scratch.write("/tmp/log", "");
        let outcome = apply(&scratch.engine, "exec", "guarded", Json::Object(words));
        assert!(outcome.error.is_none(), "{guards}: {:?}", outcome.error);
        assert_eq!(outcome.has_changed(), runs, "{guards}");
        assert_eq!(scratch.text("/tmp/log") == "ran\n", runs, "{guards}");
    }
}

#[test]
fn deciding_guard_skips_later_guards() {
    let (system, engine) = fake();
    system.script_output(&["/bin/a"], output(0, ""));
    system.script_output(&["/bin/b"], output(0, ""));
    let outcome =
        apply(&engine, "exec", "/bin/x", json!({"unless": ["/bin/a"], "onlyif": ["/bin/b"]}));
    assert!(!outcome.has_changed());
    assert_eq!(system.recorded_command_lines(), ["/bin/a"]);
}

#[test]
fn noop_runs_guards_but_not_the_command() {
    let (system, engine) = fake();
    system.script_output(&["/bin/check"], output(0, ""));
    let resource = check(&engine, "exec", "/bin/x", json!({"onlyif": "/bin/check"})).unwrap();
    let outcome = engine.apply_resource(&resource, CancelFlag::default(), true);
    assert_eq!(messages(&outcome.events), ["current_value 'notrun', should be ['0'] (noop)"]);
    assert_eq!(system.recorded_command_lines(), ["/bin/check"]);
}

#[test]
fn unexpected_exit_code_fails_with_puppets_message_and_logs_the_output() {
    let scratch = Scratch::new();
    let outcome =
        apply(&scratch.engine, "exec", "/bin/sh -c 'echo why; exit 3'", json!({"returns": [0, 2]}));
    assert_eq!(outcome.events[0].status, ChangeEventStatus::Failure);
    assert_eq!(
        outcome.events[0].message,
        "change from 'notrun' to ['0', '2'] failed: '/bin/sh -c 'echo why; exit 3'' returned 3 instead of one of [0,2]"
    );
    assert_eq!(outcome.log, ["why"]);
    let quiet = apply(
        &scratch.engine,
        "exec",
        "/bin/sh -c 'echo why; exit 3'",
        json!({"logoutput": false}),
    );
    assert_eq!(quiet.log, [""; 0]);
}

#[test]
fn expected_exit_code_succeeds() {
    let scratch = Scratch::new();
    let outcome = apply(&scratch.engine, "exec", "/bin/sh -c 'exit 3'", json!({"returns": 3}));
    assert!(outcome.error.is_none() && outcome.has_changed());
}

#[test]
fn missing_check_or_command_fails() {
    let scratch = Scratch::new();
    for words in [
        json!({"command": "/bin/true", "onlyif": "/nonexistent/check"}),
        json!({"command": "/bin/true", "unless": "/nonexistent/check"}),
        json!({"command": "/nonexistent/command"}),
    ] {
        let outcome = apply(&scratch.engine, "exec", "x", words.clone());
        assert!(
            error(&outcome).contains("could not find command '/nonexistent/c"),
            "{words}: {}",
            error(&outcome)
        );
    }
    let outcome = apply(&scratch.engine, "exec", "/nonexistent > /tmp/x", nothing());
    assert!(error(&outcome).contains("returned 127"), "{}", error(&outcome));
}

/// Puppet treats a resource whose check times out as in sync; Muster fails it because the state is unknown.
#[test]
fn check_or_command_that_exceeds_its_timeout_fails() {
    let scratch = Scratch::new();
    let words =
        json!({"command": "/bin/echo ran > /tmp/log", "onlyif": "/bin/sleep 60", "timeout": 0.2});
    let outcome = apply(&scratch.engine, "exec", "x", words);
    assert_eq!(error(&outcome), "check '/bin/sleep 60' exceeded its timeout of 0.2 s");
    assert!(!scratch.path("/tmp/log").exists());
    let outcome = apply(&scratch.engine, "exec", "/bin/sleep 60", json!({"timeout": 0.2}));
    assert_eq!(
        outcome.events[0].message,
        "change from 'notrun' to ['0'] failed: command exceeded its timeout of 0.2 s"
    );
}

#[test]
fn failed_command_is_retried_up_to_tries() {
    let scratch = Scratch::new();
    let line = "/bin/sh -c 'echo x >> /tmp/tries; test $(wc -l < /tmp/tries) -eq 3'";
    let outcome = apply(&scratch.engine, "exec", line, json!({"tries": 5, "try_sleep": 0.01}));
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert_eq!(scratch.text("/tmp/tries"), "x\nx\nx\n");
}

#[test]
fn cancelled_request_does_not_wait_for_the_next_try() {
    let (system, engine) = fake();
    let cancel = CancelFlag::default();
    let raise = cancel.clone();
    system.script_handler(&["/bin/x"], move |_, _| {
        raise.cancel();
        output(1, "")
    });
    let resource =
        check(&engine, "exec", "/bin/x", json!({"tries": 2, "try_sleep": 86400})).unwrap();
    let outcome = engine.apply_resource(&resource, cancel, false);
    assert!(outcome.error.is_some());
}

#[test]
fn shell_is_used_only_for_shell_syntax() {
    let (system, engine) = fake();
    for argv in [["/bin/echo"], ["/bin/sh"]] {
        system.script_output(&argv, output(0, ""));
    }
    apply(&engine, "exec", "/bin/echo  a b", nothing());
    apply(&engine, "exec", "/bin/echo $HOME", nothing());
    apply(&engine, "exec", "/bin/echo plain", json!({"provider": "shell"}));
    apply(&engine, "exec", "list", json!({"command": ["/bin/echo", "a; rm -rf /", "$HOME"]}));
    let argv: Vec<Vec<String>> =
        system.recorded_commands().into_iter().map(|command| command.argv).collect();
    assert_eq!(argv[0], ["/bin/echo", "a", "b"]);
    assert_eq!(argv[1], ["/bin/sh", "-c", "/bin/echo $HOME"]);
    assert_eq!(argv[2], ["/bin/sh", "-c", "/bin/echo plain"]);
    assert_eq!(argv[3], ["/bin/echo", "a; rm -rf /", "$HOME"]);
}

#[test]
fn environment_directory_umask_and_user_are_passed_to_the_command() {
    let (system, engine) = fake();
    system.add_file("/etc/passwd", "rip:x:1000:1000::/home/rip:/bin/sh\n");
    system.add_file("/etc/group", "web:x:33:\n");
    system.script_output(&["x"], output(0, ""));
    let words = json!({
        "path": ["/opt/bin", "/bin:/usr/bin"], "environment": ["A=b=c", "E="], "cwd": "/srv",
        "umask": "027", "user": "rip", "group": "web", "timeout": 0,
    });
    apply(&engine, "exec", "x 1", words);
    let command = &system.recorded_commands()[0];
    assert_eq!(command.env["PATH"], "/opt/bin:/bin:/usr/bin");
    assert_eq!((command.env["A"].as_str(), command.env["E"].as_str()), ("b=c", ""));
    assert_eq!(command.cwd.as_deref(), Some(std::path::Path::new("/srv")));
    assert_eq!((command.umask, command.uid, command.gid), (Some(0o027), Some(1000), Some(33)));
    assert_eq!(command.timeout, None);
    let outcome = apply(&engine, "exec", "/bin/x", json!({"user": "nobody-there"}));
    assert!(error(&outcome).contains("user `nobody-there` does not exist"));
}

#[test]
fn invalid_attributes_are_refused() {
    let (_, engine) = fake();
    for (title, words, expected) in [
        ("date", nothing(), "`date`, which is not an absolute path; specify one, or set `path`"),
        ("/bin/x", json!({"onlyif": "test -f x"}), "`test`, which is not an absolute path"),
        ("/bin/x", json!({"environment": "nonsense"}), "must be `NAME=value`"),
        ("/bin/x", json!({"umask": "99"}), "must be octal"),
        ("/bin/x", json!({"tries": 0}), "is less than 1"),
        ("/bin/x", json!({"returns": 256}), "exit codes from 0 to 255"),
        ("/bin/x", json!({"timeout": "soon"}), "must be seconds"),
        ("/bin/x", json!({"creates": "date"}), "must be absolute paths"),
    ] {
        let error = check(&engine, "exec", title, words).unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn check_given_as_a_list_runs_without_a_shell() {
    let scratch = Scratch::new();
    scratch.write("/tmp/a file; rm -rf x", "x");
    for (onlyif, runs) in [
        (json!([["/usr/bin/test", "-e", "/tmp/a file; rm -rf x"], "/bin/true"]), 1),
        (json!([["/usr/bin/test", "-e", "/tmp/it's not there"]]), 0),
    ] {
        let words = json!({"onlyif": onlyif});
        let outcome = apply(&scratch.engine, "exec", "/bin/true", words);
        assert!(outcome.error.is_none(), "{outcome:?}");
        assert_eq!(outcome.events.len(), runs);
    }
}

#[test]
fn duplicate_and_invalid_environment_settings_are_logged() {
    let scratch = Scratch::new();
    let words = json!({
        "environment": ["A=1", "A=2", "B-C=3"], "logoutput": true, "provider": "shell",
    });
    let outcome = apply(&scratch.engine, "exec", "echo $A", words);
    assert_eq!(
        outcome.log,
        [
            "Overriding environment setting 'A' with '2'",
            "Cannot understand environment setting \"B-C=3\"",
            "2"
        ]
    );
}

/// The environment that the page of the types states.
#[test]
fn environment_of_a_command_is_the_documented_one() {
    let scratch = Scratch::new();
    let words =
        json!({"command": "/usr/bin/env > /tmp/env", "environment": ["A=b"], "provider": "shell"});
    assert!(apply(&scratch.engine, "exec", "env", words).error.is_none());
    let text = scratch.text("/tmp/env");
    let shell_sets = ["PWD", "OLDPWD", "SHLVL", "_"];
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
    names.retain(|name| !shell_sets.contains(name));
    names.sort_unstable();
    assert_eq!(names, ["A", "HOME", "LANG", "LC_ALL", "PATH"]);
    assert!(text.contains("LANG=C\n") && text.contains("LC_ALL=C\n"), "{text}");
}
