//! The command line: clap structures only, one file per group of commands. Contains no behaviour.

pub mod approval;
pub mod approve;
pub mod audit;
pub mod broker;
pub mod cancel;
pub mod completion;
pub mod demo;
pub mod doctor;
pub mod errand;
pub mod explain;
pub mod facts;
pub mod filter;
pub mod filters;
pub mod find;
#[cfg(test)]
mod help;
pub mod inventory;
pub mod job;
pub mod json;
pub mod listen;
pub mod org;
pub mod output;
pub mod pace;
pub mod permit;
pub mod ping;
pub mod plugin;
pub mod policy;
pub mod provision;
pub mod puppet;
mod read;
pub mod request;
pub mod schema;
mod seconds;
pub mod stats;

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::printer::VerbosityLevel;

const AFTER_HELP: &str = "\
Exit codes:
  0  everything passed
  1  nothing discovered, or trouble on this side
  2  some requests failed
  3  nodes were discovered, but none answered
  4  the command line is wrong

Environment:
  RPC_CONFIG       the client's configuration file
  RPC_CREDENTIALS  credentials, instead of those of the configuration
  MUSTER_ORG       the organisation's directory
  XDG_STATE_HOME   where jobs are kept, in muster/jobs [~/.local/state]
  TRACEPARENT      the W3C trace that requests are part of
  NO_COLOR         no colours

Examples:
  rpc find -W \"country=uk apache\"      who would be asked
  rpc puppetral do type=user name=rip  asks all nodes that have the agent
  rpc demo up                          a broker and five nodes to play with
  rpc org init /srv/acme --name acme   an organisation with its keys";

/// Asks a fleet, and looks after the organisation it belongs to.
#[derive(Debug, Parser)]
#[command(name = "rpc", version, after_help = AFTER_HELP, propagate_version = true)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 80
)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
pub struct GlobalArgs {
    /// Configuration file of the client
    #[arg(
        long,
        short = 'c',
        global = true,
        value_name = "FILE",
        help_heading = "Global options"
    )]
    pub config: Option<PathBuf>,
    /// No talk but warnings and errors
    #[arg(
        long,
        short,
        global = true,
        conflicts_with = "verbose",
        help_heading = "Global options"
    )]
    pub quiet: bool,
    /// Say more
    #[arg(long, short, global = true, action = ArgAction::SetTrue, help_heading = "Global options")]
    pub verbose: bool,
    /// When to use colours: auto, always or never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        help_heading = "Global options"
    )]
    pub color: ColorMode,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub enum ColorMode {
    /// On a terminal, unless `NO_COLOR` is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The commands, in the order in which the help shows them.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show who is there, and how far away
    #[command(after_help = ping::AFTER_HELP)]
    Ping(ping::PingArgs),
    /// List the nodes that match
    #[command(after_help = find::AFTER_HELP)]
    Find(find::FindArgs),
    /// Show how the values of a fact are spread
    #[command(after_help = facts::AFTER_HELP)]
    Facts(facts::FactsArgs),
    /// Show all about one node, or report on all of them
    #[command(override_usage = inventory::USAGE, after_help = inventory::AFTER_HELP)]
    Inventory(inventory::InventoryArgs),
    /// Ask an action of all nodes that match; also `rpc AGENT ACTION`
    #[command(override_usage = request::USAGE, after_help = request::AFTER_HELP)]
    Do(Box<request::RequestArgs>),
    /// Wait for the answers to requests that were sent with --reply-to
    #[command(after_help = listen::AFTER_HELP)]
    Listen(Box<listen::ListenArgs>),
    /// Take back a request that nodes still work on
    #[command(after_help = cancel::AFTER_HELP)]
    Cancel(cancel::CancelArgs),
    /// Say what a request would send, as whom, and who would check it
    #[command(override_usage = "rpc explain AGENT [ACTION] [KEY=VALUE]... [OPTIONS]", after_help = explain::AFTER_HELP)]
    Explain(explain::ExplainArgs),
    /// Look at requests that were kept, and compare them
    #[command(subcommand)]
    Job(job::JobCommand),
    /// Approve what another wants to ask, after it was shown
    #[command(after_help = approve::AFTER_HELP)]
    Approve(approve::ApproveArgs),
    /// Show what daemons took and refused since they started
    #[command(after_help = stats::AFTER_HELP)]
    Stats(stats::StatsArgs),
    /// Look at everything between a command and its answer, and say what is wrong
    #[command(after_help = doctor::AFTER_HELP)]
    Doctor(doctor::DoctorArgs),
    /// Tell what filters mean
    #[command(subcommand)]
    Filter(filter::FilterCommand),
    /// Run Puppet on many nodes, so many at a time, and tell how it went
    #[command(subcommand)]
    Puppet(Box<puppet::PuppetCommand>),
    /// Show who holds run permits, and take them away
    #[command(subcommand)]
    Permit(permit::PermitCommand),
    /// List agents, and tell what they can do
    #[command(subcommand)]
    Plugin(plugin::PluginCommand),
    /// Check policies, explain what they decide, and test them
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Make and keep an organisation: keys, parties, revocations
    #[command(subcommand)]
    Org(org::OrgCommand),
    /// Bring new machines in
    #[command(subcommand)]
    Provision(provision::ProvisionCommand),
    /// Verify and read a node's audit log
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Configure and run the broker
    #[command(subcommand)]
    Broker(broker::BrokerCommand),
    /// Try everything on this machine: a broker and some nodes
    #[command(subcommand)]
    Demo(demo::DemoCommand),
    /// Print the JSON Schema of a document that commands print
    #[command(after_help = schema::AFTER_HELP)]
    Schema(schema::SchemaArgs),
    /// Print a script that completes command lines in a shell
    #[command(after_help = completion::AFTER_HELP)]
    Completion(completion::CompletionArgs),
    /// Answer a shell's completion script
    #[command(hide = true, after_help = completion::AFTER_HELP)]
    Complete(completion::CompleteArgs),
    /// Write the manual pages: `rpc man DIR`
    #[command(hide = true, after_help = "Example:\n  rpc man /usr/share/man/man1")]
    Man(completion::ManPagesArgs),
}

impl Cli {
    /// The verbosity level that the flags select.
    pub fn verbosity_level(&self) -> VerbosityLevel {
        match (self.global.quiet, self.global.verbose) {
            (true, _) => VerbosityLevel::Quiet,
            (_, true) => VerbosityLevel::Verbose,
            _ => VerbosityLevel::Normal,
        }
    }

    /// The colour choice that the flags select.
    pub fn color_choice(&self) -> anstream::ColorChoice {
        match self.global.color {
            ColorMode::Auto => anstream::ColorChoice::Auto,
            ColorMode::Always => anstream::ColorChoice::Always,
            ColorMode::Never => anstream::ColorChoice::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Cli;

    #[test]
    fn the_command_line_is_sound_and_every_command_has_examples() {
        let command = Cli::command();
        command.clone().debug_assert();
        let mut waiting = vec![command];
        while let Some(command) = waiting.pop() {
            let subcommands: Vec<_> = command.get_subcommands().cloned().collect();
            if subcommands.is_empty() {
                let help = command
                    .get_after_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                assert!(
                    help.contains("rpc "),
                    "`{}` has no example",
                    command.get_name()
                );
            }
            waiting.extend(subcommands);
        }
    }
}
