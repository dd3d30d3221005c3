//! The demonstration with the real programs: `rpc demo up`, the command lines that started it all, and `rpc demo down`.

use std::path::{Path, PathBuf};
use std::process::Output;

use muster_tests::command::find_program;
use muster_tests::nats_server;
use serde_json::Value;
use tempfile::TempDir;

/// A running demonstration; ended with its owner.
pub(crate) struct Demo {
    directory: TempDir,
}

impl Demo {
    pub(crate) fn up() -> Self {
        Self::up_with(&["--nodes", "5"])
    }

    fn up_with(more: &[&str]) -> Self {
        let demo = Self { directory: TempDir::new().unwrap() };
        let fleet = demo.fleet();
        let up = ["demo", "up", "--dir", fleet.to_str().unwrap()];
        let up = demo.rpc(&[&up, more].concat());
        assert!(up.status.success(), "{}", describe_output(&up));
        let said = String::from_utf8(up.stdout).unwrap();
        assert_eq!(said.trim(), format!("export RPC_CONFIG={}/rpc.toml", fleet.display()));
        demo
    }

    /// The directory of any one node.
    fn some_node(&self) -> PathBuf {
        let mut nodes = std::fs::read_dir(self.fleet().join("nodes")).unwrap();
        nodes.next().unwrap().unwrap().path()
    }

    pub(crate) fn fleet(&self) -> PathBuf {
        self.directory.path().join("fleet")
    }

    pub(crate) fn rpc(&self, arguments: &[&str]) -> Output {
        self.rpc_reading(std::process::Stdio::null(), arguments)
    }

