//! Arguments of `rpc prompt`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use muster_contract::motd::PROMPT_CACHE_PATH;

pub const AFTER_HELP: &str = "Examples:
  eval \"$(rpc prompt --init bash)\"      a line for ~/.bashrc
  eval \"$(rpc prompt --init zsh)\"       a line for ~/.zshrc
  rpc prompt --init fish | source       a line for config.fish
  eval \"$(rpc prompt --init sh)\"        a line for ~/.profile
  rpc prompt --shell bash               what is added to the prompt now

Shows customer, environment and roles of this machine, and in yellow:
puppet-disabled, run-failed, checks-critical:N, refreshes-pending:N,
again-oscillating, again-pending (see `rpc again`), and rpcd-down if the daemon
has not updated the file for 20 minutes. Reads one file that rpcd keeps
(prompt_cache in [plugins.motd]), so it needs no broker and no daemon. Prints
nothing on a machine without this file.";

/// The shells whose prompts are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PromptShell {
    /// GNU Bash
    Bash,
    /// Z shell
    Zsh,
    /// fish
    Fish,
    /// POSIX shells; without colours, because they would count them as columns
    Sh,
}

/// `rpc prompt`.
#[derive(Debug, Args)]
pub struct PromptArgs {
    /// Shell: bash, zsh, fish or sh
    #[arg(
        long,
        value_name = "SHELL",
        default_value = "sh",
        hide_possible_values = true,
        hide_default_value = true
    )]
    pub shell: PromptShell,
    /// Print the commands that add the text to the prompts of this shell
    #[arg(long, value_name = "SHELL", conflicts_with = "shell", hide_possible_values = true)]
    pub init: Option<PromptShell>,
    /// Maximum width of the text, in columns; roles that do not fit are counted
    #[arg(long, value_name = "COLUMNS", default_value_t = 40)]
    pub width: usize,
    /// The file that rpcd keeps
    #[arg(long, value_name = "FILE", default_value = PROMPT_CACHE_PATH)]
    pub file: PathBuf,
}
