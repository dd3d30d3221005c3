//! Exit codes: what a script learns from `rpc` without reading its output. Nothing else ends the process.

use std::process::ExitCode;

/// How a command ended. The numbers are a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommandExitCode {
    /// Everything that was asked for was done.
    Passed = 0,
    /// No node was discovered, or something on this side is wrong: configuration, files, the way to the broker.
    Local = 1,
    /// Some requests failed.
    SomeFailed = 2,
    /// Nodes were discovered, but none answered.
    NoneAnswered = 3,
    /// The command line cannot be understood.
    Usage = 4,
}

impl CommandExitCode {
    /// The number that the shell sees.
    pub fn as_u8(self) -> u8 {
        self as u8
    }
}

impl From<CommandExitCode> for ExitCode {
    fn from(exit: CommandExitCode) -> Self {
        Self::from(exit.as_u8())
    }
}
