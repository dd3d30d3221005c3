//! Arguments of `rpc upgrade`.

use clap::Args;
use muster_wire::token::ProgramName;

use crate::commands::config::args::ConfigChangeArgs;

pub const AFTER_HELP: &str = "Examples:
  rpc org program add 0.2.0 dist/rpcd          once, by the administrator
  rpc upgrade 0.2.0 --all --noop               fetch and check it, change nothing
  rpc upgrade 0.2.0 --all --canary 3 --batch 10% --max-failures 0
  rpc upgrade 0.2.0 -I db1.acme.net --confirm-within 300
  rpc config revert -C web                     back to the program before

Each node fetches the program from the broker, compares its SHA-256 with the
account token, and runs it with --check. Then the daemon restarts with it, and
waits for the confirmation, which this command sends when the node answers
again. Without it, the node returns to the earlier program by itself, also if
the new one hangs or ends. The installed program stays as it is, and runs again
once a package replaces it. `rpc config status` shows which program runs.";

/// `rpc upgrade`.
#[derive(Debug, Args)]
pub struct UpgradeArgs {
    /// Name of the program, as `rpc org program list` shows it
    #[arg(value_name = "NAME")]
    pub program: ProgramName,
    /// Upgrade all nodes; required without a filter
    #[arg(long)]
    pub all: bool,
    /// Fetch and check the program, and change nothing
    #[arg(long)]
    pub noop: bool,
    /// Confirmation and nodes.
    #[command(flatten)]
    pub change: ConfigChangeArgs,
}
