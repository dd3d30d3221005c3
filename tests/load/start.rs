//! How long commands take from their start to their end: that of the command itself, and a call of one node over TLS.

#![expect(clippy::disallowed_types, reason = "what is measured are whole programs")]

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::demo::Demo;
use crate::measure::millis;
use crate::process::timed;
use crate::report::{Figure, Section, Table, max, median, min};

const METHOD: &str = "Whole programs, started one after the other in turns; the empty one is `fn main() {}`, compiled optimised. The call goes to \
a real daemon by a broker that speaks TLS, with credentials read, a connection made and a signed answer verified; it discovers nothing, because \
the node is named.";

/// How much longer than an empty program the command may take to start, in milliseconds.
const AIM_START: f64 = 5.0;
/// How much longer than that a call may take.
const AIM_CALL: f64 = 25.0;

/// Measures.
pub(crate) fn bench(rounds: usize) -> Section {
    let mut section =
        Section::of(format!("Command start, and a call of one node, {rounds} rounds"), METHOD);
    let scratch = TempDir::new().unwrap();
    let empty = empty_program(scratch.path());
    let demo = Demo::up(1);
    let (node, _) = demo.nodes().into_iter().next().unwrap();
    let call = ["do", "rpcutil", "ping", "-I", &node];
    let mut samples = [const { Vec::new() }; 4];
    for round in 0..=rounds {
        let took = [
            timed(&mut Command::new(&empty)),
            timed(&mut demo.rpc(&["--version"])),
            timed(&mut demo.rpc(&["--help"])),
            timed(&mut demo.rpc(&call)),
        ];
        for (samples, took) in samples.iter_mut().zip(took) {
            if round > 0 {
                samples.push(millis(took));
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
    let [empty, version, _, call] = samples.map(|samples| median(&samples));
    section.figures = vec![
        Figure::of("rpc --version over an empty program", version - empty, "ms").aim(AIM_START),
        Figure::of("a call of one node over rpc --version", call - version, "ms").aim(AIM_CALL),
        Figure::ratio("rpc --version x an empty program", version / empty).within(0.4),
        Figure::ratio("a call of one node x rpc --version", call / version).within(0.5),
    ];
    section
}

/// The least that a program can be.
fn empty_program(scratch: &Path) -> PathBuf {
    let (source, program) = (scratch.join("empty.rs"), scratch.join("empty"));
    std::fs::write(&source, "fn main() {}\n").unwrap();
    let mut rustc = Command::new("rustc");
    rustc.arg("-O").arg("-o").arg(&program).arg(&source);
    timed(&mut rustc);
    program
}
