//! Arguments of `rpc whoami`.

use clap::Args;

use crate::flags::json::JsonArgs;

pub const AFTER_HELP: &str = "Examples:
  rpc whoami
  rpc whoami --context acme
  rpc whoami -j --jq .expires

Reads local files and sends nothing: the configuration, the credentials and the
account token. `rpc doctor` also asks the brokers and the nodes. Exits with 1 if
nodes would reject the credentials.";

/// `rpc whoami`.
#[derive(Debug, Args)]
pub struct WhoamiArgs {
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}
