//! `rpc run` and `rpc cp` with the real `rpc`: output of commands by node, and files that are copied to nodes and from them.

#![expect(clippy::disallowed_types, reason = "runs rpc at a terminal")]
#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::path::{Path, PathBuf};
use std::process::Output;

use muster_contract::filecopy::{MAX_CHUNK_BYTES, encode_chunk};
use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::node_fixture::TestCaller;

/// Nodes that run commands, and send and receive files below `/tmp`.
struct CopyFleet {
    organisation: Organisation,
    server: NatsServer,
    nodes: Vec<TestNode>,
    rpc: RpcCommand,
    state: TempDir,
}

impl CopyFleet {
    async fn new(count: usize) -> Self {
        let names: Vec<String> = (1..=count).map(|number| format!("n{number}")).collect();
        Self::with_names(&names).await
    }

    async fn with_names(names: &[impl AsRef<str>]) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let state = TempDir::new().unwrap();
        let mut nodes = Vec::new();
        for (number, name) in (1..).zip(names) {
            let mut setup = NodeSetup::new(organisation.node(name.as_ref()));
            setup.facts = json!({ "number": number });
            let directory = state.path().join(number.to_string());
            let shell = muster_agents::shell::Options {
                enabled: true,
                ..muster_agents::shell::Options::default()
            };
            let copy = muster_agents::filecopy::Options {
                write: vec!["/tmp".into()],
                read: vec!["/tmp".into()],
                ..muster_agents::filecopy::Options::default()
            };
            setup.agents = vec![
                muster_agents::shell::build_agent(shell, directory.join("shell")).unwrap(),
                muster_agents::filecopy::build_agent(copy, directory.join("filecopy"), Vec::new())
                    .unwrap(),
            ];
            nodes.push(TestNode::start(&organisation, &server, setup).await);
        }
        let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
        Self { organisation, server, nodes, rpc, state }
    }

    fn node_path(&self, number: usize, path: &str) -> PathBuf {
        self.nodes[number - 1].root().join(path.trim_start_matches('/'))
    }

    fn write_on_node(&self, number: usize, path: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.node_path(number, path), content).unwrap();
    }

    fn read_on_node(&self, number: usize, path: &str) -> Vec<u8> {
        std::fs::read(self.node_path(number, path)).unwrap()
    }

    async fn run(&self, arguments: &[&str], code: i32) -> Output {
        let output = self.rpc.run(arguments).await;
        assert_eq!(output.status.code(), Some(code), "{}", describe_output(&output));
        output
    }

    /// Standard output, sorted by line because nodes reply in any order.
    async fn sorted_lines(&self, arguments: &[&str], code: i32) -> Vec<String> {
        let output = self.run(arguments, code).await;
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    /// Runs `rpc cp` with `-j`; returns the document.
    async fn copy(&self, arguments: &[&str], code: i32) -> Value {
        let (document, found) = self.rpc.run_json(&[&["cp"], arguments].concat()).await;
        assert_eq!(found, code, "{document:#}");
        document
    }
}

/// The result of each node, with the message of a failure.
fn results(document: &Value) -> Vec<(String, String)> {
    let rows = document["results"].as_array().unwrap().iter();
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    rows.map(|row| (text(row, "sender"), text(row, "result") + &text(row, "message"))).collect()
}

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
    pairs.map(|(node, result)| (node.to_owned(), result.to_owned())).into()
}

