//! `load`: what asking a whole fleet costs, beside the least that it could cost, measured in the same run.
//!
//! ```text
//! load bench:  worker "floor"  = asker + N bare NATS connections  -- nats-server without accounts
//!              worker "muster" = caller + N daemons               -- nats-server in operator mode
//! ```
//!
//! Each worker is a process of this program with two threads; the rounds alternate between the two, so that a busy minute of the
//! machine is everybody's. Read in this order: [`measure`], [`floor`], [`fleet`], [`worker`], [`report`].
//!
//! It measures time from the question to the last verified answer. Memory, throughput and recovery are not its business.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a measurement that fails is none"
)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "figures go to stdout, talk to stderr"
)]

mod engine;
mod fleet;
mod floor;
mod machine;
mod measure;
mod permits;
mod provision;
mod report;
#[cfg(test)]
mod tests;
mod worker;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::measure::Side;
use crate::report::Report;

/// Measures how long a fleet takes to answer.
#[derive(Parser)]
#[command(name = "load")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A signed, verified `rpcutil ping` of many nodes, beside bare NATS with and without signatures
    Bench(Bench),
    /// Catalogs applied by `rpcd apply` and by `puppet apply`
    Engine(engine::Engine),
    /// Simulated runs under permits: whether the cap holds, and how close to the least possible time they take
    Permits(permits::Permits),
    /// Newcomers that become nodes, with a simulated Puppet
    Provision(provision::Provision),
    /// One side of the comparison, told by its parent on stdin what to measure
    #[command(hide = true)]
    Worker {
        side: Side,
        #[arg(long)]
        nodes: usize,
    },
}

#[derive(Args)]
struct Bench {
    /// Sizes of the fleet
    #[arg(long, value_delimiter = ',', default_value = "1000,10000")]
    nodes: Vec<usize>,
    /// Measured rounds, after one that is not counted
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Writes the report as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Appends the report as a section of Markdown
    #[arg(long, value_name = "FILE")]
    append: Option<PathBuf>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Simulated runs take time and not work: they may be measured by any build.
    let waits = matches!(cli.command, Command::Permits(_));
    if cfg!(debug_assertions) && !waits {
        eprintln!(
            "load: this is a debug build, and its figures would mean nothing; use cargo run --release -p muster-tests --bin load"
        );
        return ExitCode::from(1);
    }
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    match cli.command {
        Command::Bench(bench) => run(&bench, most),
        Command::Engine(wanted) => engine::bench(&wanted),
        Command::Permits(wanted) => permits::bench(&wanted),
        Command::Provision(wanted) => provision::bench(&wanted),
        Command::Worker { side, nodes } => worker::serve(side, nodes),
    }
    ExitCode::SUCCESS
}

fn run(bench: &Bench, files: u64) {
    assert!(bench.rounds > 0, "at least one round is needed");
    let mut report = Report::begin(bench.rounds);
    for &nodes in &bench.nodes {
        assert!(
            u64::try_from(nodes).unwrap() + 200 < files,
            "{nodes} connections need more than the {files} open files that a process may have here (ulimit -Hn)"
        );
        report.add(measure::compare(nodes, bench.rounds));
    }
    print!("{}", report.text());
    if let Some(path) = &bench.json {
        std::fs::write(path, serde_json::to_vec_pretty(&report).unwrap()).unwrap();
    }
    if let Some(path) = &bench.append {
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .unwrap();
        write!(file, "\n{}", report.markdown()).unwrap();
    }
}
