//! The tutorial `docs/guides/first-machines.md`, word for word: each command runs on the machine that its prompt names, and each line
//! of output that the page shows must be in the command's output.

#![expect(clippy::indexing_slicing, reason = "the machines are known; tests end by panic")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use muster_tests::command::describe_output;
use muster_tests::nats_server::find_binary;

use super::fleet::{MachineFleet, MachineLayers};
use super::nodes::build_packages;
use crate::parity::print_line;

const MACHINES: [(&str, &str); 4] =
    [("broker", "m1"), ("web1", "m2"), ("web2", "m3"), ("admin", "m4")];
/// Most time that the page may take.
const WHOLE_TIME: Duration = Duration::from_mins(10);
const ADMIN: &str = "m4";
const VERSION: &str = "0.1.0";

/// A command of the page, and the output that the page shows.
#[derive(Debug, PartialEq, Eq)]
struct TutorialStep {
    machine: String,
    command: String,
    output: Vec<String>,
}

/// The commands of all blocks whose first line is a prompt.
fn parse_steps(page: &str) -> Vec<TutorialStep> {
    let mut steps: Vec<TutorialStep> = Vec::new();
    let mut is_session = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_session = line == "```text";
        } else if is_session && let Some((machine, command)) = parse_prompt(line) {
            let (machine, command) = (machine.to_owned(), command.to_owned());
            steps.push(TutorialStep { machine, command, output: Vec::new() });
        } else if is_session {
            steps.last_mut().unwrap().output.push(line.to_owned());
        }
    }
    steps
}

/// `root@MACHINE:~# COMMAND`
fn parse_prompt(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("root@")?.split_once(":~# ")
}

/// Whether each shown line is in the output, in order. Numbers with a unit of time differ between runs.
fn is_shown(shown: &[String], output: &str) -> bool {
    let without_times = |line: &str| {
        line.split("time=")
            .next()
            .unwrap_or_default()
            .split(" max:")
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let mut lines = output.lines().map(without_times);
    let mut wanted = shown.iter().filter(|line| *line != "...");
    wanted.all(|line| lines.any(|found| found == without_times(line)))
}

/// The preparations that the page asks of its reader: names, ssh from `admin` to the others, and a release on `admin`.
async fn prepare(machines: &MachineFleet) {
    let lines = MACHINES
        .map(|(name, machine)| format!("{} {name}.acme.net {name}\n", machines.machines[machine]));
    let hosts = lines.concat();
    let key = machines
        .sh(ADMIN, "ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519 && cat /root/.ssh/id_ed25519.pub")
        .await;
    for (name, machine) in MACHINES {
        let script = format!(
            "hostname {name}.acme.net && echo {name}.acme.net >/etc/hostname && printf '%s' '{hosts}' >>/etc/hosts && \
             mkdir -p -m 0700 /root/.ssh && echo '{key}' >>/root/.ssh/authorized_keys && systemctl start ssh"
        );
        machines.sh(machine, &script).await;
    }
    machines.copy(ADMIN, &build_packages(VERSION), "/root/dist").await;
    machines.copy(ADMIN, &find_binary(), "/root/dist/nats-server").await;
    let scan = "for name in broker web1 web2; do ssh-keyscan $name.acme.net >>/root/.ssh/known_hosts; done";
    machines.sh(ADMIN, scan).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tutorial_of_twelve_commands_runs_as_written() {
    let Some(machines) = MachineFleet::boot(4, &MachineLayers::default()).await else { return };
    prepare(&machines).await;
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guides/first-machines.md");
    let steps = parse_steps(&std::fs::read_to_string(page).unwrap());
    assert_eq!(steps.len(), 12, "{steps:#?}");
    let machine_of = BTreeMap::from(MACHINES);
    let started = Instant::now();
    for TutorialStep { machine, command, output } in steps {
        let begun = Instant::now();
        let script = format!("export HOME=/root DEBIAN_FRONTEND=noninteractive; cd; {command}");
        let ran = machines.run(machine_of[machine.as_str()], &script).await;
        let text = [&*ran.stdout, &*ran.stderr].map(String::from_utf8_lossy).concat();
        assert!(ran.status.success(), "{machine}: {command}: {}", describe_output(&ran));
        assert!(is_shown(&output, &text), "{machine}: {command}: {}", describe_output(&ran));
        print_line(&format!("{:.1} s  {command}", begun.elapsed().as_secs_f64()));
    }
    assert!(started.elapsed() < WHOLE_TIME, "{:?}", started.elapsed());
    // The page has taken the command line away, and nothing else.
    let denied = machines.run(ADMIN, "HOME=/root rpc run id -I /web/").await;
    assert!(!denied.status.success(), "{}", describe_output(&denied));
    let history = machines.sh(ADMIN, "HOME=/root rpc history --since 1h --changed -j").await;
    assert!(history.contains("User[anna]"), "{history}");
}

#[test]
fn steps_are_parsed_with_their_output() {
    let page =
        "a\n```text\nroot@web1:~# id\nuid=0\n...\nroot@admin:~# ls\n```\nroot@web1:~# not a step\n";
    let step = |machine: &str, command: &str, output: &[&str]| TutorialStep {
        machine: machine.to_owned(),
        command: command.to_owned(),
        output: output.iter().map(|line| (*line).to_owned()).collect(),
    };
    let expected = [step("web1", "id", &["uid=0", "..."]), step("admin", "ls", &[])];
    assert_eq!(parse_steps(page), expected);
    let shown = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    assert!(is_shown(&shown(&["b", "..."]), "a\nb\n"));
    assert!(!is_shown(&shown(&["b", "a"]), "a\nb\n"));
    assert!(is_shown(&shown(&["n time=1 ms"]), "n   time=20 ms\n"));
}
