//! The programs of shadow-utils: their exact arguments, which contain no password, and their real effects.

use std::path::Path;

use muster_engine::resource::ResourceValue;
use muster_system::command::CancelFlag;
use muster_system::fake::FakeSystem;
use muster_system::real::RealSystem;
use muster_system::{CommandOutput, FileAttributes, System};
use serde_json::{Value as Json, json};

use super::node::{Node, words};

/// A fake system whose programs succeed and change nothing.
fn host() -> (FakeSystem, Node) {
    let system = FakeSystem::new();
    for program in [
        "useradd", "usermod", "userdel", "chage", "chpasswd", "groupadd", "groupmod", "groupdel",
        "gpasswd",
    ] {
        system.script_output(&[program], CommandOutput::new(0, ""));
    }
    system.script_output(&["getent"], CommandOutput::new(2, ""));
    system.add_file("/etc/passwd", "old:x:1000:100:c:/home/old:/bin/sh\n");
    system.add_file("/etc/shadow", "old:!:1:0:99999:7:::\n");
    system.add_file("/etc/group", "users:x:100:\nwheel:x:10:old\nnamed:x:77:\n");
    system.add_file("/bin/sh", "#!");
    let executable = FileAttributes { mode: Some(0o755), ..FileAttributes::default() };
    system.set_attributes(Path::new("/bin/sh"), &executable).unwrap();
    let node = Node::new(system.clone());
    (system, node)
}

/// The commands of one apply, without `getent`.
fn commands(kind: &str, title: &str, json: Json) -> Vec<String> {
    let (system, node) = host();
    let outcome = node.try_apply(kind, title, json).unwrap();
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    let mut lines = system.recorded_command_lines();
    lines.retain(|line| !line.starts_with("getent"));
    lines
}

#[test]
fn tools_get_the_same_arguments_as_from_puppet() {
    assert_eq!(
        commands(
            "user",
            "rip",
            json!({
                "uid": 1234, "gid": "users", "groups": ["wheel", "named"], "comment": "R I P", "home": "/srv/rip",
                "shell": "/bin/sh", "password": "$1$xxx", "password_min_age": 1, "password_max_age": 90,
                "password_warn_days": 5, "expiry": "2030-12-31", "managehome": true, "system": true, "allowdupe": true,
            })
        ),
        [
            "useradd -c R I P -e 2030-12-31 -g users -G named,wheel -d /srv/rip -s /bin/sh -u 1234 -o -m -r rip",
            "chpasswd -e",
            "chage -m 1 -M 90 -W 5 rip",
        ]
    );
    assert_eq!(commands("user", "rip", json!({})), ["useradd -M rip"]);
    // A group with the name of the user exists.
    assert_eq!(commands("user", "named", json!({})), ["useradd -g named -M named"]);
    assert_eq!(
        commands(
            "user",
            "old",
            json!({
                "uid": 7, "gid": "wheel", "comment": "new", "home": "/srv", "shell": "/bin/sh", "password": "$1$yyy",
                "password_min_age": 1, "password_max_age": 2, "password_warn_days": 3, "groups": "named",
                "expiry": "2030-12-31", "allowdupe": true,
            })
        ),
        [
            "usermod -d /srv old",
            "usermod -u 7 -o old",
            "usermod -g wheel old",
            "usermod -c new old",
            "chpasswd -e",
            "chage -m 1 old",
            "chage -M 2 old",
            "chage -W 3 old",
            "usermod -G named,wheel old",
            "usermod -e 2030-12-31 old",
        ]
    );
    assert_eq!(commands("user", "old", json!({"ensure": "absent"})), ["userdel old"]);
    assert_eq!(
        commands("user", "old", json!({"ensure": "absent", "managehome": true})),
        ["userdel -r old"]
    );
    assert_eq!(
        commands(
            "group",
            "ops",
            json!({"gid": 5, "members": ["old"], "system": true, "allowdupe": true})
        ),
        ["groupadd -g 5 -o -r ops", "gpasswd -M old ops"]
    );
    assert_eq!(commands("group", "wheel", json!({"gid": 11})), ["groupmod -g 11 wheel"]);
    assert_eq!(
        commands("group", "wheel", json!({"members": [], "auth_membership": true})),
        ["gpasswd -M  wheel"]
    );
    assert_eq!(commands("group", "wheel", json!({"ensure": "absent"})), ["groupdel wheel"]);
}

#[test]
fn password_is_passed_unchanged_by_standard_input() {
    let (system, node) = host();
    let password = "$6$rounds=5000$a.b/c$`echo`'\"\\";
    node.try_apply("user", "rip", json!({"password": password})).unwrap();
    node.try_apply("user", "old", json!({"password": password})).unwrap();
    let given: Vec<String> = system
        .recorded_commands()
        .into_iter()
        .filter(|command| !command.stdin.is_empty())
        .map(|command| String::from_utf8(command.stdin).unwrap())
        .collect();
    assert_eq!(given, [format!("rip:{password}\n"), format!("old:{password}\n")]);
    for command in system.recorded_commands() {
        assert!(!command.argv.join(" ").contains("rounds"), "{command:?}");
        assert!(!format!("{command:?}").contains("rounds"));
    }
}

