//! `rpc demo ...`: what may be typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The commands on the demonstration.
#[derive(Debug, Subcommand)]
pub enum DemoCommand {
    /// Start a broker and some nodes on this machine, each with a scratch root of its own
    #[command(after_help = "Examples:
  rpc demo up
  rpc demo up --nodes 20 --dir /tmp/fleet
  rpc demo up --nodes 10000 --virtual")]
    Up(DemoUpArgs),
    /// Show what runs
    #[command(after_help = "Examples:
  rpc demo status")]
    Status(DemoDirectoryArgs),
    /// Stop what was started, and remove what was made
    #[command(after_help = "Examples:
  rpc demo down")]
    Down(DemoDirectoryArgs),
}

/// Which demonstration.
#[derive(Debug, Clone, Args)]
pub struct DemoDirectoryArgs {
    /// Directory of the demonstration [default: ~/.cache/muster/demo]
    #[arg(long = "dir", value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

/// `rpc demo up`.
#[derive(Debug, Args)]
pub struct DemoUpArgs {
    /// Which demonstration.
    #[command(flatten)]
    pub place: DemoDirectoryArgs,
    /// How many nodes; at most 500, unless they are virtual
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub nodes: u32,
    /// Run the nodes in one process, each with a machine in memory: thousands of them, and nothing that they do is kept
    #[arg(long = "virtual")]
    pub in_memory: bool,
    /// Port of the broker; 0 for any that is free
    #[arg(long, default_value_t = 0)]
    pub port: u16,
}
