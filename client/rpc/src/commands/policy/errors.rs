//! Hints and exit codes for errors of policies as files.

use muster_files::files::FileAccessError;
use muster_operations::policy::PolicyError;

use crate::session::context::{CommandError, CommandExitCode};

impl CommandError for PolicyError {
    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::File(FileAccessError::TooLarge { .. }) => "check that it is the right file",
            Self::NoPolicy(..) => {
                "specify the directory that contains AGENT.policy, as in `rpc policy check ./policies`"
            }
            Self::SavedNode(..) => "create one with `rpc node NODE --live -j > NODE.json`",
            Self::Cases(..) => "run `rpc policy test --help` for the format of test files",
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }

    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::Fact(..) | Self::Data(..) => CommandExitCode::Usage,
            _ => CommandExitCode::Local,
        }
    }
}
