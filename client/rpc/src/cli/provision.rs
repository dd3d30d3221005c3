//! `rpc provision ...`: what may be typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use muster_wire::enrol::{NamePattern, TicketFact};
use muster_wire::identity::Identity;

use super::org::Where;
use crate::organisation::lifetime;

/// The commands that bring new machines in.
#[derive(Debug, Subcommand)]
pub enum Provision {
    /// Make a bootstrap token: with it a new machine may ask to become a node
    #[command(after_help = TOKEN)]
    Token(Token),
}

const TOKEN: &str = "\
A `*` in a name stands for any characters of one part, never for a dot; a part
that is `**` for one or more parts.

Whoever has the token can do one thing: ask to be enrolled under such a name.
All machines that are started with it share it. `rpc org revoke NAME` ends it
early; nodes that came in by it stay.

Examples:
  rpc provision token --names 'web-*.example.com'
  rpc provision token --names 'ci-*.acme.net' --uses 20 --expires 2h
  rpc provision token --names '**.lab.acme.net' --facts role=lab --name lab";

/// `rpc provision token`.
#[derive(Debug, Args)]
pub struct Token {
    /// Name that machines may ask for, with `*` and `**`; repeatable
    #[arg(long = "names", value_name = "PATTERN", required = true)]
    pub names: Vec<NamePattern>,
    /// How long machines may come in by it, as in 12h, 30d, 1y
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = lifetime::parse)]
    pub expires: Duration,
    /// How many machines may come in by it; any number when left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub uses: Option<u32>,
    /// Fact that nodes have which came in by it; repeatable
    #[arg(long = "facts", value_name = "NAME=VALUE")]
    pub facts: Vec<TicketFact>,
    /// What to call it, for lists and revocations; made up when left out
    #[arg(long)]
    pub name: Option<Identity>,
    /// Which organisation.
    #[command(flatten)]
    pub place: Where,
    /// Where to write the credentials, instead of below the organisation's directory
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}
