//! Tests of the six documented examples of resources on demand; each is planned, applied, and applied again.

use muster_api::system::fake::FakeSystem;
use serde_json::json;

use super::{Machine, memory, output, scratch};

#[tokio::test]
async fn password_is_changed_and_never_shown() {
    let (_directory, system) = scratch();
    let machine = Machine::new(system, json!({}));
    let input = json!({"type": "user", "name": "rip", "password": "$1$xxx$secret"});
    let done = machine.converges(input.clone()).await;
    assert_eq!(done["resource"], json!("User[rip]"));
    assert_eq!(done["events"][0]["property"], json!("password"));
    assert!(machine.text("/etc/shadow").contains("rip:$1$xxx$secret:"));
    for answer in [done, machine.ask("find", json!({"type": "user", "name": "rip"})).await.unwrap()]
    {
        let shown = answer.to_string();
        assert!(shown.contains("[redacted]"), "{shown}");
        assert!(!shown.contains("secret") && !shown.contains("$1$"), "{shown}");
    }
    let all = machine.ask("search", json!({"type": "user"})).await.unwrap().to_string();
    assert!(all.contains("rip") && !all.contains("$1$"), "{all}");
}

#[tokio::test]
async fn user_is_added_with_a_home_and_removed() {
    let (directory, system) = scratch();
    let machine = Machine::new(system, json!({}));
    let input = json!({
        "type": "user", "name": "foo", "managehome": true, "comment": "Foo User", "password": "$1$xxx$secret",
    });
    let done = machine.converges(input).await;
    assert_eq!(done["result"], json!("created"));
    assert!(machine.text("/etc/passwd").contains("\nfoo:x:1001:1001:Foo User:/home/foo:"));
    assert!(directory.path().join("home/foo").is_dir());
    let done = machine.converges(json!({"type": "user", "name": "foo", "ensure": "absent"})).await;
    assert_eq!(done["result"], json!("removed"));
    assert!(!machine.text("/etc/passwd").contains("foo"));
}

#[tokio::test]
async fn command_runs_until_its_creates_file_exists() {
    let system = memory();
    system.add_file("/etc/passwd", "root:x:0:0::/root:/bin/sh\n");
    system.script_handler(
        &["/bin/sh", "-c", "/bin/date > /tmp/date"],
        |system: &FakeSystem, command| {
            assert_eq!((command.uid, command.timeout.unwrap().as_secs()), (Some(0), 5));
            system.add_file("/tmp/date", "now");
            output(0, "")
        },
    );
    let machine = Machine::new(system.clone(), json!({"allow_types": ["exec"]}));
    let input = json!({
        "type": "exec", "name": "/bin/date > /tmp/date", "user": "root", "timeout": 5, "creates": "/tmp/date",
    });
    let done = machine.converges(input).await;
    assert_eq!(done["resource"], json!("Exec[/bin/date > /tmp/date]"));
    assert_eq!(done["result"], json!("executed successfully"));
    assert_eq!(system.recorded_command_lines(), ["/bin/sh -c /bin/date > /tmp/date"]);
}

#[tokio::test]
async fn mail_alias_is_added_and_existing_ones_are_kept() {
    let (_directory, system) = scratch();
    let machine = Machine::new(system, json!({}));
    let input = json!({
        "type": "mailalias", "name": "foo", "recipient": "rip@devco.net", "target": "/etc/aliases",
    });
    let done = machine.converges(input).await;
    assert_eq!(done["result"], json!("created"));
    assert_eq!(machine.text("/etc/aliases"), "# mine\npostmaster: root\nfoo: rip@devco.net\n");
}

#[tokio::test]
async fn package_is_installed() {
    let system = memory();
    system.add_file("/var/lib/dpkg/status", "");
    system.script_output(&["dpkg-query"], output(1, ""));
    system.script_handler(&["apt-get"], |system, command| {
        assert_eq!(command.argv.last().unwrap(), "unix2dos");
        system.script_output(&["dpkg-query"], output(0, "install ok installed unix2dos 2.2\n"));
        output(0, "")
    });
    let machine = Machine::new(system, json!({}));
    let input = json!({"type": "package", "name": "unix2dos", "ensure": "present"});
    assert_eq!(machine.converges(input).await["result"], json!("created"));
}
