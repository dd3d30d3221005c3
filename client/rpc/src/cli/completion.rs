//! `rpc completion`, and what shells call behind it: what may be typed.

use std::path::PathBuf;

use clap::Args;

use crate::completion::CompletionShell;

/// Examples.
pub const AFTER_HELP: &str = "Examples:
  source <(rpc completion bash)
  rpc completion zsh > ~/.zfunc/_rpc
  rpc completion fish > ~/.config/fish/completions/rpc.fish

Names of nodes and facts are those that commands have seen in the last day.";

/// `rpc completion`.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// The shell: bash, zsh or fish
    #[arg(value_name = "SHELL", hide_possible_values = true)]
    pub shell: CompletionShell,
}

/// `rpc complete`, for the scripts only.
#[derive(Debug, Args)]
pub struct CompleteArgs {
    /// The shell
    pub shell: CompletionShell,
    /// What it knows of the line
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// `rpc man`, for packages only.
#[derive(Debug, Args)]
pub struct ManPagesArgs {
    /// The directory that the pages are written into
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}
