//! The command line: a command with its arguments, and the options of all.

mod help;
mod links;
mod read;

use std::path::PathBuf;

use clap::{ArgAction, Args, CommandFactory as _, Parser};
use muster_display::printer::{OutputPrinter, VerbosityLevel};

use crate::commands::Command;
use crate::flags::topics::GLOBAL_HEADING;
use crate::flags::values::ColorMode;
use crate::session::context::{CommandContext, CommandResult, Configuration};
use crate::session::environment::ProcessEnvironment;

pub use read::CommandLineMessage;

const AFTER_HELP: &str = "\
Exit codes:
  0  success
  1  no node was discovered, or a local error
  2  some requests failed
  3  nodes were discovered, but none replied
  4  invalid command line
  130  interrupted by Ctrl-C

Environment:
  RPC_CONTEXT      context, instead of the selected one
  RPC_CONFIG       client configuration file, instead of a context
  RPC_CREDENTIALS  credentials file; overrides the configuration
  MUSTER_ORG       directory of the organisation
  XDG_STATE_HOME   state directory; jobs are in muster/jobs [~/.local/state]
  TRACEPARENT      W3C trace context, sent with requests
  TZ               time zone of times in text
  NO_COLOR         disables colours

Examples:
  rpc find -W \"country=uk apache\"      list the matching nodes
  rpc puppetral do type=user name=rip  run on all nodes with the agent
  rpc run uptime -C web                run a command line on these nodes
  rpc demo up                          start a broker and five nodes
  rpc org init /srv/acme --name acme   create an organisation and its keys";

/// Run actions on a fleet of nodes, and administer its organisation.
#[derive(Debug, Parser)]
#[command(name = "rpc", version, after_help = AFTER_HELP, propagate_version = true)]
#[command(override_usage = help::USAGE)]
#[command(subcommand_required = true, arg_required_else_help = true, max_term_width = 80)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate command-line flag")]
pub struct GlobalArgs {
    /// Client configuration file
    #[arg(long, short = 'c', global = true, value_name = "FILE", help_heading = GLOBAL_HEADING)]
    pub config: Option<PathBuf>,
    /// Context, if not the selected one: see `rpc context`
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "config", help_heading = GLOBAL_HEADING)]
    pub context: Option<String>,
    /// Suppress messages except warnings and errors
    #[arg(long, short, global = true, conflicts_with = "verbose", help_heading = GLOBAL_HEADING)]
    pub quiet: bool,
    /// Print more detail
    #[arg(long, short, global = true, action = ArgAction::SetTrue, help_heading = GLOBAL_HEADING)]
    pub verbose: bool,
    /// When to use colours: auto, always or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true, help_heading = GLOBAL_HEADING)]
    pub color: ColorMode,
    /// Show times in UTC, not in the time zone of TZ
    #[arg(long, global = true, help_heading = GLOBAL_HEADING)]
    pub utc: bool,
    /// Print values of --jq, --template and jsonpath unescaped
    #[arg(long, global = true, help_heading = GLOBAL_HEADING)]
    pub raw: bool,
}

impl Cli {
    /// Runs the command. It receives its inputs as values, prints through the printer and returns its exit code; it does not read the command line or the
    /// environment.
    pub async fn run(
        self,
        environment: &ProcessEnvironment,
        printer: &OutputPrinter,
    ) -> CommandResult {
        let GlobalArgs { config, context, color, .. } = &self.global;
        let (config, context) = (config.as_deref(), context.as_deref());
        let configuration = &Configuration::default();
        let cx = CommandContext { config, context, environment, configuration, printer };
        Box::pin(self.command.run(*color, Self::command, cx)).await
    }

    pub fn verbosity_level(&self) -> VerbosityLevel {
        match (self.global.quiet, self.global.verbose) {
            (true, _) => VerbosityLevel::Quiet,
            (_, true) => VerbosityLevel::Verbose,
            _ => VerbosityLevel::Normal,
        }
    }

    pub fn color_choice(&self) -> anstream::ColorChoice {
        // A shell captures the text, and shows it on a terminal later. The command itself decides about colours.
        if matches!(self.command, Command::Prompt(_)) {
            return anstream::ColorChoice::Always;
        }
        self.global.color.into()
    }
}

#[cfg(test)]
mod tests;
