//! The command line: the list of commands, and the options of all.

mod deferred;
mod help;
mod links;
mod read;

use std::path::PathBuf;

use clap::{ArgAction, Args, CommandFactory as _, Parser, Subcommand};
use muster_display::printer::{OutputPrinter, VerbosityLevel};
use muster_operations::ssh::SshProgram;

#[cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "each name is the folder of a command")
)]
use crate::commands::*;
use crate::flags::values::ColorMode;
use crate::flags::{filters, request};
use crate::session::context::{CommandContext, CommandResult, Configuration};
use crate::session::environment::ProcessEnvironment;

pub use deferred::Deferred;
pub use read::CommandLineMessage;

const GLOBAL_HEADING: &str = "Global options";

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

/// Defines the commands for clap in the groups of the help, and how each is run.
macro_rules! commands {
    ($args:ident, $color:ident, $cx:ident: $($group:literal: $($(#[$attribute:meta])* $name:ident($type:ty) => $run:expr;)*)*) => {
        /// The commands, in the order of the help.
        #[derive(Debug, Subcommand)]
        pub enum Command {
            $($($(#[$attribute])* $name(Deferred<$type>),)*)*
        }

        impl Command {
            /// The groups of the help, and how many commands each has.
            const GROUPS: &[(&str, usize)] = &[$(($group, [$(stringify!($name)),*].len())),*];

            async fn run(self, $color: ColorMode, $cx: CommandContext<'_>) -> CommandResult {
                match self {
                    $($(Self::$name(Deferred($args)) => $run,)*)*
                }
            }
        }
    };
}

commands! { args, color, cx:
    "Run":
    /// Run an action on all matching nodes; also `rpc AGENT ACTION`
    #[command(override_usage = do_action::USAGE, after_help = do_action::AFTER_HELP)]
    Do(request::RequestArgs) => Box::pin(do_action::run(*args, cx)).await;
    /// Run a command line on all matching nodes
    #[command(override_usage = run::args::USAGE, after_help = run::args::AFTER_HELP)]
    Run(run::args::RunArgs) => Box::pin(run::run(*args, cx)).await;
    /// List the nodes that match the filters
    #[command(after_help = find::args::AFTER_HELP)]
    Find(find::args::FindArgs) => find::run(*args, cx).await;
    /// Ping nodes and show their round-trip times
    #[command(after_help = ping::args::AFTER_HELP)]
    Ping(ping::args::PingArgs) => ping::run(*args, cx).await;
    /// Run Puppet with a concurrency limit, and show its state
    #[command(subcommand)]
    Puppet(puppet::args::PuppetCommand) => Box::pin(puppet::run(*args, cx)).await;
    /// Copy a file to all matching nodes, or from them
    #[command(override_usage = copy::args::USAGE, after_help = copy::args::AFTER_HELP)]
    Cp(copy::args::CopyArgs) => Box::pin(copy::run(*args, cx)).await;
    /// Cancel a request that is running or queued on nodes
    #[command(after_help = cancel::args::AFTER_HELP)]
    Cancel(cancel::args::CancelArgs) => cancel::run(*args, cx).await;
    "Inspect":
    /// Show the distribution of a fact's values
    #[command(after_help = facts::args::AFTER_HELP)]
    Facts(facts::args::FactsArgs) => facts::run(*args, cx).await;
    /// Show the inventory of one node, or report on many nodes
    #[command(override_usage = inventory::args::USAGE, after_help = inventory::args::AFTER_HELP)]
    Inventory(inventory::args::InventoryArgs) => inventory::run(*args, cx).await;
    /// Diagnose problems of the client, the brokers and the nodes
    #[command(after_help = doctor::AFTER_HELP)]
    Doctor(filters::QueryArgs) => doctor::run(*args, cx).await;
    /// List the nodes that the directory knows, also those that are down
    #[command(after_help = nodes::args::NODES_HELP)]
    Nodes(nodes::args::NodesArgs) => nodes::run_list(*args, cx).await;
    /// Show what the directory knows of one node
    #[command(after_help = nodes::args::NODE_HELP)]
    Node(nodes::args::NodeArgs) => nodes::run_show(*args, cx).await;
    /// Show what a request would send, without sending it
    #[command(override_usage = explain::args::USAGE, after_help = explain::args::AFTER_HELP)]
    Explain(explain::args::ExplainArgs) => explain::run(*args, cx).await;
    /// Show the request counters of daemons
    #[command(after_help = stats::AFTER_HELP)]
    Stats(filters::QueryArgs) => stats::run(*args, cx).await;
    /// Show the events of nodes as they happen
    #[command(after_help = events::args::AFTER_HELP)]
    Events(events::args::EventsArgs) => events::run(*args, cx).await;
    /// Explain and test filters
    #[command(subcommand)]
    Filter(filter::args::FilterCommand) => filter::run(&args, cx);
    /// Run a check of NRPE on all matching nodes, as a Nagios check
    #[command(after_help = check::args::AFTER_HELP)]
    Check(check::args::CheckArgs) => Box::pin(check::run(*args, cx)).await;
    /// Show scheduled checks, acknowledge problems, begin maintenance
    #[command(after_help = checks::args::AFTER_HELP)]
    Checks(checks::args::ChecksArgs) => Box::pin(checks::run(*args, cx)).await;
    /// Check that nodes send heartbeats, as a Nagios check
    #[command(after_help = nodes::args::CHECK_HELP)]
    CheckRegistration(nodes::args::CheckRegistrationArgs) => nodes::run_check(*args, cx).await;
    /// Print what a shell's prompt shows of this machine
    #[command(after_help = prompt::args::AFTER_HELP)]
    Prompt(prompt::args::PromptArgs) => prompt::run(&args, color, cx);
    "OpenSSH":
    /// Log in to a node by OpenSSH, or run a command on nodes
    #[command(override_usage = ssh::args::SSH_USAGE, after_help = ssh::args::SSH_HELP)]
    Ssh(ssh::args::SshArgs) => Box::pin(ssh::run(*args, cx)).await;
    /// Copy files to or from a node by OpenSSH
    #[command(override_usage = ssh::args::SCP_USAGE, after_help = ssh::args::SCP_HELP)]
    Scp(ssh::args::SshTargetArgs) => Box::pin(ssh::run_transfer(SshProgram::Scp, *args, cx)).await;
    /// Transfer files to or from a node interactively by OpenSSH
    #[command(override_usage = ssh::args::SFTP_USAGE, after_help = ssh::args::SFTP_HELP)]
    Sftp(ssh::args::SshTargetArgs) => Box::pin(ssh::run_transfer(SshProgram::Sftp, *args, cx)).await;
    /// Connect to a port of a node through the broker
    #[command(override_usage = tunnel::args::USAGE, after_help = tunnel::args::AFTER_HELP)]
    Tunnel(tunnel::args::TunnelArgs) => Box::pin(tunnel::run(*args, cx)).await;
    "Jobs":
    /// List, show, compare, undo and delete stored jobs
    #[command(subcommand)]
    Job(job::args::JobCommand) => job::run(*args, cx).await;
    /// Review and approve a request that another user proposed
    #[command(after_help = approve::args::AFTER_HELP)]
    Approve(approve::args::ApproveArgs) => approve::run(&args, cx);
    /// Receive the replies to requests that were sent with --reply-to
    #[command(after_help = listen::args::AFTER_HELP)]
    Listen(listen::args::ListenArgs) => Box::pin(listen::run(*args, cx)).await;
    /// Show and release run permits
    #[command(subcommand)]
    Permit(permit::args::PermitCommand) => Box::pin(permit::run(*args, cx)).await;
    /// Show, cancel and permit further runs of Puppet that runs asked for
    #[command(subcommand)]
    Again(again::args::AgainCommand) => Box::pin(again::run(*args, cx)).await;
    /// Request actions by a schedule, and show and pause schedules
    #[command(subcommand)]
    Schedule(schedule::args::ScheduleCommand) => Box::pin(schedule::run(*args, cx)).await;
    "Access":
    /// Show who you are to the nodes, and until when
    #[command(after_help = whoami::args::AFTER_HELP)]
    Whoami(whoami::args::WhoamiArgs) => whoami::run(&args, cx);
    /// List and select contexts: fleets and users
    #[command(subcommand)]
    Context(context::args::ContextCommand) => context::run(*args, cx);
    /// Check, explain and test policies
    #[command(subcommand)]
    Policy(policy::args::PolicyCommand) => policy::run(*args, cx).await;
    /// Verify and show a node's audit log
    #[command(subcommand)]
    Audit(audit::args::AuditCommand) => audit::run(*args, cx);
    /// Create and manage an organisation: keys, credentials, revocations
    #[command(subcommand)]
    Org(org::args::OrgCommand) => org::run(*args, cx).await;
    "Setup":
    /// Run a demonstration fleet on this machine: a broker and some nodes
    #[command(subcommand)]
    Demo(demo::args::DemoCommand) => demo::run(*args, cx).await;
    /// Configure and run the broker
    #[command(subcommand)]
    Broker(broker::args::BrokerCommand) => broker::run(*args, cx).await;
    /// Enrol and provision new machines
    #[command(subcommand)]
    Provision(provision::args::ProvisionCommand) => Box::pin(provision::run(*args, cx)).await;
    /// Deploy policies, facts, checks and settings to daemons
    #[command(subcommand)]
    Config(config::args::ConfigCommand) => Box::pin(config::run(*args, cx)).await;
    /// List, document, create, check and install agents
    #[command(subcommand)]
    Plugin(plugin::args::PluginCommand) => plugin::run(*args, cx).await;
    /// Print the JSON Schema of a command's JSON output
    #[command(after_help = schema::args::AFTER_HELP)]
    Schema(schema::args::SchemaArgs) => schema::run(&args, cx);
    /// Print a shell completion script
    #[command(after_help = completion::args::AFTER_HELP)]
    Completion(completion::args::CompletionArgs) => completion::run(&args, cx);
    /// Print completion candidates for a shell's completion script
    #[command(hide = true, after_help = completion::args::AFTER_HELP)]
    Complete(completion::args::CompleteArgs) => completion::answer_shell(&args, Cli::command(), cx).await;
    /// Write the manual pages: `rpc man DIR`
    #[command(hide = true, after_help = completion::args::MAN_HELP)]
    Man(completion::args::ManPagesArgs) => completion::write_man_pages(&args, Cli::command());
}

impl Command {
    /// Whether a monitoring system reads the exit code: 0 is OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
    pub fn is_monitoring_check(&self) -> bool {
        match self {
            Self::Check(_) | Self::CheckRegistration(_) => true,
            Self::Checks(Deferred(args)) => args.command.is_none() && args.list.exit_state,
            _ => false,
        }
    }
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
        Box::pin(self.command.run(*color, cx)).await
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
