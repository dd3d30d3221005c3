//! The command line: the list of commands, and the options of all. `dispatch` runs the chosen one.

mod deferred;
pub mod dispatch;
mod help;
mod links;
mod read;

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::commands::{
    again, approve, audit, broker, cancel, check, checks, completion, config, context, copy, demo,
    do_action, events, explain, facts, filter, find, inventory, job, listen, nodes, org, permit,
    ping, plugin, policy, prompt, provision, puppet, run, schedule, schema, ssh, tunnel, whoami,
};
use crate::display::printer::VerbosityLevel;
use crate::flags::values::ColorMode;
use crate::flags::{filters, request};

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
#[command(help_template = help::TEMPLATE, override_usage = help::USAGE)]
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

/// The commands. The help has its own order.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Ping nodes and show their round-trip times
    #[command(after_help = ping::args::AFTER_HELP)]
    Ping(Deferred<ping::args::PingArgs>),
    /// List the nodes that match the filters
    #[command(after_help = find::args::AFTER_HELP)]
    Find(Deferred<find::args::FindArgs>),
    /// List the nodes that the directory knows, also those that are down
    #[command(after_help = nodes::args::NODES_HELP)]
    Nodes(Deferred<nodes::args::NodesArgs>),
    /// Show what the directory knows of one node
    #[command(after_help = nodes::args::NODE_HELP)]
    Node(Deferred<nodes::args::NodeArgs>),
    /// Print what a shell's prompt shows of this machine
    #[command(after_help = prompt::args::AFTER_HELP)]
    Prompt(Deferred<prompt::args::PromptArgs>),
    /// Check that nodes send heartbeats, as a Nagios check
    #[command(after_help = nodes::args::CHECK_HELP)]
    CheckRegistration(Deferred<nodes::args::CheckRegistrationArgs>),
    /// Run a check of NRPE on all matching nodes, as a Nagios check
    #[command(after_help = check::args::AFTER_HELP)]
    Check(Deferred<check::args::CheckArgs>),
    /// Show, cancel and permit further runs of Puppet that runs asked for
    #[command(subcommand)]
    Again(Deferred<again::args::AgainCommand>),
    /// Request actions by a schedule, and show and pause schedules
    #[command(subcommand)]
    Schedule(Deferred<schedule::args::ScheduleCommand>),
    /// Show scheduled checks, acknowledge problems, begin maintenance
    #[command(after_help = checks::args::AFTER_HELP)]
    Checks(Deferred<checks::args::ChecksArgs>),
    /// Show the distribution of a fact's values
    #[command(after_help = facts::args::AFTER_HELP)]
    Facts(Deferred<facts::args::FactsArgs>),
    /// Show the inventory of one node, or report on many nodes
    #[command(override_usage = inventory::args::USAGE, after_help = inventory::args::AFTER_HELP)]
    Inventory(Deferred<inventory::args::InventoryArgs>),
    /// Run an action on all matching nodes; also `rpc AGENT ACTION`
    #[command(override_usage = do_action::USAGE, after_help = do_action::AFTER_HELP)]
    Do(Deferred<request::RequestArgs>),
    /// Run a command line on all matching nodes
    #[command(override_usage = run::args::USAGE, after_help = run::args::AFTER_HELP)]
    Run(Deferred<run::args::RunArgs>),
    /// Copy a file to all matching nodes, or from them
    #[command(override_usage = copy::args::USAGE, after_help = copy::args::AFTER_HELP)]
    Cp(Deferred<copy::args::CopyArgs>),
    /// Log in to a node by OpenSSH, or run a command on nodes
    #[command(override_usage = ssh::args::SSH_USAGE, after_help = ssh::args::SSH_HELP)]
    Ssh(Deferred<ssh::args::SshArgs>),
    /// Copy files to or from a node by OpenSSH
    #[command(override_usage = ssh::args::SCP_USAGE, after_help = ssh::args::SCP_HELP)]
    Scp(Deferred<ssh::args::ScpArgs>),
    /// Transfer files to or from a node interactively by OpenSSH
    #[command(override_usage = ssh::args::SFTP_USAGE, after_help = ssh::args::SFTP_HELP)]
    Sftp(Deferred<ssh::args::SftpArgs>),
    /// Connect to a port of a node through the broker
    #[command(override_usage = tunnel::args::USAGE, after_help = tunnel::args::AFTER_HELP)]
    Tunnel(Deferred<tunnel::args::TunnelArgs>),
    /// Receive the replies to requests that were sent with --reply-to
    #[command(after_help = listen::args::AFTER_HELP)]
    Listen(Deferred<listen::args::ListenArgs>),
    /// Show the events of nodes as they happen
    #[command(after_help = events::args::AFTER_HELP)]
    Events(Deferred<events::args::EventsArgs>),
    /// Cancel a request that is running or queued on nodes
    #[command(after_help = cancel::args::AFTER_HELP)]
    Cancel(Deferred<cancel::args::CancelArgs>),
    /// Show what a request would send, without sending it
    #[command(override_usage = "rpc explain AGENT [ACTION] [KEY=VALUE]... [OPTIONS]", after_help = explain::args::AFTER_HELP)]
    Explain(Deferred<explain::args::ExplainArgs>),
    /// List, show, compare, undo and delete stored jobs
    #[command(subcommand)]
    Job(Deferred<job::args::JobCommand>),
    /// Review and approve a request that another user proposed
    #[command(after_help = approve::args::AFTER_HELP)]
    Approve(Deferred<approve::args::ApproveArgs>),
    /// Show the request counters of daemons
    #[command(after_help = "Examples:
  rpc stats                          counters of all daemons
  rpc stats -C apache
  rpc stats -j --jq '.nodes[] | select(.replayed > 0) | .node'

