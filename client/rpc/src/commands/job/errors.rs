//! Hints and exit codes of saved jobs.

use muster_client::jobs::SavedJobError;

use crate::outcome::error::CommandError;
use crate::outcome::exit::CommandExitCode;

impl CommandError for SavedJobError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Unknown(_) | Self::Ambiguous { .. } => {
                vec!["run `rpc job list` to list the saved jobs".to_owned()]
            }
            Self::Runs(id) => vec![format!("resume it with `rpc puppet runall --resume {id}`")],
            Self::NoRuns(id) => vec![format!("resume it with `rpc do --resume {id}`")],
            Self::NothingLeft { id, .. } => {
                vec![format!("run `rpc job show {id}` to see its results")]
            }
            Self::OtherFleet { saved, .. } => vec![format!(
                "select the configuration of the fleet {} with --config or RPC_CONFIG",
                saved.0.name
            )],
            _ => Vec::new(),
        }
    }

    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::OtherRequest { .. }
            | Self::Digested { .. }
            | Self::Filtered(_)
            | Self::Runs(_)
            | Self::NoRuns(_) => CommandExitCode::Usage,
            _ => CommandExitCode::Local,
        }
    }
}
