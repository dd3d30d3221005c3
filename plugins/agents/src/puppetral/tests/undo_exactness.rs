//! Tests of undo: everything is restored as it was, or named with the reason; later changes are not overwritten.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use muster_api::ActionError;
use muster_api::system::fake::FakeSystem;
use serde_json::{Value, json};

use super::{Machine, output, scratch};

/// A machine with a scratch root and its undo records.
struct UndoMachine {
    root: tempfile::TempDir,
    state: tempfile::TempDir,
    machine: Machine,
}

impl UndoMachine {
    fn new() -> Self {
        let (root, system) = scratch();
        let state = tempfile::tempdir().unwrap();
        let options = json!({"state_dir": state.path(), "deny_types": []});
        Self { root, machine: Machine::new(system, options), state }
    }

    fn host_path(&self, path: &str) -> std::path::PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    fn write(&self, path: &str, content: &str) {
        std::fs::create_dir_all(self.host_path(path).parent().unwrap()).unwrap();
        std::fs::write(self.host_path(path), content).unwrap();
    }

    /// Makes the change, which must succeed, and returns the id of its undo record.
    async fn change(&self, input: Value) -> String {
        let done = self.machine.ask("do", input.clone()).await.unwrap();
        assert_eq!(done["changed"], true, "{input}: {done}");
        newest_record(self.state.path())
    }

    async fn undo(&self, id: &str) -> Result<Value, ActionError> {
        self.machine.ask("do", json!({"undo": id})).await
    }

    async fn force_undo(&self, id: &str) -> Result<Value, ActionError> {
        self.machine.ask("do", json!({"undo": id, "force": true})).await
    }

    /// Changes and undoes; all accounts and the given files are as before.
    async fn restores(&self, input: Value, files: &[&str]) {
        let before: Vec<String> = files.iter().map(|file| self.machine.text(file)).collect();
        let id = self.change(input.clone()).await;
        let after: Vec<String> = files.iter().map(|file| self.machine.text(file)).collect();
        assert_ne!(before, after, "{input}");
        self.undo(&id).await.unwrap();
        let restored: Vec<String> = files.iter().map(|file| self.machine.text(file)).collect();
        assert_eq!(before, restored, "{input}");
    }
}

fn newest_record(state: &Path) -> String {
    let names = std::fs::read_dir(state.join("undo")).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).max().unwrap()
}