#[test]
fn tool_errors_and_invalid_shells_are_reported() {
    let (system, node) = host();
    system
        .script_output(&["useradd"], CommandOutput::new(9, "useradd: user 'rip' already exists\n"));
    let outcome = node.try_apply("user", "rip", json!({})).unwrap();
    let error = outcome.error.unwrap().to_string();
    assert_eq!(error, "User[rip]: `useradd` ended with code 9: useradd: user 'rip' already exists");
    let error = node.error("user", "rip", json!({"shell": "/bin/none"}));
    assert!(error.contains("Shell /bin/none must exist"), "{error}");
    system.add_file("/bin/text", "x");
    let error = node.error("user", "old", json!({"shell": "/bin/text"}));
    assert!(error.contains("Shell /bin/text must be executable"), "{error}");
}

#[test]
fn name_service_is_queried_unless_forcelocal_is_set() {
    let (system, node) = host();
    system.script_output(
        &["getent", "--", "passwd", "ldap"],
        CommandOutput::new(0, "ldap:*:9999:100:L:/home/ldap:/bin/sh\n"),
    );
    let found = node.engine.find_state("user", "ldap").unwrap();
    assert_eq!(found.get("uid"), Some(&ResourceValue::Int(9999)));
    assert_eq!(found.get("password"), None);
    let local =
        node.engine.check_resource("user", "ldap", &words(json!({"forcelocal": true}))).unwrap();
    assert_eq!(node.engine.plan_resource(&local, CancelFlag::default()).unwrap().changes.len(), 1);
    let either = node.engine.check_resource("user", "ldap", &words(json!({}))).unwrap();
    assert!(node.engine.plan_resource(&either, CancelFlag::default()).unwrap().is_empty());
}

/// Environment variable: set if `/etc` and `/home` are copies, so the test may change accounts.
const SPOILABLE: &str = "MUSTER_TEST_ACCOUNTS_ARE_COPIES";
/// Mounts a copy of `/etc` and an empty `/home` in the mount namespace, then executes the program.
const ELSEWHERE: &str = r#"cp -a /etc "$1/etc" && mkdir "$1/home" && mount --bind "$1/etc" /etc && mount --bind "$1/home" /home && shift && exec "$@""#;

/// Runs itself again in a mount namespace with copies of the account files.
#[test]
#[expect(clippy::disallowed_types, reason = "runs the test in a namespace of its own")]
fn real_tools_reach_the_desired_state() {
    if std::env::var_os(SPOILABLE).is_some() {
        return real_tools_do_what_is_wanted();
    }
    assert!(
        nix::unistd::geteuid().is_root(),
        "a mount namespace needs root: run the tests as root"
    );
    let copies = tempfile::tempdir().unwrap();
    let output = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c", ELSEWHERE, "sh"])
        .arg(copies.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "accounts::tools::real_tools_reach_the_desired_state", "--nocapture"])
        .env(SPOILABLE, "yes")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn real_tools_do_what_is_wanted() {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let is_mounted = |path: &str| mounts.lines().any(|line| line.contains(&format!(" {path} ")));
    assert!(
        is_mounted("/etc") && is_mounted("/home"),
        "/etc and /home are not mounted copies: refusing to change real accounts"
    );
    let node = Node::new(RealSystem::new("/".into()));
    node.apply("group", "mustert", json!({"gid": 48_000}));
    let wanted = json!({
        "uid": 48_001, "gid": "mustert", "groups": ["audio"], "comment": "R I P", "home": "/home/mustert1",
        "shell": "/bin/sh", "password": "$6$a$b/c.d", "password_min_age": 1, "password_max_age": 90,
        "password_warn_days": 5, "expiry": "2030-12-31", "managehome": true,
    });
    assert_eq!(node.apply("user", "mustert1", wanted), ["ensure: created"]);
    assert!(Path::new("/home/mustert1").is_dir());
    let other = json!({
        "uid": 48_002, "gid": "users", "groups": [], "membership": "inclusive", "comment": "",
        "shell": "/bin/false", "password": "!", "password_min_age": -1, "password_max_age": -1,
        "password_warn_days": -1, "expiry": "absent",
    });
    assert_eq!(node.apply("user", "mustert1", other).len(), 10);
    node.apply("user", "mustert1", json!({"ensure": "absent", "managehome": true}));
    assert!(!Path::new("/home/mustert1").exists());
    node.apply("group", "mustert", json!({"members": ["daemon", "bin"]}));
    node.apply("group", "mustert", json!({"members": [], "auth_membership": true, "gid": 48_009}));
    node.apply("group", "mustert", json!({"ensure": "absent"}));
}
