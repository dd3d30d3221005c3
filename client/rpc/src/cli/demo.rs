//! `rpc demo ...`: what may be typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The commands on the demonstration.
#[derive(Debug, Subcommand)]
pub enum Demo {
    /// Start a broker and some nodes on this machine, each with a scratch root of its own
    #[command(after_help = "Examples:
  rpc demo up
  rpc demo up --nodes 20 --dir /tmp/fleet")]
    Up(Up),
    /// Show what runs
    #[command(after_help = "Examples:
  rpc demo status")]
    Status(Place),
    /// Stop what was started, and remove what was made
    #[command(after_help = "Examples:
  rpc demo down")]
    Down(Place),
}

/// Which demonstration.
#[derive(Debug, Clone, Args)]
pub struct Place {
    /// Directory of the demonstration [default: ~/.cache/muster/demo]
    #[arg(long = "dir", value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

/// `rpc demo up`.
#[derive(Debug, Args)]
pub struct Up {
    /// Which demonstration.
    #[command(flatten)]
    pub place: Place,
    /// How many nodes
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub nodes: u16,
    /// Port of the broker; 0 for any that is free
    #[arg(long, default_value_t = 0)]
    pub port: u16,
}
