//! The demonstration with the real programs: `rpc demo up`, the commands of the original article, and `rpc demo down`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use muster_tests::command::find_program;
use muster_tests::{nats_server, poll_until_ok};
use serde_json::Value;
use tempfile::TempDir;

/// A running demonstration; dropping it stops it.
pub(crate) struct Demo {
    directory: TempDir,
}

impl Demo {
    pub(crate) fn start() -> Self {
        Self::start_with(&["--nodes", "5"])
    }

    pub(crate) fn start_with(more: &[&str]) -> Self {
        let demo = Self { directory: TempDir::new().unwrap() };
        let fleet = demo.fleet();
        let up = ["demo", "up", "--dir", fleet.to_str().unwrap()];
        let up = demo.rpc(&[&up, more].concat());
        assert!(up.status.success(), "{}", describe_output(&up));
        let output = String::from_utf8(up.stdout).unwrap();
        assert!(output.starts_with(&format!("export RPC_CONFIG={}/rpc.toml\n", fleet.display())));
        demo
    }

    /// The directory of one of the nodes.
    fn any_node(&self) -> PathBuf {
        let mut nodes = std::fs::read_dir(self.fleet().join("nodes")).unwrap();
        nodes.next().unwrap().unwrap().path()
    }

    /// The default directory of a demonstration of this user.
    pub(crate) fn fleet(&self) -> PathBuf {
        self.directory.path().join("cache/muster/demo")
    }

    pub(crate) fn rpc(&self, arguments: &[&str]) -> Output {
        self.rpc_with_input(std::process::Stdio::null(), arguments)
    }

    /// Runs `rpc` with this standard input.
    #[expect(clippy::disallowed_types, reason = "runs the real programs")]
    pub(crate) fn rpc_with_input(
        &self,
        input: impl Into<std::process::Stdio>,
        arguments: &[&str],
    ) -> Output {
        let mut command = std::process::Command::new(find_program("rpc"));
        command.args(arguments).env("RPC_CONFIG", self.fleet().join("rpc.toml"));
        self.run_as_user(&mut command, input)
    }

    /// Runs a line in a shell that has evaluated the settings which `rpc demo up` printed.
    #[expect(clippy::disallowed_types, reason = "runs the real programs")]
    pub(crate) fn type_line(&self, line: &str) -> Output {
        let mut command = std::process::Command::new("bash");
        let rpc = find_program("rpc");
        let session = format!("eval \"$('{}' demo up --quiet)\"\n{line}\n", rpc.display());
        command.args(["-c", &session]).current_dir(self.directory.path());
        self.run_as_user(&mut command, std::process::Stdio::null())
    }

    /// Runs a program with the directories of this demonstration's user.
    #[expect(clippy::disallowed_types, reason = "runs the real programs")]
    fn run_as_user(
        &self,
        command: &mut std::process::Command,
        input: impl Into<std::process::Stdio>,
    ) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!(
            "{}:{path}",
            nats_server::find_binary().parent().unwrap_or(Path::new("")).display()
        );
        command
            .env("RPCD", find_program("rpcd"))
            .env("XDG_STATE_HOME", self.directory.path().join("state"))
            .env("XDG_CONFIG_HOME", self.directory.path().join("config"))
            .env("XDG_CACHE_HOME", self.directory.path().join("cache"))
            .env("PATH", path)
            .stdin(input)
            .output()
            .unwrap()
    }

    /// Ends the daemon of a node, and waits until it is gone.
    pub(crate) fn stop_node(&self, name: &str) {
        let config = self.fleet().join("nodes").join(name).join("rpcd.toml");
        let config = config.to_str().unwrap();
        let find = || {
            std::fs::read_dir("/proc").unwrap().find_map(|entry| {
                let path = entry.unwrap().path();
                let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
                let is_daemon = String::from_utf8_lossy(&line).contains(config);
                is_daemon.then(|| path.file_name()?.to_str()?.parse().ok()).flatten()
            })
        };
        let pid = nix::unistd::Pid::from_raw(find().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        while find().is_some() {
            std::thread::yield_now();
        }
    }

    /// Runs a request with `-j`; returns its document and exit code.
    pub(crate) fn run_json(&self, arguments: &[&str]) -> (Value, i32) {
        let output = self.rpc(&[arguments, &["-j"]].concat());
        let document = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", describe_output(&output)));
        (document, output.status.code().unwrap())
    }

    pub(crate) fn run_text(&self, arguments: &[&str]) -> (String, i32) {
        let output = self.rpc(arguments);
        (String::from_utf8(output.stdout.clone()).unwrap(), output.status.code().unwrap())
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let fleet = self.fleet();
        self.rpc(&["demo", "down", "--dir", fleet.to_str().unwrap()]);
    }
}

