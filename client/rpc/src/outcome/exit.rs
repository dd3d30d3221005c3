//! Exit codes of `rpc`, for scripts. No other code ends the process.

use std::process::ExitCode;

use muster_client::jobs::RequestOutcome;
use muster_contract::nrpe::CheckState;

/// The numbers are a stable interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommandExitCode {
    /// Everything succeeded.
    Passed = 0,
    /// No node was discovered, or a local error: configuration, files, broker connection.
    Local = 1,
    /// Some requests failed.
    SomeFailed = 2,
    /// Nodes were discovered, but none replied.
    NoneAnswered = 3,
    /// The command line is invalid.
    Usage = 4,
    /// The user pressed Ctrl-C: 128 and the number of the signal, as in shells.
    Interrupted = 130,
}

impl CommandExitCode {
    /// The exit code of a check or of something done on several nodes: [`Self::SomeFailed`] unless all of it succeeded.
    pub fn from_verdict(has_passed: bool) -> Self {
        if has_passed { Self::Passed } else { Self::SomeFailed }
    }

    /// The exit code of a command that lists what the directory knows: [`Self::Local`] if it found nothing.
    pub fn from_found(has_found: bool) -> Self {
        if has_found { Self::Passed } else { Self::Local }
    }

    /// The exit code of a check for Nagios, whose codes have other meanings: 1 is WARNING, 2 CRITICAL, 3 UNKNOWN.
    pub fn from_check_state(state: CheckState) -> Self {
        match state {
            CheckState::Ok => Self::Passed,
            CheckState::Warning => Self::Local,
            CheckState::Critical => Self::SomeFailed,
            CheckState::Unknown => Self::NoneAnswered,
        }
    }

    pub fn as_u8(self) -> u8 {
        self as u8
    }
}

impl From<RequestOutcome> for CommandExitCode {
    fn from(outcome: RequestOutcome) -> Self {
        match outcome {
            RequestOutcome::Succeeded => Self::Passed,
            RequestOutcome::NoNodes => Self::Local,
            RequestOutcome::SomeFailed => Self::SomeFailed,
            RequestOutcome::NoReplies => Self::NoneAnswered,
        }
    }
}

impl From<CommandExitCode> for ExitCode {
    fn from(exit: CommandExitCode) -> Self {
        Self::from(exit.as_u8())
    }
}
