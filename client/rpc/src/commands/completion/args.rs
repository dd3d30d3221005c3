//! Arguments of `rpc completion`, and of the commands that its scripts call.

use std::path::PathBuf;

use clap::Args;

use crate::commands::completion::line::CompletionShell;

pub const AFTER_HELP: &str = "Examples:
  source <(rpc completion bash)
  rpc completion zsh > ~/.zfunc/_rpc
  rpc completion fish > ~/.config/fish/completions/rpc.fish

Names of nodes, classes, agents and facts, and values of facts, are those that
commands received from the configured fleet in the last 24 hours. Names of nodes
also come from the directory, if it answers within 300 ms.";

pub const MAN_HELP: &str = "Example:
  rpc man /usr/share/man/man1";

/// `rpc completion`.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// Shell: bash, zsh or fish
    #[arg(value_name = "SHELL", hide_possible_values = true)]
    pub shell: CompletionShell,
}

/// `rpc complete`, for the scripts only.
#[derive(Debug, Args)]
pub struct CompleteArgs {
    /// Shell
    pub shell: CompletionShell,
    /// Command line, as passed by the shell's script
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// `rpc man`, for packages only.
#[derive(Debug, Args)]
pub struct ManPagesArgs {
    /// Directory for the pages
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}
