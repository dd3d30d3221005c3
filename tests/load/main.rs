//! `load`: measures costs, each next to its floor in the same run.
//!
//! ```text
//! load run      every bench: worker "floor" = N plain NATS connections  -- nats-server without accounts
//!                            worker "muster" = N daemons                -- nats-server in operator mode
//!                            callers, the real programs, Puppet
//! ```
//!
//! Each worker is a process of this program. The rounds alternate between the workers, so that load of the machine
//! affects both. Read in this order: [`measure`], [`floor`], [`fleet`], [`caller`], [`worker`]; then any bench, each of
//! which produces a section of the [`report`]. [`gate`] compares a run with an earlier one.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed measurement must end the run")]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "figures go to stdout, messages to stderr"
)]

mod broker_restart;
mod caller;
mod checks;
mod client;
mod cluster;
mod compiles;
mod content;
mod daemon;
mod demo;
mod directory;
mod directory_fleet;
mod discovery;
mod engine;
mod event_shape;
mod fleet;
mod floor;
mod gate;
mod gateway;
mod gatherer;
mod history;
mod machine;
mod measure;
mod micro;
mod permit_daemons;
mod permits;
mod process;
mod provision;
mod regions;
mod report;
mod run;
mod slow_link;
mod start;
#[cfg(test)]
mod tests;
mod tunnel;
mod worker;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Measures the costs of fleets, programs and their parts
#[derive(Parser)]
#[command(name = "load")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Every bench, or the named ones
    Run(run::RunArgs),
    /// Simulated runs under permits: whether the limit holds, and how their time compares with the minimum
    Permits(permits::PermitsArgs),
    /// One part of a comparison, controlled by its parent through stdin
    #[command(hide = true)]
    Worker {
        #[command(subcommand)]
        role: worker::WorkerRole,
    },
    /// Runs a program and prints its cost
    #[command(hide = true)]
    Child {
        program: OsString,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Simulated runs take time but no work, so any build may measure them. Workers and children depend on their parent.
    let needs_release_build = match &cli.command {
        Command::Run(arguments) => !arguments.any_build,
        Command::Permits(_) | Command::Worker { .. } | Command::Child { .. } => false,
    };
    if cfg!(debug_assertions) && needs_release_build {
        eprintln!(
            "load: this is a debug build, and its figures would be meaningless; use cargo run --release -p muster-tests --bin load"
        );
        return ExitCode::from(1);
    }
    let (_, limit) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, limit, limit).unwrap();
    match cli.command {
        Command::Run(arguments) => return run::run_benches(&arguments, limit),
        Command::Permits(arguments) => permits::bench(&arguments),
        Command::Worker { role } => worker::serve(role),
        Command::Child { program, arguments } => process::run_child(&program, &arguments),
    }
    ExitCode::SUCCESS
}