/// All output of a program, for assert messages.
pub(crate) fn describe_output(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

const CHANGES: [&[&str]; 5] = [
    &["do", "puppetral", "type=user", "name=rip", "comment=R.I.Pienaar", "password=$1$xxx"],
    &["puppetral", "do", "type=user", "name=foo", "comment=Foo User", "managehome=true"],
    &[
        "do",
        "puppetral",
        "type=exec",
        "name=/bin/date > /tmp/date",
        "user=root",
        "timeout=5",
        "creates=/tmp/date",
    ],
    &[
        "do",
        "puppetral",
        "type=mailalias",
        "name=foo",
        "recipient=rip@devco.net",
        "target=/etc/aliases",
    ],
    &["do", "puppetral", "type=user", "name=foo", "ensure=absent"],
];

#[tokio::test]
async fn history_of_the_demonstration_says_who_changed_what() {
    let demo = Demo::start();
    let (timeout, mut number) = (Duration::from_mins(1), 0);
    // Nodes read within some seconds that the fleet has a history.
    let rows = poll_until_ok("the history has a change of each node", timeout, async || {
        number += 1;
        let content = format!("content={number}");
        let change = ["do", "puppetral", "type=file", "name=/etc/motd", &content];
        assert_eq!(demo.run_json(&change).1, 0);
        let (found, _) = demo.run_json(&["history", "resource", "File[/etc/motd]"]);
        let rows = found["rows"].as_array().cloned().unwrap_or_default();
        let nodes: BTreeSet<String> = rows.iter().map(|row| row["node"].to_string()).collect();
        if nodes.len() == 5 { Ok(rows) } else { Err(found) }
    })
    .await;
    assert!(rows.iter().all(|row| row["who"] == "demo" && row["status"] == "success"), "{rows:#?}");
}

#[test]
fn a10_1_original_commands_work_and_second_run_changes_nothing() {
    let demo = Demo::start();
    for line in CHANGES {
        for changed in [true, false] {
            let (document, code) = demo.run_json(line);
            assert_eq!(code, 0, "{line:?}: {document:#}");
            let replies = document["replies"].as_array().unwrap();
            assert_eq!(replies.len(), 5);
            for reply in replies {
                assert_eq!(reply["data"]["changed"], changed, "{line:?}: {reply:#}");
                assert_eq!(
                    reply["data"]["events"].as_array().unwrap().is_empty(),
                    !changed,
                    "{reply:#}"
                );
            }
        }
    }
    let package = ["do", "puppetral", "type=package", "name=unix2dos", "ensure=present"];
    let (document, code) = demo.run_json(&package);
    assert_eq!(code, 2);
    let message = document["replies"][0]["statusmsg"].as_str().unwrap();
    assert!(message.contains("Unable to locate package unix2dos"), "{message}");
    for node in std::fs::read_dir(demo.fleet().join("nodes")).unwrap() {
        let root = node.unwrap().path().join("root");
        assert!(std::fs::read_to_string(root.join("etc/shadow")).unwrap().contains("rip:$1$xxx:"));
        assert!(root.join("tmp/date").exists());
        assert!(!std::fs::read_to_string(root.join("etc/passwd")).unwrap().contains("foo:"));
    }
}

/// What `rpc demo up --catalogs` prints to try, in its order.
#[test]
fn demo_with_catalogs_leads_through_a_release() {
    if muster_tests::tools::is_skipped("puppet") {
        return;
    }
    let demo = Demo::start_with(&["--catalogs"]);
    let run = |words: &[&str]| {
        let (text, code) = demo.run_text(words);
        assert_eq!(code, 0, "{words:?}: {text}");
        text
    };
    let create = ["release", "create", "--environment", "production"];
    assert!(run(&create).contains("r1: 5 of 5 nodes compiled, 0 failed"));
    run(&["release", "plan", "r1"]);
    run(&["release", "promote", "r1", "--all", "--canary", "1"]);
    let web = demo.fleet().join("nodes/web1.dev.acme.net/root/etc");
    let read = |name: &str| std::fs::read_to_string(web.join(name)).unwrap();
    assert_eq!(read("motd"), "This is web1, a web server of acme.\n");
    assert_eq!(read("databases"), "db1.acme.net\ndb1.dev.acme.net\ndb2.dev.acme.net\n");
    assert_eq!(read("web.key"), "correct horse battery staple");
    let code = demo.fleet().join("code/production/modules/web/files/web.conf");
    std::fs::write(&code, read("web.conf").replace("workers 4", "workers 8")).unwrap();
    run(&["compile", "--environment", "production"]);
    assert!(run(&create).contains("r2: 5 of 5 nodes compiled, 0 failed"));
    let diff = run(&["release", "diff", "r2"]);
    assert!(diff.contains("-workers 4") && diff.contains("+workers 8"), "{diff}");
    assert_eq!(read("web.conf"), "workers 4\nlog /var/log/web.log\n");
}

#[test]
fn queries_find_the_right_nodes_and_set_exit_codes() {
    let demo = Demo::start();
    let (found, code) =
        demo.run_text(&["find", "-W", "environment=development customer=acme mysql::master"]);
    assert_eq!(code, 0);
    let nodes: Vec<&str> = found.lines().collect();
    assert!(!nodes.is_empty() && nodes.len() < 5, "{found}");
    let (inventory, code) = demo.run_text(&["inventory", nodes[0]]);
    assert!(
        code == 0 && inventory.contains("mysql::master") && inventory.contains("customer"),
        "{inventory}"
    );
    let (ping, code) = demo.run_text(&["ping"]);
    assert!(code == 0 && ping.contains("5 replies"), "{ping}");
    let (facts, code) = demo.run_text(&["facts", "country"]);
    assert!(code == 0 && facts.contains("Report for fact: country"), "{facts}");

    for (line, expected) in [
        (&["find", "-C", "unicorn"][..], 1),
        (&["facts", "countyr"], 1),
        (&["facts", "countyr", "-j"], 1),
        (&["permit", "show", "unicorn"], 1),
        (&["do", "puppetral", "type=user", "name=rip", "-C", "unicorn"], 1),
        (&["do", "puppetral", "type=user", "name=rip", "wings=2"], 4),
        (&["do", "puppetral", "type=user", "name=rip", "wings=2", "--skip-input-check"], 2),
        (&["do", "puppetral", "type=user", "name=rip", "-I", "gone.example.net"], 3),
        (&["do", "puppetral", "type=user"], 4),
        (&["do", "unicorn", "fly"], 4),
        (&["find", "-F", "="], 4),
    ] {
        let output = demo.rpc(line);
        assert_eq!(output.status.code(), Some(expected), "{line:?}: {}", describe_output(&output));
    }
    check_system_certificates_are_unused(&demo);
    check_limits_and_output_forms(&demo);
    check_failing_rollouts_stop(&demo);
}

/// The organisation's own authority is configured, so the system's certificates are not read, even if they are invalid.
#[expect(clippy::disallowed_types, reason = "runs the real program")]
fn check_system_certificates_are_unused(demo: &Demo) {
    let ping = std::process::Command::new(find_program("rpc"))
        .args(["do", "rpcutil", "ping", "-1"])
        .env("RPC_CONFIG", demo.fleet().join("rpc.toml"))
        .env("XDG_STATE_HOME", demo.directory.path().join("state"))
        .env("SSL_CERT_FILE", demo.directory.path().join("not-there.pem"))
        .output()
        .unwrap();
    assert!(ping.status.success(), "{}", describe_output(&ping));
}

fn check_limits_and_output_forms(demo: &Demo) {
    let ping = ["do", "rpcutil", "ping"];
    let with = |more: &[&str]| demo.run_text(&[&ping, more].concat());
    let (some, code) = with(&["--limit", "40%", "--senders"]);
    assert_eq!((some.lines().count(), code), (2, 0), "{some}");
    let (selected, _) = with(&["-1", "--limit-seed", "7", "--senders"]);
    assert_eq!(selected.lines().count(), 1);
    assert_eq!(with(&["-1", "--limit-seed", "7", "--senders"]).0, selected);

    let list = demo.directory.path().join("list");
    let list = list.to_str().unwrap();
    assert_eq!(with(&["--limit", "3", "-j", "-o", list]), (String::new(), 0));
    let (listed, code) = with(&["--nodes", list, "--senders", "--sort"]);
    assert_eq!((listed.lines().count(), code), (3, 0), "{listed}");
    std::fs::write(list, "# nobody\n").unwrap();
    assert_eq!(with(&["--nodes", list]).1, 1);
    assert_eq!(with(&["--nodes", list, "-C", "apache"]).1, 4);

    let (lines, code) = with(&["--batch", "2", "--batch-sleep", "0", "--jsonl"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> =
        lines.iter().map(|line| line.get("kind").and_then(Value::as_str).unwrap()).collect();
    let [w, r, expected] = ["wave", "result", "discovered"];
    assert_eq!(kinds, [expected, w, r, r, w, r, r, w, r, "summaries", "stats"]);
    let stats = lines.last().unwrap();
    assert_eq!((stat(stats, "ok").as_u64(), code), (Some(5), 0));
    assert_eq!(stat(stats, "requestids").as_array().unwrap().len(), 3);
    let (lines, code) = demo.run_text(&["do", "rpcutil", "pong", "--jsonl"]);
    assert!(code == 4 && lines.starts_with("{\"kind\":\"error\""), "{lines}");
}

fn check_failing_rollouts_stop(demo: &Demo) {
    let failing = ["do", "puppetral", "type=user", "name=rip", "wings=2", "--skip-input-check"];
    for (more, sent) in [
        (&["--canary", "1"][..], 1),
        (&["--batch", "2", "--batch-sleep", "0", "--max-failures", "2"], 4),
        (&["--batch", "2", "--batch-sleep", "0", "--max-failures", "10%"], 2),
        (&["--batch", "4", "--batch-sleep", "0"], 5),
    ] {
        let (document, code) = demo.run_json(&[&failing, more].concat());
        let stats = &document;
        assert_eq!((stat(stats, "failed").as_u64(), code), (Some(sent), 2), "{stats:#}");
        let not_asked = stat(stats, "not_asked").as_array().unwrap().len();
        assert_eq!(not_asked as u64, 5 - sent, "{stats:#}");
    }
    let stopped = demo.rpc(&[failing.as_slice(), &["--canary", "1"]].concat());
    let output = describe_output(&stopped);
    assert!(
        output.contains("Batch 1 of 2: 1 node") && output.contains("No request sent to:"),
        "{output}"
    );
    assert!(
        output.contains("stopped: 1 of 1 canary failed or did not reply (maximum 0)"),
        "{output}"
    );
    let (document, code) =
        demo.run_json(&["do", "rpcutil", "ping", "--canary", "2", "--batch-sleep", "0"]);
    assert_eq!((stat(&document, "ok").as_u64(), code), (Some(5), 0));
}

fn stat<'a>(document: &'a Value, name: &str) -> &'a Value {
    document.pointer(&format!("/request_stats/{name}")).unwrap()
}

#[test]
fn virtual_nodes_keep_changes_inside_their_process() {
    let demo = Demo::start_with(&["--nodes", "200", "--virtual"]);
    let ping = || demo.run_text(&["ping"]).0;
    // One more node runs the directory, which has all of them when the demonstration is up.
    let all = repeat_until(ping, |output| output.contains("201 replies"));
    assert!(all.contains("201 replies"), "{all}");
    let find = |filter: &[&str]| demo.run_text(&[&["find", "--dm", "directory"], filter].concat());
    let lines = |text: &str| text.lines().count();
    let (germans, code) = find(&["-F", "country=de"]);
    assert_eq!((lines(&germans), code), (50, 0), "{germans}");
    let (masters, _) = find(&["-W", "environment=development customer=acme mysql::master"]);
    assert_eq!(lines(&masters), 80, "{masters}");
    let (listed, code) = demo.run_json(&["nodes"]);
    let is_present = |node: &&Value| node["state"] == "present";
    let present = listed["nodes"].as_array().unwrap().iter().filter(is_present).count();
    assert_eq!((present, code), (201, 0));
    let (facts, code) = demo.run_text(&["facts", "os.family"]);
    assert!(code == 0 && facts.contains("Suse"), "{facts}");

    let list = demo.directory.path().join("masters");
    std::fs::write(&list, masters).unwrap();
    let list = list.to_str().unwrap();
    let user = ["do", "puppetral", "type=user", "name=rip", "--nodes", list];
    for changed in [true, false] {
        let (document, code) = demo.run_json(&user);
        assert_eq!(code, 0, "{document:#}");
        let replies = document["replies"].as_array().unwrap();
        assert_eq!(replies.len(), 80);
        let is_expected = |reply: &Value| reply["data"]["changed"] == changed;
        assert!(replies.iter().all(is_expected), "{document:#}");
    }
    // Virtual nodes start no program of this machine.
    let exec = ["do", "puppetral", "type=exec", "name=/bin/true"];
    let one = ["-I", "db1.acme.net"];
    assert_eq!(demo.run_json(&[exec.as_slice(), &one].concat()).1, 2);

    let status = demo.rpc(&["demo", "status", "--dir", demo.fleet().to_str().unwrap()]);
    let output = describe_output(&status);
    assert!(status.status.success() && output.contains("200 virtual nodes"), "{output}");
    assert_nothing_left(&demo);
}

/// Repeats a query until its result is complete: a busy machine may end the wait for replies to a broadcast too soon.
fn repeat_until(query: impl Fn() -> String, is_complete: impl Fn(&String) -> bool) -> String {
    (0..20).map(|_| query()).find(is_complete).unwrap_or_else(&query)
}

#[test]
fn too_many_node_processes_are_refused() {
    let demo = Demo { directory: TempDir::new().unwrap() };
    let fleet = demo.fleet();
    let up = demo.rpc(&["demo", "up", "--nodes", "501", "--dir", fleet.to_str().unwrap()]);
    let output = describe_output(&up);
    assert_eq!(up.status.code(), Some(1));
    assert!(output.contains("--virtual") && !fleet.exists(), "{output}");
}

#[test]
fn stopped_demonstration_leaves_nothing_behind() {
    assert_nothing_left(&Demo::start());
}

fn assert_nothing_left(demo: &Demo) {
    let fleet = demo.fleet();
    let down = demo.rpc(&["demo", "down", "--dir", fleet.to_str().unwrap()]);
    assert!(down.status.success(), "{}", describe_output(&down));
    assert!(!fleet.exists());
    for process in std::fs::read_dir("/proc").unwrap() {
        let line = std::fs::read(process.unwrap().path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        assert!(!line.contains(fleet.to_str().unwrap()), "still running: {line}");
    }
}

#[test]
fn check_and_second_daemon_do_not_disturb_the_first() {
    use std::os::unix::fs::MetadataExt as _;
    let demo = Demo::start();
    let node = demo.any_node();
    let config = node.join("rpcd.toml");
    let journal = || std::fs::metadata(node.join("state/seen")).unwrap().ino();
    let before = journal();
    let check = run_daemon(&["--config", config.to_str().unwrap(), "--check"]);
    assert!(
        check.status.success() && describe_output(&check).contains("broker.urls"),
        "{}",
        describe_output(&check)
    );
    let second = run_daemon(&["--config", config.to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(1));
    assert!(
        describe_output(&second).contains("another rpcd is running"),
        "{}",
        describe_output(&second)
    );
    assert_eq!(journal(), before);
}

#[test]
fn daemon_without_a_broker_handles_signals() {
    let demo = Demo::start();
    let node = demo.any_node();
    let text = std::fs::read_to_string(node.join("rpcd.toml")).unwrap();
    let (other_state, unreachable) =
        (text.replace("\"state\"", "\"state2\""), "urls = [\"tls://127.0.0.1:1\"]");
    let isolated: String = other_state
        .lines()
        .map(|line| {
            if line.starts_with("urls") { format!("{unreachable}\n") } else { format!("{line}\n") }
        })
        .collect();
    std::fs::write(node.join("alone.toml"), isolated).unwrap();
    let mut running = spawn_daemon(&["--config", node.join("alone.toml").to_str().unwrap()]);
    let pid = nix::unistd::Pid::from_raw(i32::try_from(running.id()).unwrap());
    let lock = node.join("state2/lock");
    while !lock.exists() {
        assert!(running.try_wait().unwrap().is_none(), "rpcd ended");
        std::thread::yield_now();
    }
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).unwrap();
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(0));
}

#[expect(clippy::disallowed_types, reason = "runs the real daemon")]
fn run_daemon(arguments: &[&str]) -> Output {
    std::process::Command::new(find_program("rpcd")).args(arguments).output().unwrap()
}

#[expect(clippy::disallowed_types, reason = "runs the real daemon")]
fn spawn_daemon(arguments: &[&str]) -> std::process::Child {
    let null = std::process::Stdio::null;
    std::process::Command::new(find_program("rpcd")).args(arguments).stderr(null()).spawn().unwrap()
}
