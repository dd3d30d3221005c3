//! The time that the real command needs to discover the same nodes by each method.

#![expect(clippy::disallowed_types, reason = "complete programs are measured")]

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use muster_calls::DiscoveryWindow;

use crate::client::rpc;
use crate::measure::millis;
use crate::process::run_timed;
use crate::report::{Figure, Section, Table, max, median, min};
use crate::worker::{Worker, WorkerRole};

const METHOD: &str = "Complete `rpc find` commands, started one after the other in turns, including process start. A broadcast to an unknown number of \
nodes ends after a quiet time (300 ms), which is nearly all of its time; a call to listed nodes has no such wait. The \
external program is a shell script that prints a list.";

/// Measures in a fleet of this size.
pub(crate) fn bench(nodes: usize, rounds: usize) -> Section {
    let title = format!("Discovery of {nodes} nodes, {rounds} rounds");
    let mut section = Section::of(title, METHOD);
    eprintln!("{nodes} nodes for discovery: connecting");
    let worker = Worker::start(&WorkerRole::Muster { nodes, shared: None });
    let home = worker.address().home.clone();
    let files = DiscoveryFiles::new(&home);
    let (flat, inventory) = (format!("file={}", files.list), format!("file={}", files.inventory));
    let external = format!("command={}", files.program);
    let methods: [(&str, &[&str]); 7] = [
        ("rpc --version", &["--version"]),
        ("broadcast", &["find"]),
        ("broadcast, with a filter", &["find", "-F", "country=de"]),
        ("flat", &["find", "--dm", "flat", "--do", &flat]),
        (
            "inventory, with a filter",
            &["find", "-F", "country=de", "--dm", "inventory", "--do", &inventory],
        ),
        ("external", &["find", "--dm", "external", "--do", &external]),
        ("stdin", &["find", "--dm", "stdin"]),
    ];
    let mut samples = vec![Vec::new(); methods.len()];
    for round in 0..=rounds {
        for ((name, arguments), samples) in methods.iter().zip(&mut samples) {
            let elapsed = match *name {
                "stdin" => run_timed_with_input(rpc(&home, arguments), Path::new(&files.list)),
                _ => run_timed(&mut rpc(&home, arguments)),
            };
            if round > 0 {
                samples.push(millis(elapsed));
            }
        }
    }
    let start_ms = median(samples.first().unwrap());
    let quiet_ms = millis(DiscoveryWindow::default().quiet_time);
    let mut table = Table::new(["method", "median ms", "min", "max", "x rpc --version"]);
    for ((name, _), samples) in methods.iter().zip(&samples) {
        let middle = median(samples);
        let numbers = [middle, min(samples), max(samples)].map(|ms| format!("{ms:.1}"));
        let row = [(*name).to_owned()].into_iter().chain(numbers);
        table.rows.push(row.chain([format!("{:.1}", middle / start_ms)]).collect());
        let (reference_ms, reference) = match *name {
            "rpc --version" => continue,
            name if name.starts_with("broadcast") => (quiet_ms, "the quiet that ends it"),
            _ => (start_ms, "rpc --version"),
        };
        let figure = format!("find {nodes} by {name} x {reference}");
        section.figures.push(Figure::ratio(figure, middle / reference_ms).within(0.5));
    }
    section.tables.push(table);
    section
}

/// The files that the methods read.
struct DiscoveryFiles {
    list: String,
    inventory: String,
    program: String,
}

impl DiscoveryFiles {
    fn new(home: &Path) -> Self {
        let path = |name: &str| home.join(name).display().to_string();
        let files =
            Self { list: path("list"), inventory: path("fleet.json"), program: path("found") };
        run_timed(&mut rpc(home, &["inventory", "--export", &files.inventory]));
        let found = rpc(home, &["find"]).output().unwrap();
        assert!(found.status.success());
        std::fs::write(&files.list, &found.stdout).unwrap();
        let names = String::from_utf8(found.stdout).unwrap();
        let names: Vec<&str> = names.lines().collect();
        let answer = serde_json::json!({"protocol": "io.choria.choria.discovery.v1.external_reply", "nodes": names});
        std::fs::write(home.join("answer.json"), answer.to_string()).unwrap();
        let script = format!("#!/bin/sh\ncp {} \"$CHORIA_EXTERNAL_REPLY\"\n", path("answer.json"));
        std::fs::write(&files.program, script).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&files.program, mode).unwrap();
        files
    }
}

/// Like [`run_timed`], with a file as standard input.
fn run_timed_with_input(mut command: Command, input: &Path) -> Duration {
    command.stdin(File::open(input).unwrap()).stdout(Stdio::null()).stderr(Stdio::piped());
    let start_time = Instant::now();
    let output = command.output().unwrap();
    let elapsed = start_time.elapsed();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{stderr}");
    elapsed
}
