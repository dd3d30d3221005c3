//! The time of commands from start to end: of the command itself, and of a call of one node over TLS.

#![expect(clippy::disallowed_types, reason = "complete programs are measured")]

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::demo::Demo;
use crate::measure::millis;
use crate::process::run_timed;
use crate::report::{Figure, Section, Table, max, median, min};

const METHOD: &str = "Complete programs, started one after the other in turns; the empty one is `fn main() {}`, compiled with optimisation. The call goes to \
a real daemon through a broker with TLS; it reads credentials, connects, and verifies a signed reply. It needs no discovery, because \
the node is named.";

/// Permitted additional time of the command over an empty program, in milliseconds.
const MAX_START_MS: f64 = 5.0;
/// Permitted additional time of a call over the command's start, in milliseconds.
const MAX_CALL_MS: f64 = 25.0;

/// Calls of `rpc prompt`, which shells run before each command line.
const PROMPT_CALLS: usize = 1_000;
/// Most milliseconds of 99 of 100 such calls.
const MAX_PROMPT_MS: f64 = 10.0;
/// What the daemon keeps for the prompt.
const PROMPT_STATUS: &str = r#"{"segments": [{"text": "acme"}, {"text": "production", "color": "red"}], "roles": ["web", "db"], "warnings": ["puppet-disabled"]}"#;

/// Measures with this number of rounds.
pub(crate) fn bench(rounds: usize) -> Section {
    let mut section =
        Section::of(format!("Command start, and a call of one node, {rounds} rounds"), METHOD);
    let scratch = TempDir::new().unwrap();
    let empty = compile_empty_program(scratch.path());
    let demo = Demo::start(1);
    let (node, _) = demo.nodes().into_iter().next().unwrap();
    let call = ["do", "rpcutil", "ping", "-I", &node];
    let cache = scratch.path().join("prompt.json");
    std::fs::write(&cache, PROMPT_STATUS).unwrap();
    let prompt = ["prompt", "--shell", "bash", "--file", cache.to_str().unwrap()];
    let mut prompts: Vec<f64> =
        (0..PROMPT_CALLS).map(|_| millis(run_timed(&mut demo.rpc(&prompt)))).collect();
    prompts.sort_by(f64::total_cmp);
    let mut samples = [const { Vec::new() }; 4];
    for round in 0..=rounds {
        let times = [
            run_timed(&mut Command::new(&empty)),
            run_timed(&mut demo.rpc(&["--version"])),
            run_timed(&mut demo.rpc(&["--help"])),
            run_timed(&mut demo.rpc(&call)),
        ];
        for (samples, times) in samples.iter_mut().zip(times) {
            if round > 0 {
                samples.push(millis(times));
            }
        }
    }
    let mut table = Table::new(["from start to end", "median ms", "min", "max"]);
    let names = [
        "an empty program",
        "rpc --version",
        "rpc --help",
        "rpc do rpcutil ping -I NODE, over TLS",
    ];
    for (name, samples) in names.into_iter().zip(&samples) {
        let times = [median(samples), min(samples), max(samples)].map(|ms| format!("{ms:.1}"));
        table.rows.push([name.to_owned()].into_iter().chain(times).collect());
    }
    section.tables.push(table);
    let slowest_percent = *prompts.get(PROMPT_CALLS * 99 / 100).unwrap();
    section.figures.push(
        Figure::of("99th percentile of 1,000 calls of rpc prompt", slowest_percent, "ms")
            .aim(MAX_PROMPT_MS),
    );
    let [empty, version, _, call] = samples.map(|samples| median(&samples));
    section.figures.extend([
        Figure::of("rpc --version over an empty program", version - empty, "ms").aim(MAX_START_MS),
        Figure::of("a call of one node over rpc --version", call - version, "ms").aim(MAX_CALL_MS),
        Figure::ratio("rpc --version x an empty program", version / empty).within(0.4),
        Figure::ratio("a call of one node x rpc --version", call / version).within(0.5),
    ]);
    section
}

/// Compiles an empty program.
fn compile_empty_program(scratch: &Path) -> PathBuf {
    let (source, program) = (scratch.join("empty.rs"), scratch.join("empty"));
    std::fs::write(&source, "fn main() {}\n").unwrap();
    let mut rustc = Command::new("rustc");
    rustc.arg("-O").arg("-o").arg(&program).arg(&source);
    run_timed(&mut rustc);
    program
}