/// The names in a directory, hidden ones too.
fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|number| u8::try_from(number % 251).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_of_commands_is_shown_by_node_and_counted_by_exit_code() {
    let fleet = CopyFleet::new(3).await;
    assert_eq!(fleet.sorted_lines(&["run", "echo hi"], 0).await, ["n1: hi", "n2: hi", "n3: hi"]);

    fleet.write_on_node(2, "/tmp/code", "3");
    let script =
        "echo one; echo two; test ! -e /tmp/code || { echo no >&2; exit $(cat /tmp/code); }";
    let output = fleet.run(&["run", script, "--sort"], 2).await;
    let block = |node: &str| format!("{node}:\n   one\n   two\n");
    let failed = block("n2") + "   stderr: no\n   exited with code 3\n";
    let expected = block("n1") + &failed + &block("n3");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    let totals = String::from_utf8(output.stderr).unwrap();
    assert!(totals.contains("(exit code 0: 2 nodes, exit code 3: 1 node)"), "{totals}");

    let folded = fleet.run(&["run", script, "-b"], 2).await;
    let expected = "n2\n   one\n   two\n   stderr: no\n   exited with code 3\nn[1,3] (2 nodes)\n   one\n   two\n";
    assert_eq!(String::from_utf8(folded.stdout).unwrap(), expected);

    // As high as a signal's number in some shells, and none.
    let high = fleet.sorted_lines(&["run", "exit 255", "--stream", "-I", "n1"], 2).await;
    assert_eq!(high, ["n1: exited with code 255"]);

    let streamed = fleet.sorted_lines(&["run", script, "--stream", "-I", "n2"], 2).await;
    assert_eq!(streamed, ["n2: exited with code 3", "n2: one", "n2: stderr: no", "n2: two"]);

    let (document, code) = fleet.rpc.run_json(&["run", script]).await;
    assert_eq!((code, &document["schema"]), (2, &json!("muster.request.v1")));
    let of_n2 =
        document["replies"].as_array().unwrap().iter().find(|reply| reply["sender"] == "n2");
    assert_eq!(of_n2.unwrap()["data"]["exitcode"], 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_is_killed_at_its_time_limit() {
    let fleet = CopyFleet::new(1).await;
    let output = fleet.run(&["run", "echo begun; exec sleep 600", "-t", "5", "--stream"], 2).await;
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("n1: begun\nn1: killed: it did not end within "), "{text}");
    let totals = String::from_utf8(output.stderr).unwrap();
    assert!(totals.contains("(timed out: 1 node)"), "{totals}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_has_directory_and_environment_that_is_not_recorded() {
    let fleet = CopyFleet::new(1).await;
    let arguments = ["run", "echo $PWD $SECRET", "--cwd", "/tmp", "--env", "SECRET=hunter2"];
    assert_eq!(fleet.sorted_lines(&arguments, 0).await, ["n1: /tmp hunter2"]);
    let audit = serde_json::to_string(&fleet.nodes[0].audit_records()).unwrap();
    assert!(audit.contains("echo $PWD $SECRET") && !audit.contains("hunter2"), "{audit}");
    let lost = fleet.run(&["run", "true", "--user", "nobody"], 2).await;
    assert!(describe_output(&lost).contains("this node has no user nobody"), "{lost:?}");
    assert_eq!(fleet.rpc.run(&["run", "true", "-t", "0"]).await.status.code(), Some(4));
    assert_eq!(fleet.rpc.run(&["run", ""]).await.status.code(), Some(4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_is_copied_to_many_nodes_and_unchanged_the_second_time() {
    let fleet = CopyFleet::new(3).await;
    let content = content(3 * 1024 * 1024 + 17);
    let file = fleet.rpc.path("data.bin");
    std::fs::write(&file, &content).unwrap();
    let file = file.to_str().unwrap();
    let all = |result| pairs([("n1", result), ("n2", result), ("n3", result)]);
    let first = fleet.copy(&[file, ":/tmp/", "--mode", "0640"], 0).await;
    assert_eq!(results(&first), all("copied"));
    for number in 1..=3 {
        assert_eq!(fleet.read_on_node(number, "/tmp/data.bin"), content);
        assert_eq!(names(&fleet.node_path(number, "/tmp")), ["data.bin"]);
    }
    let second = fleet.copy(&[file, ":/tmp/data.bin"], 0).await;
    assert_eq!(results(&second), all("unchanged"));
    fleet.write_on_node(2, "/tmp/data.bin", "other");
    let third = fleet
        .copy(&[file, ":/tmp/data.bin", "--mode", "0600", "--batch", "1", "--batch-sleep", "0"], 0)
        .await;
    let expected = [("n1", "attributes"), ("n2", "copied"), ("n3", "attributes")];
    assert_eq!(results(&third), pairs(expected));
    assert_eq!(third["counts"]["discovered"], 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_copy_continues_with_the_missing_parts() {
    let fleet = CopyFleet::new(2).await;
    let chunk = usize::try_from(MAX_CHUNK_BYTES).unwrap();
    let content = content(3 * chunk);
    let file = fleet.rpc.path("data.bin");
    std::fs::write(&file, &content).unwrap();
    let rip = fleet.organisation.caller("rip");
    let caller = TestCaller::connect(&fleet.organisation, &fleet.server, rip).await;
    // As an earlier `rpc cp` that was stopped after its second part.
    let sha256 = sha256_text(&content);
    let begin = json!({"path": "/tmp/data.bin", "size": content.len(), "sha256": sha256, "chunk_bytes": chunk});
    let transfer = caller.call_action("n1", "filecopy", "begin", begin).await.reply.data;
    let part = json!({"transfer": transfer["transfer"], "index": 1, "content": encode_chunk(&content[chunk..2 * chunk])});
    assert!(caller.call_action("n1", "filecopy", "write", part).await.is_ok());
    let document = fleet.copy(&[file.to_str().unwrap(), ":/tmp/data.bin"], 0).await;
    assert_eq!(results(&document), pairs([("n1", "copied"), ("n2", "copied")]));
    let resumed = |index: usize| document["results"][index]["resumed_bytes"].as_u64().unwrap();
    assert_eq!((resumed(0), resumed(1)), (MAX_CHUNK_BYTES, 0));
    for number in 1..=2 {
        assert_eq!(fleet.read_on_node(number, "/tmp/data.bin"), content);
        let records = fleet.state.path().join(number.to_string()).join("filecopy");
        assert_eq!(names(&records), Vec::<String>::new());
    }
}

/// SHA-256 as `sha256sum` prints it.
fn sha256_text(content: &[u8]) -> String {
    use sha2::Digest as _;
    format!("{:x}", sha2::Sha256::digest(content))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_failure_of_a_copy_has_its_own_result() {
    let fleet = CopyFleet::new(3).await;
    let file = fleet.rpc.path("motd");
    std::fs::write(&file, "hello\n").unwrap();
    let file = file.to_str().unwrap();
    std::fs::create_dir(fleet.node_path(1, "/tmp/motd")).unwrap();
    fleet.write_on_node(2, "/tmp/motd", "hello\n");
    let document = fleet.copy(&[file, ":/tmp/motd"], 2).await;
    let expected =
        [("n1", "failed/tmp/motd is a directory"), ("n2", "unchanged"), ("n3", "copied")];
    assert_eq!(results(&document), pairs(expected));
    let denied = fleet.copy(&[file, "n3:/etc/motd"], 2).await;
    assert_eq!(
        results(&denied),
        pairs([("n3", "failedaccess to /etc/motd is denied on this node")])
    );
    let absent = fleet.copy(&[file, "n9:/tmp/motd"], 3).await;
    assert_eq!(results(&absent), pairs([("n9", "no_replynot connected at the start")]));
    let none = fleet.run(&["cp", file, ":/tmp/motd", "-F", "number=9"], 1).await;
    assert!(describe_output(&none).contains("no request sent: no nodes found"));
    for wrong in [
        vec!["cp", file, "copy"],
        vec!["cp", ":/a", ":/b"],
        vec!["cp", file, "n1:motd"],
        vec!["cp", file, "n1:/tmp/motd", "-C", "web"],
    ] {
        fleet.run(&wrong, 4).await;
    }
    fleet.run(&["cp", "missing", ":/tmp/motd"], 1).await;
    let canary = fleet.copy(&[file, ":/tmp/motd", "--canary", "1"], 2).await;
    let stopped = [
        ("n1", "failed/tmp/motd is a directory"),
        ("n2", "not_completed"),
        ("n3", "not_completed"),
    ];
    assert_eq!(results(&canary), pairs(stopped));
}

/// The first step was repeated for ten seconds, and the name was stored as that of a node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_to_an_unknown_node_ends_at_once_and_its_name_is_not_remembered() {
    let fleet = CopyFleet::new(1).await;
    let file = fleet.state.path().join("file");
    std::fs::write(&file, "content").unwrap();
    let file = file.to_str().unwrap();
    fleet.run(&["cp", file, "n1:/tmp/file", "--yes"], 0).await;
    let started = std::time::Instant::now();
    let output = fleet.run(&["cp", file, "n11:/tmp/file", "--yes"], 3).await;
    let text = describe_output(&output);
    assert!(started.elapsed() < std::time::Duration::from_secs(10), "{text}");
    assert!(text.contains("not connected"), "{text}");
    assert!(text.contains("did you mean \"n1\"?"), "{text}");
    // The second time as well: the wrong name is not among those that were seen.
    let output = fleet.run(&["cp", file, "n11:/tmp/file", "--yes"], 3).await;
    let text = describe_output(&output);
    assert!(text.contains("did you mean \"n1\"?"), "{text}");
}

/// Nodes by name, by short name and by range, in the commands that address nodes; a short name in `-I` is known once the node was seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_named_by_short_names_and_ranges() {
    let fleet = CopyFleet::with_names(&["web1.acme.net", "web2.acme.net", "db1.acme.net"]).await;
    let nodes = async |line: &[&str]| fleet.sorted_lines(line, 0).await.join(" ");
    let senders = |line: Vec<String>| {
        let names = line.iter().filter_map(|line| line.split(['.', ':']).next().map(str::to_owned));
        names.collect::<Vec<_>>().join(" ")
    };
    let unseen = fleet.run(&["run", "true", "-I", "db1", "--yes"], 3).await;
    let text = describe_output(&unseen);
    assert!(text.contains("`rpc find db1` finds the node"), "{text}");
    for (names, expected) in [
        (&["db1"][..], "db1"),
        (&["web[1-2].acme.net"], "web1 web2"),
        (&["web[1-2]", "db1.acme.net"], "db1 web1 web2"),
        (&["-I", "db1"], "db1"),
        (&["-I", "web[1-2]", "-I", "db1"], "db1 web1 web2"),
        (&["-I", "web[2-2].acme.net"], "web2"),
    ] {
        let line = [&["run", "echo it", "--yes"], names].concat();
        assert_eq!(senders(fleet.sorted_lines(&line, 0).await), expected, "{names:?}");
    }
    assert_eq!(nodes(&["find", "-I", "web[1-3]"]).await, "web1.acme.net web2.acme.net");
    let typed = fleet.run(&["run", "true", "web11", "--yes"], 1).await;
    assert!(
        describe_output(&typed).contains("did you mean \"web1\"?"),
        "{}",
        describe_output(&typed)
    );
    let broken = fleet.run(&["find", "-I", "web[2-1]"], 4).await;
    assert!(describe_output(&broken).contains("is no range"), "{}", describe_output(&broken));

    let file = fleet.state.path().join("file");
    std::fs::write(&file, "content").unwrap();
    let file = file.to_str().unwrap();
    let copied = fleet.copy(&[file, "web[1-2].acme.net:/tmp/file", "--yes"], 0).await;
    let both = pairs([("web1.acme.net", "copied"), ("web2.acme.net", "copied")]);
    assert_eq!(results(&copied), both);
    let directory = fleet.rpc.path("files");
    let fetched = fleet.copy(&["web[1-2]:/tmp/file", directory.to_str().unwrap()], 0).await;
    assert_eq!(results(&fetched), both);
    assert_eq!(names(&directory), ["file.web1.acme.net", "file.web2.acme.net"]);
    let one = fleet.rpc.path("one");
    fleet.copy(&["web1:/tmp/file", one.to_str().unwrap()], 0).await;
    assert_eq!(std::fs::read(one).unwrap(), b"content");
}

/// A table is whole in a pipe, and has the width of a terminal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_whole_in_a_pipe_and_fit_a_terminal() {
    let fleet = CopyFleet::new(1).await;
    let script = "script=printf '%0300d %0300d' 1 2";
    let line = ["do", "shell", "run", script, "--table", "--yes"];
    let output = fleet.run(&line, 0).await;
    let text = String::from_utf8(output.stdout).unwrap();
    let row = text.lines().find(|line| line.starts_with("n1")).unwrap();
    let number = |digit: &str| "0".repeat(299) + digit;
    assert!(row.contains(&format!("{} {}", number("1"), number("2"))), "{text}");
    assert!(!text.contains('…'), "{text}");
    // At a terminal of 70 columns, which `script` makes.
    let command = fleet.rpc.prepare_command(&line);
    let quote =
        |word: &std::ffi::OsStr| format!("'{}'", word.to_str().unwrap().replace('\'', "'\\''"));
    let words: Vec<String> = std::iter::once(command.as_std().get_program())
        .chain(command.as_std().get_args())
        .map(quote)
        .collect();
    let shell = format!("stty rows 24 cols 70; exec {} 2>/dev/null", words.join(" "));
    let mut terminal = tokio::process::Command::new("script");
    terminal.args(["-qec", &shell, "/dev/null"]).env_clear();
    let variables = command.as_std().get_envs();
    terminal.envs(variables.filter_map(|(name, value)| Some((name, value?))));
    terminal.env("PATH", "/usr/bin:/bin").env("SHELL", "/bin/sh").env("NO_COLOR", "1");
    terminal.stdin(std::process::Stdio::null());
    let output = terminal.output().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("SENDER") && text.contains('…'), "{text}");
    assert!(text.lines().all(|line| line.trim_end().chars().count() <= 70), "{text}");
    let narrow = fleet.rpc.prepare_command(&line).env("COLUMNS", "70").output().await.unwrap();
    let text = String::from_utf8(narrow.stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 70), "{text}");
    assert!(text.contains('…'), "{text}");
}

/// Times in text are those of the reader's zone, or of UTC; documents have numbers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_are_in_the_zone_of_the_reader() {
    let fleet = CopyFleet::new(1).await;
    fleet.run(&["run", "true", "--yes"], 0).await;
    let list = async |zone: &str, more: &[&str]| {
        let mut command = fleet.rpc.prepare_command(&[&["job", "list"], more].concat());
        String::from_utf8(command.env("TZ", zone).output().await.unwrap().stdout).unwrap()
    };
    let (kolkata, utc) = (list("Asia/Kolkata", &[]).await, list("Asia/Kolkata", &["--utc"]).await);
    assert!(kolkata.contains("+05:30"), "{kolkata}");
    assert!(utc.contains("Z ") && !utc.contains("+05:30"), "{utc}");
    assert_eq!(list("UTC", &[]).await, utc);
    assert_eq!(list("Asia/Kolkata", &["-j"]).await, list("UTC", &["-j"]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_nodes_are_fetched_and_verified() {
    let fleet = CopyFleet::new(2).await;
    let content = content(1024 * 1024 + 5);
    for number in 1..=2 {
        fleet.write_on_node(
            number,
            "/tmp/log",
            [&content[..], &[u8::try_from(number).unwrap()]].concat(),
        );
    }
    let directory = fleet.rpc.path("logs");
    let target = directory.to_str().unwrap();
    let first = fleet.copy(&[":/tmp/log", target], 0).await;
    assert_eq!(results(&first), pairs([("n1", "copied"), ("n2", "copied")]));
    assert_eq!(names(&directory), ["log.n1", "log.n2"]);
    for number in 1..=2 {
        let fetched = std::fs::read(directory.join(format!("log.n{number}"))).unwrap();
        assert_eq!(fetched, fleet.read_on_node(number, "/tmp/log"));
    }
    let second = fleet.copy(&[":/tmp/log", target], 0).await;
    assert_eq!(results(&second), pairs([("n1", "unchanged"), ("n2", "unchanged")]));
    let one = fleet.copy(&["n1:/tmp/log", target], 0).await;
    assert_eq!(one["results"][0]["file"], json!(directory.join("log")));
    let missing = fleet.copy(&["n1:/tmp/none", target], 2).await;
    assert_eq!(results(&missing), pairs([("n1", "failed/tmp/none does not exist")]));
    assert_eq!(names(&directory), ["log", "log.n1", "log.n2"]);
}

/// Largest resident memory of a process, in KiB.
fn resident_kib(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok()).unwrap_or(0)
}

/// Run by `make test-all`.
mod long {
    use super::{CopyFleet, content, resident_kib};

    /// 200 MiB to twenty nodes; `MUSTER_COPY_MIB` sets another size. Prints the time, and the memory of `rpc`:
    /// `cargo nextest run --release --run-ignored only -E 'test(large_file)' --no-capture`.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn large_file_is_copied_to_twenty_nodes_in_bounded_memory() {
        let size = std::env::var("MUSTER_COPY_MIB").ok().and_then(|text| text.parse().ok());
        let mib: usize = size.unwrap_or(200);
        let fleet = CopyFleet::new(20).await;
        let file = fleet.rpc.path("large.bin");
        let content = content(mib * 1024 * 1024);
        std::fs::write(&file, &content).unwrap();
        let started = std::time::Instant::now();
        let arguments = ["cp", file.to_str().unwrap(), ":/tmp/large.bin", "-q"];
        let mut command = fleet.rpc.prepare_command(&arguments).spawn().unwrap();
        let pid = command.id().unwrap();
        let mut peak = 0;
        let status = loop {
            tokio::select! {
                status = command.wait() => break status.unwrap(),
                () = muster_tests::simulate_delay(std::time::Duration::from_millis(100)) => {
                    peak = peak.max(resident_kib(&pid.to_string()));
                }
            }
        };
        assert!(status.success(), "{status:?}");
        let nodes = resident_kib("self");
        println!(
            "{mib} MiB to 20 nodes in {:?}; rpc: {peak} KiB, 20 nodes: {nodes} KiB",
            started.elapsed()
        );
        assert!(peak < 200 * 1024, "rpc used {peak} KiB");
        for number in 1..=20 {
            // Not `assert_eq`, which would print both contents.
            assert!(fleet.read_on_node(number, "/tmp/large.bin") == content, "node {number}");
        }
    }
}
