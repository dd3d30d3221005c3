//! Arguments of `rpc demo ...`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Commands for the demonstration.
#[derive(Debug, Subcommand)]
pub enum DemoCommand {
    /// Start a broker and some nodes on this machine, each with its own scratch root
    #[command(after_help = "Examples:
  eval \"$(rpc demo up)\"             start it, and use it in this shell
  rpc demo up --nodes 20 --dir /tmp/fleet
  rpc demo up --nodes 10000 --virtual
  rpc demo up --catalogs            with the Puppet of this machine

Each node has a directory as its /, with a service, packages, files, a scheduled
check, a message of the day and a catalog: `httpd` runs on nodes of the class
`apache`, `mysqld` on the others. One node also runs the directory, the history,
the scheduler and the provisioner; with --virtual, `services.acme.net` does.

The user `demo` may do everything, the user `guest` may only read, and approves
`package purge` in production. Both are contexts: `rpc --context demo ...`,
`rpc --context demo-guest ...`. If the demonstration is running already, this
prints its settings again.")]
    Up(DemoUpArgs),
    /// Start one more machine, which the provisioner makes a node
    #[command(after_help = "\
The machine has a bootstrap token instead of credentials. Prints its name when
it is enrolled and in the directory. Its service does not run.

Examples:
  rpc demo add
  rpc provision watch               shows the steps")]
    Add(DemoDirectoryArgs),
    /// Show the processes of the demonstration
    #[command(after_help = "Examples:
  rpc demo status")]
    Status(DemoDirectoryArgs),
    /// Stop the processes and remove the files of the demonstration
    #[command(after_help = "Examples:
  rpc demo down")]
    Down(DemoDirectoryArgs),
}

/// The demonstration.
#[derive(Debug, Clone, Args)]
pub struct DemoDirectoryArgs {
    /// Directory of the demonstration [default: ~/.cache/muster/demo]
    #[arg(long = "dir", value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

/// `rpc demo up`.
#[derive(Debug, Args)]
pub struct DemoUpArgs {
    /// The demonstration.
    #[command(flatten)]
    pub demo: DemoDirectoryArgs,
    /// Number of nodes; at most 500 without --virtual [default: 5]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub nodes: Option<u32>,
    /// Run these nodes in one process, each with an in-memory machine: allows thousands of nodes; changes are not stored
    #[arg(long = "virtual")]
    pub in_memory: bool,
    /// Also compile catalogs ahead, and release them; needs Puppet 7 on this machine
    #[arg(long, conflicts_with = "in_memory")]
    pub catalogs: bool,
    /// Port of the broker; 0 selects a free port
    #[arg(long, default_value_t = 0)]
    pub port: u16,
}