/// The lines of a file without those about other names, sorted: the order of accounts in a file has no meaning.
fn sorted_lines(machine: &Machine, path: &str) -> Vec<String> {
    let text = machine.text(path);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

fn diff_of(error: &ActionError) -> String {
    error.data.get("diff").and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn removed_file_gets_its_owner_group_mode_and_content_back() {
    let undo = UndoMachine::new();
    undo.write("/tmp/app.conf", "secret\n");
    let path = undo.host_path("/tmp/app.conf");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    std::os::unix::fs::chown(&path, Some(1000), Some(1000)).unwrap();
    let id =
        undo.change(json!({"type": "file", "name": "/tmp/app.conf", "ensure": "absent"})).await;
    assert!(!path.exists());
    undo.undo(&id).await.unwrap();
    let found = std::fs::metadata(&path).unwrap();
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (1000, 1000, 0o640));
    assert_eq!(undo.machine.text("/tmp/app.conf"), "secret\n");
}

#[tokio::test]
async fn link_that_was_replaced_by_a_file_is_restored() {
    let undo = UndoMachine::new();
    std::os::unix::fs::symlink("/tmp/target", undo.host_path("/tmp/link")).unwrap();
    let input = json!({"type": "file", "name": "/tmp/link", "ensure": "file", "content": "x"});
    let id = undo.change(input).await;
    undo.undo(&id).await.unwrap();
    let link = std::fs::read_link(undo.host_path("/tmp/link")).unwrap();
    assert_eq!(link, Path::new("/tmp/target"));
}

#[tokio::test]
async fn file_above_the_limit_of_an_input_is_restored() {
    let undo = UndoMachine::new();
    let content = "0123456789abcde\n".repeat(200_000);
    undo.write("/tmp/large", &content);
    let id = undo.change(json!({"type": "file", "name": "/tmp/large", "ensure": "absent"})).await;
    undo.undo(&id).await.unwrap();
    assert!(std::fs::read_to_string(undo.host_path("/tmp/large")).unwrap() == content);
}

#[tokio::test]
async fn removed_user_gets_its_own_group_password_and_ages_back() {
    let undo = UndoMachine::new();
    undo.write("/etc/login.defs", "USERGROUPS_ENAB yes\nUID_MIN 1000\n");
    undo.machine
        .ask("do", json!({"type": "group", "name": "ops", "members": ["rip"]}))
        .await
        .unwrap();
    let files = ["/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow"];
    let before = files.map(|file| sorted_lines(&undo.machine, file));
    let id = undo.change(json!({"type": "user", "name": "rip", "ensure": "absent"})).await;
    assert!(!undo.machine.text("/etc/group").contains("rip:x:1000"));
    undo.undo(&id).await.unwrap();
    let after = files.map(|file| sorted_lines(&undo.machine, file));
    // The day of the last change of the password is not a property; a restored password is new.
    let without_day = |lines: &Vec<String>| -> Vec<String> {
        let fields = lines.iter().map(|line| line.split(':').collect::<Vec<_>>());
        let kept = fields.map(|fields| match fields.as_slice() {
            [name, password, _, rest @ ..] if fields.len() == 9 => {
                format!("{name}:{password}:{}", rest.join(":"))
            }
            other => other.join(":"),
        });
        kept.collect()
    };
    for (file, (before, after)) in files.iter().zip(before.iter().zip(&after)) {
        assert_eq!(without_day(before), without_day(after), "{file}");
    }
}

#[tokio::test]
async fn properties_that_were_not_set_are_unset_again() {
    let undo = UndoMachine::new();
    undo.machine.ask("do", json!({"type": "group", "name": "ops"})).await.unwrap();
    let accounts = ["/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow"];
    undo.restores(json!({"type": "user", "name": "rip", "groups": "ops"}), &accounts).await;
    let expiry =
        json!({"type": "user", "name": "rip", "expiry": "2030-12-31", "shell": "/bin/zsh"});
    undo.restores(expiry, &accounts).await;
    undo.machine.ask("do", json!({"type": "host", "name": "db1", "ip": "10.0.0.5"})).await.unwrap();
    let host = json!({"type": "host", "name": "db1", "comment": "primary", "host_aliases": "db"});
    undo.restores(host, &["/etc/hosts"]).await;
}

#[tokio::test]
async fn memberships_that_a_change_added_are_removed() {
    let undo = UndoMachine::new();
    for name in ["ops", "dba"] {
        undo.machine.ask("do", json!({"type": "group", "name": name})).await.unwrap();
    }
    undo.machine
        .ask("do", json!({"type": "user", "name": "rip", "groups": ["ops"]}))
        .await
        .unwrap();
    let accounts = ["/etc/group", "/etc/gshadow"];
    undo.restores(json!({"type": "user", "name": "rip", "groups": "dba"}), &accounts).await;
    undo.restores(json!({"type": "group", "name": "dba", "members": "rip"}), &accounts).await;
}

#[tokio::test]
async fn one_property_that_cannot_be_restored_does_not_fail_the_others() {
    let undo = UndoMachine::new();
    undo.machine.ask("do", json!({"type": "group", "name": "ops"})).await.unwrap();
    let ops = json!({"type": "user", "name": "rip", "groups": "ops"});
    undo.machine.ask("do", ops).await.unwrap();
    let id = undo.change(json!({"type": "user", "name": "rip", "ensure": "absent"})).await;
    let gone = json!({"type": "group", "name": "ops", "ensure": "absent"});
    undo.machine.ask("do", gone).await.unwrap();
    let error = undo.undo(&id).await.unwrap_err();
    let reason = "not restored: User[rip]: groups: the group ops no longer exists";
    assert!(error.message.contains(reason), "{}", error.message);
    assert_eq!(error.data["changed"], true);
    assert!(undo.machine.text("/etc/passwd").contains("rip:x:1000:1000:R. I. P."));
}

#[tokio::test]
async fn binary_content_is_named_and_the_mode_is_restored() {
    let undo = UndoMachine::new();
    let path = undo.host_path("/tmp/blob");
    std::fs::write(&path, b"\xff\x00").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let input = json!({"type": "file", "name": "/tmp/blob", "content": "text", "mode": "0644"});
    let id = undo.change(input).await;
    let error = undo.undo(&id).await.unwrap_err();
    assert!(error.message.contains("content: its content was not UTF-8"), "{}", error.message);
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(undo.machine.text("/tmp/blob"), "text");
}

#[tokio::test]
async fn file_edited_after_the_change_is_refused_with_its_diff() {
    let undo = UndoMachine::new();
    undo.write("/tmp/motd", "old\n");
    let input = json!({"type": "file", "name": "/tmp/motd", "content": "new\nlast\n"});
    let id = undo.change(input).await;
    undo.write("/tmp/motd", "new\nby hand\nlast\n");
    for noop in [true, false] {
        let error = undo.machine.ask("do", json!({"undo": id, "noop": noop})).await.unwrap_err();
        assert!(error.message.contains("File[/tmp/motd]: content; "), "{}", error.message);
        assert!(error.message.contains("nothing was undone"), "{}", error.message);
        let diff = diff_of(&error);
        assert!(diff.contains("+by hand") && !diff.contains("old"), "{diff}");
        assert_eq!(undo.machine.text("/tmp/motd"), "new\nby hand\nlast\n");
    }
    undo.force_undo(&id).await.unwrap();
    assert_eq!(undo.machine.text("/tmp/motd"), "old\n");
}

#[tokio::test]
async fn created_file_that_was_edited_is_not_removed() {
    let undo = UndoMachine::new();
    let id = undo.change(json!({"type": "file", "name": "/tmp/new", "content": "one\n"})).await;
    undo.write("/tmp/new", "one\nby hand\n");
    let error = undo.undo(&id).await.unwrap_err();
    assert!(diff_of(&error).contains("+by hand"), "{error:?}");
    assert_eq!(undo.machine.text("/tmp/new"), "one\nby hand\n");
    undo.force_undo(&id).await.unwrap();
    assert!(!undo.host_path("/tmp/new").exists());
}

#[tokio::test]
async fn edit_of_a_private_file_is_refused_without_its_content() {
    let undo = UndoMachine::new();
    let input = json!({"type": "file", "name": "/tmp/key", "content": "one", "mode": "0600"});
    let id = undo.change(input).await;
    undo.write("/tmp/key", "another-secret");
    let error = undo.undo(&id).await.unwrap_err();
    let text = format!("{} {}", error.message, diff_of(&error));
    assert!(text.contains("not every user may read") && !text.contains("another-secret"), "{text}");
}

#[tokio::test]
async fn property_changed_by_another_is_not_overwritten() {
    let undo = UndoMachine::new();
    let id = undo.change(json!({"type": "user", "name": "rip", "shell": "/bin/zsh"})).await;
    let later = undo.machine.text("/etc/passwd").replace("/bin/zsh", "/bin/fish");
    undo.write("/etc/passwd", &later);
    let error = undo.undo(&id).await.unwrap_err();
    let expected = "User[rip]: shell is '/bin/fish', the change left '/bin/zsh'";
    assert!(error.message.contains(expected), "{}", error.message);
    assert_eq!(undo.machine.text("/etc/passwd"), later);
}

#[tokio::test]
async fn created_directory_is_removed_only_while_it_is_empty() {
    let undo = UndoMachine::new();
    let input = json!({"type": "file", "name": "/tmp/spool", "ensure": "directory"});
    let id = undo.change(input.clone()).await;
    undo.undo(&id).await.unwrap();
    assert!(!undo.host_path("/tmp/spool").exists());
    let id = undo.change(input).await;
    undo.write("/tmp/spool/job", "1");
    let error = undo.undo(&id).await.unwrap_err();
    assert!(error.message.contains("the directory is not empty, it has 1 entry"));
    assert!(undo.host_path("/tmp/spool/job").exists());
    undo.force_undo(&id).await.unwrap();
    assert!(!undo.host_path("/tmp/spool").exists());
}

#[tokio::test]
async fn home_directories_are_named_where_they_are_lost_or_kept() {
    let undo = UndoMachine::new();
    let created = json!({"type": "user", "name": "foo", "managehome": "true"});
    let id = undo.change(created).await;
    let error = undo.undo(&id).await.unwrap_err();
    assert!(error.message.contains("home: the home directory /home/foo was created"), "{error:?}");
    assert!(!undo.machine.text("/etc/passwd").contains("foo:"));
    assert!(undo.host_path("/home/foo").exists());
    undo.write("/home/rip/notes", "x");
    let removed = json!({"type": "user", "name": "rip", "ensure": "absent", "managehome": "true"});
    let id = undo.change(removed).await;
    let error = undo.undo(&id).await.unwrap_err();
    let reason = "home: /home/rip was removed with its contents, and they were not kept";
    assert!(error.message.contains(reason), "{}", error.message);
    assert!(undo.host_path("/home/rip").exists());
}

#[tokio::test]
async fn removed_records_of_files_are_restored_with_all_their_fields() {
    let undo = UndoMachine::new();
    undo.write("/etc/ssh/.keep", "");
    for (input, file) in [
        (
            json!({"type": "ssh_authorized_key", "name": "k1", "user": "rip", "key": "AAAA", "params": {"type": "ssh-ed25519"}, "options": "no-pty"}),
            "/home/rip/.ssh/authorized_keys",
        ),
        (
            json!({"type": "sshkey", "name": "db1", "key": "AAAA", "params": {"type": "ssh-ed25519"}}),
            "/etc/ssh/ssh_known_hosts",
        ),
        (json!({"type": "mailalias", "name": "ops", "recipient": "rip"}), "/etc/aliases"),
        (
            json!({"type": "cron", "name": "job", "user": "rip", "command": "/bin/x", "hour": "3", "environment": "A=b"}),
            "/var/spool/cron/crontabs/rip",
        ),
    ] {
        undo.machine.ask("do", input.clone()).await.unwrap();
        let mut removal = input;
        removal["ensure"] = json!("absent");
        undo.restores(removal, &[file]).await;
    }
}

/// A machine with one unit, whose state is in the files `/active` and `/enabled`.
fn with_unit(active: &str, enabled: &str, state: &Path) -> Machine {
    let system = FakeSystem::new();
    system.add_directory("/run/systemd/system");
    for (path, value) in [("/active", active), ("/enabled", enabled)] {
        system.add_file(path, value);
    }
    system.script_handler(&["systemctl", "show"], |system, _| {
        let (active, enabled) = (system.file_text("/active"), system.file_text("/enabled"));
        let text = format!("LoadState=loaded\nActiveState={active}\nUnitFileState={enabled}\n");
        output(0, &text)
    });
    let is_static = enabled == "static";
    let or_static = |word| if is_static { "static" } else { word };
    for (verb, path, value) in [
        ("start", "/active", "active"),
        ("stop", "/active", "inactive"),
        ("mask", "/enabled", "masked"),
        ("unmask", "/enabled", or_static("disabled")),
        ("enable", "/enabled", or_static("enabled")),
        ("disable", "/enabled", or_static("disabled")),
    ] {
        system.script_handler(&["systemctl", verb], move |system, _| {
            system.add_file(path, value);
            output(0, "")
        });
    }
    system.script_output(&["systemctl", "cat"], output(0, ""));
    Machine::new(system, json!({"state_dir": state}))
}

#[tokio::test]
async fn masks_are_removed_and_set_again() {
    for (active, enabled, attributes) in [
        ("active", "disabled", json!({"enable": "mask"})),
        ("active", "enabled", json!({"enable": "mask"})),
        ("active", "static", json!({"enable": "mask"})),
        ("active", "masked", json!({"enable": "true"})),
        ("inactive", "masked", json!({"ensure": "running"})),
        ("inactive", "masked", json!({"ensure": "running", "enable": "true"})),
        ("inactive", "masked", json!({"ensure": "running", "enable": "false"})),
    ] {
        let state = tempfile::tempdir().unwrap();
        let machine = with_unit(active, enabled, state.path());
        let mut request = json!({"type": "service", "name": "web"});
        request.as_object_mut().unwrap().extend(attributes.as_object().unwrap().clone());
        let reply = machine.ask("do", request.clone()).await.unwrap();
        assert_eq!(reply["changed"], true, "{request}");
        machine.ask("do", json!({"undo": newest_record(state.path())})).await.unwrap();
        let found = (machine.text("/active"), machine.text("/enabled"));
        assert_eq!(found, (active.to_owned(), enabled.to_owned()), "{request}");
    }
}

#[tokio::test]
async fn service_with_a_static_unit_is_started_again() {
    let state = tempfile::tempdir().unwrap();
    let machine = with_unit("active", "static", state.path());
    let stopped = json!({"type": "service", "name": "logind", "ensure": "stopped"});
    machine.ask("do", stopped).await.unwrap();
    assert_eq!(machine.text("/active"), "inactive");
    machine.ask("do", json!({"undo": newest_record(state.path())})).await.unwrap();
    assert_eq!(machine.text("/active"), "active");
    machine
        .ask("do", json!({"type": "service", "name": "logind", "enable": "mask"}))
        .await
        .unwrap();
    assert_eq!(machine.text("/enabled"), "masked");
    machine.ask("do", json!({"undo": newest_record(state.path())})).await.unwrap();
    assert_eq!(machine.text("/enabled"), "static");
}