Counters since the start of the daemon: TOTAL is all received requests. REFUSED
were not authentic: missing, invalid or foreign signature, another collective,
or a role without permission to send requests. EXPIRED were too old or from the
future, REPLAYED were seen before, OTHERS were for other nodes, DENIED were
denied by a policy. REPLIES is the number of replies.")]
    Stats(Deferred<filters::QueryArgs>),
    /// Diagnose problems of the client, the brokers and the nodes
    #[command(after_help = "Examples:
  rpc doctor                         the client, the brokers, the whole fleet
  rpc doctor -I db1.acme.net         the same, with one node only
  rpc doctor -j                      print one JSON document

Checks the client's configuration, credentials and trust; names, connections
and TLS of the brokers; clocks, duplicate names, versions and DDLs of the nodes,
and problems that daemons report: policies, facts, disks, audit, credentials.
Changes nothing. Exits with 1 for an error of the client or a broker, with 2 for
an error of a node; warnings do not count.")]
    Doctor(Deferred<filters::QueryArgs>),
    /// Explain and test filters
    #[command(subcommand)]
    Filter(Deferred<filter::args::FilterCommand>),
    /// Run Puppet with a concurrency limit, and show its state
    #[command(subcommand)]
    Puppet(Deferred<puppet::args::PuppetCommand>),
    /// Show and release run permits
    #[command(subcommand)]
    Permit(Deferred<permit::args::PermitCommand>),
    /// List, document, create, check and install agents
    #[command(subcommand)]
    Plugin(Deferred<plugin::args::PluginCommand>),
    /// Show who you are to the nodes, and until when
    #[command(after_help = whoami::args::AFTER_HELP)]
    Whoami(Deferred<whoami::args::WhoamiArgs>),
    /// List and select contexts: fleets and users
    #[command(subcommand)]
    Context(Deferred<context::args::ContextCommand>),
    /// Deploy policies, facts, checks and settings to daemons
    #[command(subcommand)]
    Config(Deferred<config::args::ConfigCommand>),
    /// Check, explain and test policies
    #[command(subcommand)]
    Policy(Deferred<policy::args::PolicyCommand>),
    /// Create and manage an organisation: keys, credentials, revocations
    #[command(subcommand)]
    Org(Deferred<org::args::OrgCommand>),
    /// Enrol and provision new machines
    #[command(subcommand)]
    Provision(Deferred<provision::args::ProvisionCommand>),
    /// Verify and show a node's audit log
    #[command(subcommand)]
    Audit(Deferred<audit::args::AuditCommand>),
    /// Configure and run the broker
    #[command(subcommand)]
    Broker(Deferred<broker::args::BrokerCommand>),
    /// Run a demonstration fleet on this machine: a broker and some nodes
    #[command(subcommand)]
    Demo(Deferred<demo::args::DemoCommand>),
    /// Print the JSON Schema of a command's JSON output
    #[command(after_help = schema::args::AFTER_HELP)]
    Schema(Deferred<schema::args::SchemaArgs>),
    /// Print a shell completion script
    #[command(after_help = completion::args::AFTER_HELP)]
    Completion(Deferred<completion::args::CompletionArgs>),
    /// Print completion candidates for a shell's completion script
    #[command(hide = true, after_help = completion::args::AFTER_HELP)]
    Complete(Deferred<completion::args::CompleteArgs>),
    /// Write the manual pages: `rpc man DIR`
    #[command(hide = true, after_help = "Example:\n  rpc man /usr/share/man/man1")]
    Man(Deferred<completion::args::ManPagesArgs>),
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