    /// Runs `rpc` with this standard input.
    #[expect(clippy::disallowed_types, reason = "runs the real programs")]
    pub(crate) fn rpc_reading(
        &self,
        input: impl Into<std::process::Stdio>,
        arguments: &[&str],
    ) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!(
            "{}:{path}",
            nats_server::find_binary().parent().unwrap_or(Path::new("")).display()
        );
        std::process::Command::new(find_program("rpc"))
            .args(arguments)
            .env("RPC_CONFIG", self.fleet().join("rpc.toml"))
            .env("RPCD", find_program("rpcd"))
            .env("XDG_STATE_HOME", self.directory.path().join("state"))
            .env("PATH", path)
            .stdin(input)
            .output()
            .unwrap()
    }

    /// Runs a request with `-j`; its document and exit code.
    fn ask(&self, arguments: &[&str]) -> (Value, i32) {
        let output = self.rpc(&[arguments, &["-j"]].concat());
        let document = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", describe_output(&output)));
        (document, output.status.code().unwrap())
    }

    fn line(&self, arguments: &[&str]) -> (String, i32) {
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

/// Beside the test's own binary; `make test` builds them before.
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

#[test]
fn the_command_lines_work_on_the_real_thing_and_the_second_run_changes_nothing() {
    let demo = Demo::up();
    for line in CHANGES {
        for changed in [true, false] {
            let (document, code) = demo.ask(line);
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
    let (document, code) = demo.ask(&package);
    assert_eq!(code, 2);
    let message = document["replies"][0]["statusmsg"].as_str().unwrap();
    assert!(message.contains("no package database"), "{message}");
    for node in std::fs::read_dir(demo.fleet().join("nodes")).unwrap() {
        let root = node.unwrap().path().join("root");
        assert!(std::fs::read_to_string(root.join("etc/shadow")).unwrap().contains("rip:$1$xxx:"));
        assert!(root.join("tmp/date").exists());
        assert!(!std::fs::read_to_string(root.join("etc/passwd")).unwrap().contains("foo:"));
    }
}

#[test]
fn questions_find_the_right_nodes_and_exit_codes_tell_the_truth() {
    let demo = Demo::up();
    let (found, code) =
        demo.line(&["find", "-W", "environment=development customer=acme mysql::master"]);
    assert_eq!(code, 0);
    let nodes: Vec<&str> = found.lines().collect();
    assert!(!nodes.is_empty() && nodes.len() < 5, "{found}");
    let (inventory, code) = demo.line(&["inventory", nodes[0]]);
    assert!(
        code == 0 && inventory.contains("mysql::master") && inventory.contains("customer"),
        "{inventory}"
    );
    let (ping, code) = demo.line(&["ping"]);
    assert!(code == 0 && ping.contains("5 replies"), "{ping}");
    let (facts, code) = demo.line(&["facts", "country"]);
    assert!(code == 0 && facts.contains("Report for fact: country"), "{facts}");

    for (line, expected) in [
        (&["find", "-C", "unicorn"][..], 1),
        (&["do", "puppetral", "type=user", "name=rip", "-C", "unicorn"], 1),
        (&["do", "puppetral", "type=user", "name=rip", "wings=2"], 2),
        (&["do", "puppetral", "type=user", "name=rip", "-I", "gone.example.net"], 3),
        (&["do", "puppetral", "type=user"], 4),
        (&["do", "unicorn", "fly"], 4),
        (&["find", "-F", "="], 4),
    ] {
        let output = demo.rpc(line);
        assert_eq!(output.status.code(), Some(expected), "{line:?}: {}", describe_output(&output));
    }
    nothing_of_the_systems_authorities_is_needed(&demo);
    fewer_nodes_and_other_forms(&demo);
    rollouts_end_when_they_do_harm(&demo);
}

/// The organisation's own authority is named: the system's are neither trusted nor read, whatever is wrong with them.
#[expect(clippy::disallowed_types, reason = "runs the real program")]
fn nothing_of_the_systems_authorities_is_needed(demo: &Demo) {
    let ping = std::process::Command::new(find_program("rpc"))
        .args(["do", "rpcutil", "ping", "-1"])
        .env("RPC_CONFIG", demo.fleet().join("rpc.toml"))
        .env("XDG_STATE_HOME", demo.directory.path().join("state"))
        .env("SSL_CERT_FILE", demo.directory.path().join("not-there.pem"))
        .output()
        .unwrap();
    assert!(ping.status.success(), "{}", describe_output(&ping));
}

fn fewer_nodes_and_other_forms(demo: &Demo) {
    let ping = ["do", "rpcutil", "ping"];
    let with = |more: &[&str]| demo.line(&[&ping, more].concat());
    let (some, code) = with(&["--limit", "40%", "--senders"]);
    assert_eq!((some.lines().count(), code), (2, 0), "{some}");
    let (drawn, _) = with(&["-1", "--limit-seed", "7", "--senders"]);
    assert_eq!(drawn.lines().count(), 1);
    assert_eq!(with(&["-1", "--limit-seed", "7", "--senders"]).0, drawn);

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
    let [r, expected] = ["result", "discovered"];
    assert_eq!(kinds, [expected, r, r, r, r, r, "summaries", "stats"]);
    let stats = lines.last().unwrap();
    assert_eq!((stat(stats, "ok").as_u64(), code), (Some(5), 0));
    assert_eq!(stat(stats, "requestids").as_array().unwrap().len(), 3);
    let (lines, code) = demo.line(&["do", "rpcutil", "pong", "--jsonl"]);
    assert!(code == 4 && lines.starts_with("{\"kind\":\"error\""), "{lines}");
}

fn rollouts_end_when_they_do_harm(demo: &Demo) {
    let harm = ["do", "puppetral", "type=user", "name=rip", "wings=2"];
    for (more, asked) in [
        (&["--canary", "1"][..], 1),
        (&["--batch", "2", "--batch-sleep", "0", "--max-failures", "2"], 4),
        (&["--batch", "2", "--batch-sleep", "0", "--max-failures", "10%"], 2),
        (&["--batch", "4", "--batch-sleep", "0"], 5),
    ] {
        let (document, code) = demo.ask(&[&harm, more].concat());
        let stats = &document;
        assert_eq!((stat(stats, "failed").as_u64(), code), (Some(asked), 2), "{stats:#}");
        let not_asked = stat(stats, "not_asked").as_array().unwrap().len();
        assert_eq!(not_asked as u64, 5 - asked, "{stats:#}");
    }
    let stopped = demo.rpc(&[harm.as_slice(), &["--canary", "1"]].concat());
    let said = describe_output(&stopped);
    assert!(
        said.contains("Batch 1 of 2: 1 node") && said.contains("No request sent to:"),
        "{said}"
    );
    assert!(said.contains("stopped: 1 of 1 canary failed or did not reply (maximum 0)"), "{said}");
    let (document, code) =
        demo.ask(&["do", "rpcutil", "ping", "--canary", "2", "--batch-sleep", "0"]);
    assert_eq!((stat(&document, "ok").as_u64(), code), (Some(5), 0));
}

fn stat<'a>(document: &'a Value, name: &str) -> &'a Value {
    document.pointer(&format!("/request_stats/{name}")).unwrap()
}

#[test]
fn virtual_nodes_differ_are_changed_and_change_nothing_outside_of_their_process() {
    let demo = Demo::up_with(&["--nodes", "200", "--virtual"]);
    let ping = || demo.line(&["ping"]).0;
    let all = eventually(ping, |said| said.contains("200 replies"));
    assert!(all.contains("200 replies"), "{all}");
    let find = |filter: &[&str]| demo.line(&[&["find"], filter].concat()).0;
    let lines = |text: &String| text.lines().count();
    let germans = eventually(|| find(&["-F", "country=de"]), |found| lines(found) == 50);
    assert_eq!(lines(&germans), 50, "{germans}");
    let words = "environment=development customer=acme mysql::master";
    let masters = eventually(|| find(&["-W", words]), |found| lines(found) == 80);
    assert_eq!(lines(&masters), 80, "{masters}");
    let (facts, code) = demo.line(&["facts", "os.family"]);
    assert!(code == 0 && facts.contains("Suse"), "{facts}");

    let list = demo.directory.path().join("masters");
    std::fs::write(&list, masters).unwrap();
    let list = list.to_str().unwrap();
    let user = ["do", "puppetral", "type=user", "name=rip", "--nodes", list];
    for changed in [true, false] {
        let (document, code) = demo.ask(&user);
        assert_eq!(code, 0, "{document:#}");
        let replies = document["replies"].as_array().unwrap();
        assert_eq!(replies.len(), 80);
        let as_said = |reply: &Value| reply["data"]["changed"] == changed;
        assert!(replies.iter().all(as_said), "{document:#}");
    }
    // No program of this machine is reached.
    let exec = ["do", "puppetral", "type=exec", "name=/bin/true"];
    let one = ["-I", "db1.acme.net"];
    assert_eq!(demo.ask(&[exec.as_slice(), &one].concat()).1, 2);

    let status = demo.rpc(&["demo", "status", "--dir", demo.fleet().to_str().unwrap()]);
    let said = describe_output(&status);
    assert!(status.status.success() && said.contains("200 virtual nodes"), "{said}");
    leaves_nothing(&demo);
}

/// Asks until the answer is whole: nobody knows how many will answer a broadcast, and on a busy machine it may look complete too soon.
fn eventually(ask: impl Fn() -> String, is_whole: impl Fn(&String) -> bool) -> String {
    (0..20).map(|_| ask()).find(is_whole).unwrap_or_else(&ask)
}

#[test]
fn more_processes_than_a_machine_can_have_are_not_started() {
    let scratch = TempDir::new().unwrap();
    let demo = Demo { directory: scratch };
    let fleet = demo.fleet();
    let up = demo.rpc(&["demo", "up", "--nodes", "501", "--dir", fleet.to_str().unwrap()]);
    assert_eq!(up.status.code(), Some(1));
    assert!(
        describe_output(&up).contains("--virtual") && !fleet.exists(),
        "{}",
        describe_output(&up)
    );
}

#[test]
fn a_demonstration_leaves_nothing_behind() {
    leaves_nothing(&Demo::up());
}

fn leaves_nothing(demo: &Demo) {
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
fn a_check_or_a_second_daemon_does_not_disturb_the_first() {
    use std::os::unix::fs::MetadataExt as _;
    let demo = Demo::up();
    let node = demo.some_node();
    let config = node.join("rpcd.toml");
    let journal = || std::fs::metadata(node.join("state/seen")).unwrap().ino();
    let before = journal();
    let check = daemon(&["--config", config.to_str().unwrap(), "--check"]);
    assert!(
        check.status.success() && describe_output(&check).contains("broker.urls"),
        "{}",
        describe_output(&check)
    );
    let second = daemon(&["--config", config.to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(1));
    assert!(
        describe_output(&second).contains("another rpcd is running"),
        "{}",
        describe_output(&second)
    );
    assert_eq!(journal(), before);
}

#[test]
fn a_daemon_that_waits_for_its_broker_obeys_signals() {
    let demo = Demo::up();
    let node = demo.some_node();
    let text = std::fs::read_to_string(node.join("rpcd.toml")).unwrap();
    let (elsewhere, nobody) =
        (text.replace("\"state\"", "\"state2\""), "urls = [\"tls://127.0.0.1:1\"]");
    let alone: String = elsewhere
        .lines()
        .map(
            |line| {
                if line.starts_with("urls") { format!("{nobody}\n") } else { format!("{line}\n") }
            },
        )
        .collect();
    std::fs::write(node.join("alone.toml"), alone).unwrap();
    let mut running = spawn(&["--config", node.join("alone.toml").to_str().unwrap()]);
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
fn daemon(arguments: &[&str]) -> Output {
    std::process::Command::new(find_program("rpcd")).args(arguments).output().unwrap()
}

#[expect(clippy::disallowed_types, reason = "runs the real daemon")]
fn spawn(arguments: &[&str]) -> std::process::Child {
    let null = std::process::Stdio::null;
    std::process::Command::new(find_program("rpcd")).args(arguments).stderr(null()).spawn().unwrap()
}
