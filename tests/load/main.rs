//! `load`: what things cost, beside the least that they could cost, measured in the same run.
//!
//! ```text
//! load run      every bench: worker "floor" = N bare NATS connections   -- nats-server without accounts
//!                            worker "muster" = N daemons                 -- nats-server in operator mode
//!                            askers, the real programs, Puppet           -- beside them
//! ```
//!
//! Each worker is a process of this program; the rounds alternate between the two, so that a busy minute of the machine is everybody's.
//! Read in this order: [`measure`], [`floor`], [`fleet`], [`caller`], [`worker`]; then any bench, each of which hands in a section of the
//! [`report`]. [`gate`] holds a run against an earlier one.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a measurement that fails is none")]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "figures go to stdout, talk to stderr"
)]

mod caller;
mod client;
mod daemon;
mod demo;
mod discovery;
mod engine;
mod fleet;
mod floor;
mod gate;
mod machine;
mod measure;
mod micro;
mod permits;
mod process;
mod provision;
mod report;
mod run;
mod start;
mod storm;
#[cfg(test)]
mod tests;
mod worker;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Measures what fleets, programs and their parts cost.
#[derive(Parser)]
#[command(name = "load")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Every bench, or those that are named
    Run(run::Run),
    /// Simulated runs under permits: whether the cap holds, and how close to the least possible time they take
    Permits(permits::Permits),
    /// One part of a comparison, told by its parent on stdin what to measure
    #[command(hide = true)]
    Worker {
        #[command(subcommand)]
        part: worker::Part,
    },
    /// Runs a program, and says what it has cost
    #[command(hide = true)]
    Child {
        program: OsString,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Simulated runs take time and not work: they may be measured by any build. Parts do what they are told.
    let judged = match &cli.command {
        Command::Run(wanted) => !wanted.any_build,
        Command::Permits(_) | Command::Worker { .. } | Command::Child { .. } => false,
    };
    if cfg!(debug_assertions) && judged {
        eprintln!(
            "load: this is a debug build, and its figures would mean nothing; use cargo run --release -p muster-tests --bin load"
        );
        return ExitCode::from(1);
    }
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    match cli.command {
        Command::Run(wanted) => return run::all(&wanted, most),
        Command::Permits(wanted) => permits::bench(&wanted),
        Command::Worker { part } => worker::serve(part),
        Command::Child { program, arguments } => process::child(&program, &arguments),
    }
    ExitCode::SUCCESS
}
