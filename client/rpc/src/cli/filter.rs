//! `rpc filter ...`: what may be typed.

use clap::{Args, Subcommand};

use super::filters::Filters;

/// The commands on filters themselves.
#[derive(Debug, Subcommand)]
pub enum Filter {
    /// Say in English which nodes the filters mean, and ask nobody
    #[command(after_help = "Examples:
  rpc filter explain -W \"customer=acme apache\" -I /^web/
  rpc filter explain -S \"(country=uk or country=de) and not apache\"")]
    Explain(Explain),
}

/// `rpc filter explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// Which nodes.
    #[command(flatten)]
    pub filters: Filters,
}
