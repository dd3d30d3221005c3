//! Random `nrpe.cfg` files, read by the agent and by the real NRPE: states and outputs are equal, or the agent refuses the line.

#![expect(clippy::disallowed_types, reason = "starts the real NRPE")]

use std::fmt::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use muster_tests::await_state;
use muster_tests::command::describe_output;
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde_json::Value;
use tempfile::TempDir;

use super::fixture::{CheckFleet, CheckNode};
use crate::parity::print_line;

/// Where `tools/fetch-nrpe` unpacks the packages.
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/tools/nrpe");
/// Files that are compared.
const SEEDS: u64 = 12;

const NAMES: [&str; 7] =
    ["check_load", "check_disk_/", "check.dot", "two words", "check-a+b", "x", "users@web:1"];
/// Command lines without meaning for a shell, apart from quotes.
const LINES: [&str; 16] = [
    "/bin/echo fine",
    "/bin/echo  two   blanks ",
    "/bin/echo 'single  quoted' and \"double  quoted\"",
    "/bin/echo a\\ b c\\\\d 'e\\f'",
    "/bin/echo \"it's\" 'say \"no\"'",
    "/bin/echo 'costs 5$$' $$",
    "/bin/echo joined'with quotes'\"of both\"",
    "/bin/echo \"used=3|used=3;5;9;0;10\"",
    "/bin/echo one=1 # no comment",
    "/bin/sh -c 'echo warning; exit 1'",
    "/bin/sh -c 'echo critical: x=$$((1+1)); exit 2'",
    "/bin/sh -c 'echo unknown; exit 3'",
    "/bin/sh -c 'exit 2'",
    "/usr/bin/printf 'first\\nsecond\\nthird\\n'",
    "/usr/bin/printf 'no line end'",
    "/bin/true",
];
/// Lines that a shell interprets: the agent refuses them.
const SHELL_LINES: [&str; 4] = [
    "/bin/echo a | tr a b",
    "/bin/echo a; echo b",
    "/bin/echo $(id -u)",
    "/bin/echo `id -u` && true",
];

/// A running NRPE.
struct RealNrpe {
    child: Child,
    port: u16,
    _directory: TempDir,
}

/// A command of the packages, with their libraries.
fn unpacked_program(path: &str) -> Command {
    let mut command = Command::new(Path::new(PROGRAMS).join(path));
    command.env("LD_LIBRARY_PATH", PROGRAMS);
    command
}

impl RealNrpe {
    /// Starts NRPE with this file included; `None` if it is not installed and the run says so.
    async fn start(commands: &Path) -> Option<Self> {
        if !Path::new(PROGRAMS).exists() {
            assert!(
                muster_tests::tools::is_skipped("nrpe"),
                "NRPE is not installed: run `make puppet`, or name nrpe in MUSTER_TESTS_WITHOUT"
            );
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let port = {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            listener.local_addr().unwrap().port()
        };
        let file = directory.path().join("daemon.cfg");
        let text = format!(
            "server_address=127.0.0.1\nserver_port={port}\nallowed_hosts=127.0.0.1\nnrpe_user=nobody\nnrpe_group=nogroup\npid_file={}\ninclude={}\n",
            directory.path().join("pid").display(),
            commands.display()
        );
        std::fs::write(&file, text).unwrap();
        let mut command = unpacked_program("usr/sbin/nrpe");
        command.args(["-f", "-n", "-c"]).arg(&file);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut server = Self { child: child.unwrap(), port, _directory: directory };
        await_state("NRPE accepts connections", || {
            assert!(server.child.try_wait().unwrap().is_none(), "NRPE ended");
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
        })
        .await;
        Some(server)
    }

    /// State and output of a command.
    fn run(&self, name: &str) -> (i64, String) {
        let port = self.port.to_string();
        let mut command = unpacked_program("usr/lib/nagios/plugins/check_nrpe");
        command.args(["-n", "-H", "127.0.0.1", "-p", &port, "-c", name]);
        let output = command.output().unwrap();
        let code = output.status.code().unwrap_or_else(|| panic!("{}", describe_output(&output)));
        (i64::from(code), String::from_utf8(output.stdout).unwrap().trim_end().to_owned())
    }
}

impl Drop for RealNrpe {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A file as people write it: comments, blank lines, several definitions of one name.
fn write_random_file(rng: &mut StdRng) -> String {
    let mut text = String::new();
    for _ in 0..rng.random_range(6..14) {
        let name = NAMES.choose(rng).unwrap();
        let lines = if rng.random_bool(0.15) { &SHELL_LINES[..] } else { &LINES[..] };
        let line = lines.choose(rng).unwrap();
        let before = ["", "", "# of the old server\n", "\n", "#command[x]=/bin/false\n"];
        let indent = ["", "", "", "  ", "\t"].choose(rng).unwrap();
        let gap = if rng.random_bool(0.1) { "= " } else { "=" };
        let end = ["\n", "\n", "\n", "  \n", "\n\n"].choose(rng).unwrap();
        write!(text, "{}{indent}command[{name}]{gap}{line}{end}", before.choose(rng).unwrap())
            .unwrap();
    }
    if rng.random_bool(0.3) {
        text.pop();
    }
    text
}

/// What the agent says, in the form of a plugin's output.
fn plugin_text(data: &Value) -> (i64, String) {
    let text = |name: &str| data[name].as_str().unwrap_or_default();
    let perfdata = text("perfdata");
    let bar = if perfdata.is_empty() { "" } else { "|" };
    let whole = format!("{}{bar}{perfdata}\n{}", text("output"), text("long_output"));
    (data["exitcode"].as_i64().unwrap(), whole.trim_end().to_owned())
}

/// Commands whose answers were compared.
#[derive(Debug, Default)]
struct ComparedCounts {
    equal: u32,
    /// Only by the agent, because the line needs a shell.
    refused: u32,
    /// By both.
    undefined: u32,
}

/// Counts equal and refused answers; returns the text of different ones.
async fn compare_file(
    fleet: &CheckFleet,
    node: &CheckNode,
    nrpe: &RealNrpe,
    counts: &mut ComparedCounts,
) -> String {
    let mut different = String::new();
    for name in NAMES {
        let (_, _, data) = fleet.run_command(&[&format!("command={name}")]).await;
        let (our_state, ours_text) = plugin_text(&data);
        let (their_state, their_text) = nrpe.run(name);
        let states = (our_state, their_state);
        // The same state; the texts differ, as the guide says.
        let other_text =
            |ours: &str, theirs: &str| ours_text.contains(ours) && their_text.contains(theirs);
        if states.0 == states.1 && other_text("No such command", "not defined") {
            counts.undefined += 1;
        } else if states.0 == states.1
            && (ours_text == their_text
                || other_text("without standard output", "Unable to read output"))
        {
            counts.equal += 1;
        } else if ours_text.contains("needs a shell") {
            counts.refused += 1;
        } else {
            writeln!(different, "{name}: {states:?} {ours_text:?}, NRPE {their_text:?}").unwrap();
        }
    }
    if !different.is_empty() {
        different += &std::fs::read_to_string(node.path("nrpe/nrpe.cfg")).unwrap();
    }
    different
}

mod long {
    use std::fmt::Write as _;

    use rand::SeedableRng as _;

    use super::{
        CheckFleet, ComparedCounts, RealNrpe, SEEDS, StdRng, compare_file, print_line,
        write_random_file,
    };

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn checks_have_the_results_of_the_real_nrpe() {
        let (fleet, node) = CheckFleet::with_node(&[], ("", "")).await;
        let (mut counts, mut different) = (ComparedCounts::default(), String::new());
        for seed in 0..SEEDS {
            let text = write_random_file(&mut StdRng::seed_from_u64(seed));
            node.write("nrpe/nrpe.cfg", &text);
            let Some(nrpe) = RealNrpe::start(&node.path("nrpe/nrpe.cfg")).await else { return };
            let found = compare_file(&fleet, &node, &nrpe, &mut counts).await;
            if !found.is_empty() {
                write!(different, "seed {seed}:\n{found}").unwrap();
            }
        }
        let ComparedCounts { equal, refused, undefined } = counts;
        print_line(&format!(
            "NRPE: {equal} equal, {refused} refused because they need a shell, {undefined} undefined for both"
        ));
        assert!(different.is_empty(), "{different}");
        assert!(equal > 2 * refused, "most commands must be answered");
    }
}
