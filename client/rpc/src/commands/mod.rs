//! The commands, a folder each: arguments, what it does, and its output. Below: their groups in the help, how each is run,
//! and the documents that they print.

pub mod again;
pub mod approve;
pub mod audit;
pub mod broker;
pub mod cancel;
pub mod catalog;
pub mod check;
pub mod checks;
pub mod completion;
pub mod config;
pub mod content;
pub mod context;
pub mod copy;
pub mod demo;
pub mod do_action;
pub mod doctor;
pub mod events;
pub mod explain;
pub mod facts;
pub mod filter;
pub mod find;
pub mod history;
pub mod inventory;
pub mod job;
pub mod listen;
pub mod node;
pub mod nodes;
pub mod org;
pub mod permit;
pub mod ping;
pub mod plugin;
pub mod policy;
pub mod prompt;
pub mod provision;
pub mod puppet;
pub mod release;
pub mod run;
pub mod schedule;
pub mod schema;
pub mod ssh;
pub mod stats;
pub mod tunnel;
pub mod upgrade;
pub mod whoami;

use clap::Subcommand;
#[cfg(test)]
use muster_client::documents::{
    NodeDifferenceDocument, NodeHistoryDocument, PuppetRunsDocument, PuppetRunsJsonLine,
    RegisteredFacetsDocument, RegisteredNodesDocument, ServiceDocument,
};
#[cfg(test)]
use muster_contract::compiler::{
    CompilerAnnounceOutput, CompilerCheckOutput, CompilerCollectOutput, CompilerCompileOutput,
    CompilerDiffOutput, CompilerEnvironmentsOutput, CompilerReleasesOutput, CompilerShowOutput,
    CompilerVerifyOutput,
};
#[cfg(test)]
use muster_contract::history::{
    HistoryDriftOutput, HistoryQueryOutput, HistoryRunsOutput, HistoryStatisticsOutput,
};
#[cfg(test)]
use muster_contract::schedule::{
    ScheduleAddOutput, ScheduleHistoryOutput, ScheduleListOutput, ScheduleShowOutput,
};
use muster_operations::ssh::SshProgram;

use crate::commands::schema::published::{PublishedSchema, documents};
use crate::flags::deferred::Deferred;
use crate::flags::values::ColorMode;
use crate::flags::{filters, request};
#[cfg(test)]
use crate::report::documents::{ReportDocument, RequestDocument};
#[cfg(test)]
use crate::report::jsonl::RequestJsonLine;
use crate::session::context::{CommandContext, CommandResult};

/// Defines the commands for clap in the groups of the help, and how each is run.
macro_rules! commands {
    ($args:ident, $color:ident, $program:ident, $cx:ident: $($group:literal: $($(#[$attribute:meta])* $name:ident($type:ty) => $run:expr;)*)*) => {
        /// The commands, in the order of the help.
        #[derive(Debug, Subcommand)]
        pub enum Command {
            $($($(#[$attribute])* $name(Deferred<$type>),)*)*
        }

        impl Command {
            /// The groups of the help, and how many commands each has.
            pub const GROUPS: &[(&str, usize)] = &[$(($group, [$(stringify!($name)),*].len())),*];

            /// Runs the command; `program` defines the whole command line, for completions and manual pages.
            pub async fn run(
                self,
                $color: ColorMode,
                $program: fn() -> clap::Command,
                $cx: CommandContext<'_>,
            ) -> CommandResult {
                match self {
                    $($(Self::$name(Deferred($args)) => $run,)*)*
                }
            }
        }
    };
}

commands! { args, color, program, cx:
    "Run":
    /// Run an action on all matching nodes; also `rpc AGENT ACTION`
    #[command(override_usage = do_action::USAGE, after_help = do_action::AFTER_HELP)]
    Do(request::RequestArgs) => Box::pin(do_action::run(*args, cx)).await;
    /// Run a command line on all matching nodes
    #[command(override_usage = run::args::USAGE, after_help = run::args::AFTER_HELP)]
    Run(run::args::RunArgs) => Box::pin(run::run(*args, cx)).await;
    /// Copy a file to all matching nodes, or from them
    #[command(override_usage = copy::args::USAGE, after_help = copy::args::AFTER_HELP)]
    Cp(copy::args::CopyArgs) => Box::pin(copy::run(*args, cx)).await;
    /// Run Puppet with a concurrency limit, and show its state
    #[command(subcommand)]
    Puppet(puppet::args::PuppetCommand) => Box::pin(puppet::run(*args, cx)).await;
    /// Cancel a request that is running or queued on nodes
    #[command(after_help = cancel::args::AFTER_HELP)]
    Cancel(cancel::args::CancelArgs) => cancel::run(*args, cx).await;
    /// Show what a request would send, without sending it
    #[command(override_usage = explain::args::USAGE, after_help = explain::args::AFTER_HELP)]
    Explain(explain::args::ExplainArgs) => explain::run(*args, cx).await;
    "Inspect":
    /// List the nodes that match the filters
    #[command(after_help = find::args::AFTER_HELP)]
    Find(find::args::FindArgs) => find::run(*args, cx).await;
    /// Ping nodes and show their round-trip times
    #[command(after_help = ping::args::AFTER_HELP)]
    Ping(ping::args::PingArgs) => ping::run(*args, cx).await;
    /// List the nodes that the directory knows, also those that are down
    #[command(after_help = nodes::args::NODES_HELP)]
    Nodes(nodes::args::NodesArgs) => nodes::run_list(*args, cx).await;
    /// Show all about a node: record, facts, checks, runs, history, jobs
    #[command(after_help = node::args::AFTER_HELP)]
    Node(node::args::NodeArgs) => Box::pin(node::run(*args, cx)).await;
    /// Show a node as `rpc node` does, or report on many nodes
    #[command(override_usage = inventory::args::USAGE, after_help = inventory::args::AFTER_HELP)]
    Inventory(inventory::args::InventoryArgs) => Box::pin(inventory::run(*args, cx)).await;
    /// Show the distribution of a fact's values
    #[command(after_help = facts::args::AFTER_HELP)]
    Facts(facts::args::FactsArgs) => facts::run(*args, cx).await;
    /// Explain and test filters
    #[command(subcommand)]
    Filter(filter::args::FilterCommand) => filter::run(&args, cx);
    /// Show the request counters of daemons
    #[command(after_help = stats::AFTER_HELP)]
    Stats(filters::QueryArgs) => stats::run(*args, cx).await;
    /// Diagnose problems of the client, the brokers and the nodes
    #[command(after_help = doctor::AFTER_HELP)]
    Doctor(filters::QueryArgs) => doctor::run(*args, cx).await;
    /// Show the events of nodes as they happen
    #[command(after_help = events::args::AFTER_HELP)]
    Events(events::args::EventsArgs) => events::run(*args, cx).await;
    "Checks":
    /// Run a check of NRPE on all matching nodes, as a Nagios check
    #[command(after_help = check::args::AFTER_HELP)]
    Check(check::args::CheckArgs) => Box::pin(check::run(*args, cx)).await;
    /// Show scheduled checks, acknowledge problems, begin maintenance
    #[command(after_help = checks::args::AFTER_HELP)]
    Checks(checks::args::ChecksArgs) => Box::pin(checks::run(*args, cx)).await;
    /// Check that nodes send heartbeats, as a Nagios check
    #[command(after_help = nodes::args::CHECK_HELP)]
    CheckRegistration(nodes::args::CheckRegistrationArgs) => nodes::run_check(*args, cx).await;
    "History":
    /// Show what happened: who changed what, when, and with which result
    #[command(override_usage = history::args::HISTORY_USAGE, after_help = history::args::HISTORY_HELP)]
    History(history::args::HistoryArgs) => Box::pin(history::run(*args, cx)).await;
    /// Show what runs in noop mode would change, and since when
    #[command(after_help = history::args::DRIFT_HELP)]
    Drift(history::args::DriftArgs) => Box::pin(history::run_drift(*args, cx)).await;
    /// List the runs of nodes, and show their reports
    #[command(subcommand)]
    Report(history::args::ReportCommand) => history::run_report(*args, cx).await;
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
    /// Request actions by a schedule, and show and pause schedules
    #[command(subcommand)]
    Schedule(schedule::args::ScheduleCommand) => Box::pin(schedule::run(*args, cx)).await;
    /// Show and release run permits
    #[command(subcommand)]
    Permit(permit::args::PermitCommand) => Box::pin(permit::run(*args, cx)).await;
    /// Show, cancel and permit further runs of Puppet that runs asked for
    #[command(subcommand)]
    Again(again::args::AgainCommand) => Box::pin(again::run(*args, cx)).await;
    "Catalogs":
    /// Compile catalogs of nodes now, or compile another commit
    #[command(override_usage = catalog::args::COMPILE_USAGE, after_help = catalog::args::COMPILE_HELP)]
    Compile(catalog::args::CompileArgs) => catalog::compile(*args, cx).await;
    /// Show catalogs that were compiled ahead, and what they depend on
    #[command(subcommand)]
    Catalog(catalog::args::CatalogCommand) => catalog::run(*args, cx).await;
    /// Give nodes the catalogs of a release, and compare releases
    #[command(subcommand)]
    Release(release::args::ReleaseCommand) => Box::pin(release::run(*args, cx)).await;
    /// List, check and collect the files that catalogs name
    #[command(subcommand)]
    Content(content::args::ContentCommand) => content::run(*args, cx).await;
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
    /// Run another program of the daemon on nodes, in batches
    #[command(after_help = upgrade::args::AFTER_HELP)]
    Upgrade(upgrade::args::UpgradeArgs) => Box::pin(upgrade::run(*args, cx)).await;
    /// List, document, create, check and install agents
    #[command(subcommand)]
    Plugin(plugin::args::PluginCommand) => plugin::run(*args, cx).await;
    /// Print the JSON Schema of a command's JSON output
    #[command(after_help = schema::args::AFTER_HELP)]
    Schema(schema::args::SchemaArgs) => schema::run(&args, DOCUMENTS, cx);
    /// Print a shell completion script
    #[command(after_help = completion::args::AFTER_HELP)]
    Completion(completion::args::CompletionArgs) => completion::run(&args, cx);
    /// Print what a shell's prompt shows of this machine
    #[command(after_help = prompt::args::AFTER_HELP)]
    Prompt(prompt::args::PromptArgs) => prompt::run(&args, color, cx);
    /// Print completion candidates for a shell's completion script
    #[command(hide = true, after_help = completion::args::AFTER_HELP)]
    Complete(completion::args::CompleteArgs) => completion::answer_shell(&args, program(), cx).await;
    /// Write the manual pages: `rpc man DIR`
    #[command(hide = true, after_help = completion::args::MAN_HELP)]
    Man(completion::args::ManPagesArgs) => completion::write_man_pages(&args, program());
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

documents! {
    "muster.request.v1": "rpc do -j, rpc run -j, rpc listen -j, rpc cancel -j", RequestDocument<'_>;
    "muster.request.lines.v1": "each line of rpc do --jsonl, rpc run --jsonl, rpc listen --jsonl", RequestJsonLine<'_>;
    "muster.event.line.v1": "each line of rpc events --jsonl", events::output::EventLine<'_>;
    "muster.config.deploy.v1": "rpc config deploy -j, rpc config revert -j, rpc upgrade -j", config::output::DeployDocument<'_>;
    "muster.config.status.v1": "rpc config status -j", ReportDocument<'_, config::output::ConfigStatusDocument<'_>>;
    "muster.copy.v1": "rpc cp -j", copy::output::CopyDocument<'_>;
    "muster.ping.v1": "rpc ping -j", ping::output::PingDocument<'_>;
    "muster.nodes.v1": "rpc find -j", find::output::FoundNodesDocument<'_>;
    "muster.check.v1": "rpc check -j", check::output::CheckDocument<'_>;
    "muster.checks.v1": "rpc checks -j", checks::output::FleetChecksDocument<'_>;
    "muster.again.v1": "rpc again list -j", ReportDocument<'_, again::output::AgainListDocument<'_>>;
    "muster.again.history.v1": "rpc again history -j", ReportDocument<'_, again::output::AgainHistoryDocument<'_>>;
    "muster.schedules.v1": "rpc schedule list -j", ServiceDocument<'_, ScheduleListOutput>;
    "muster.schedule.v1": "rpc schedule show -j", ServiceDocument<'_, ScheduleShowOutput>;
    "muster.schedule.added.v1": "rpc schedule add -j", ServiceDocument<'_, ScheduleAddOutput>;
    "muster.schedule.history.v1": "rpc schedule history -j", ServiceDocument<'_, ScheduleHistoryOutput>;
    "muster.schedule.simulation.v1": "rpc schedule simulate -j", schedule::load_output::SimulationDocument;
    "muster.compile.v1": "rpc compile -j", ServiceDocument<'_, CompilerCompileOutput>;
    "muster.compile.check.v1": "rpc compile --check-inputs -j", ServiceDocument<'_, CompilerCheckOutput>;
    "muster.compile.announced.v1": "rpc compile --environment NAME -j", ServiceDocument<'_, CompilerAnnounceOutput>;
    "muster.catalogs.v1": "rpc catalog list -j", ServiceDocument<'_, catalog::output::CatalogList>;
    "muster.catalog.v1": "rpc catalog show -j", catalog::output::CatalogDocument<'_>;
    "muster.catalog.why.v1": "rpc catalog why -j", ServiceDocument<'_, CompilerShowOutput>;
    "muster.release.created.v1": "rpc release create -j", release::output::ReleaseCreated;
    "muster.releases.v1": "rpc release list -j", ServiceDocument<'_, CompilerReleasesOutput>;
    "muster.release.diff.v1": "rpc release diff -j", ServiceDocument<'_, CompilerDiffOutput>;
    "muster.release.plan.v1": "rpc release plan -j", ReportDocument<'_, release::output::ReleasePlanDocument<'_>>;
    "muster.release.status.v1": "rpc release status -j", ReportDocument<'_, release::output::ReleaseStatusDocument<'_>>;
    "muster.history.v1": "rpc history -j", ServiceDocument<'_, HistoryQueryOutput>;
    "muster.drift.v1": "rpc drift -j", ServiceDocument<'_, HistoryDriftOutput>;
    "muster.statistics.v1": "rpc report stats -j", ServiceDocument<'_, HistoryStatisticsOutput>;
    "muster.runs.v1": "rpc report list -j", ServiceDocument<'_, HistoryRunsOutput>;
    "muster.report.v1": "rpc report show -j", history::output::ReportDocument<'_>;
    "muster.content.v1": "rpc content list -j", ServiceDocument<'_, content::output::ContentList>;
    "muster.content.collected.v1": "rpc content gc -j", ServiceDocument<'_, CompilerCollectOutput>;
    "muster.content.verified.v1": "rpc content verify -j", ServiceDocument<'_, CompilerVerifyOutput>;
    "muster.catalog.environments.v1": "rpc catalog environments -j", ServiceDocument<'_, CompilerEnvironmentsOutput>;
    "muster.facts.v1": "rpc facts -j", ReportDocument<'_, facts::output::FactsDocument<'_>>;
    "muster.fact_names.v1": "rpc facts -j without the name of a fact", facts::fact_names::FactNamesDocument;
    "muster.permits.v1": "rpc permit list -j, rpc permit show -j", ReportDocument<'_, permit::output::PermitPoolsDocument<'_>>;
    "muster.collectives.v1": "rpc inventory --collectives -j", ReportDocument<'_, inventory::collectives_output::CollectivesDocument<'_>>;
    "muster.filter.test.v1": "rpc filter test -j", filter::output::FilterTestDocument<'_>;
    "muster.explain.v1": "rpc explain -j", explain::output::RequestExplanation;
    "muster.jobs.v1": "rpc job list -j", job::output::JobListDocument<'_>;
    "muster.job.v1": "rpc job show -j", job::output::JobDocument<'_>;
    "muster.job.diff.v1": "rpc job diff -j", job::output::JobDifference;
    "muster.registered-nodes.v1": "rpc nodes -j", RegisteredNodesDocument<'_>;
    "muster.verified-nodes.v1": "rpc find --verify -j", find::verify::VerifiedNodesDocument;
    "muster.registered-facets.v1": "rpc nodes --facets FACT -j", RegisteredFacetsDocument<'_>;
    "muster.node.v1": "rpc node NODE -j, rpc inventory NODE -j", node::document::NodeDocument<'_>;
    "muster.node-history.v1": "rpc node NODE --history -j", NodeHistoryDocument<'_>;
    "muster.node-difference.v1": "rpc node NODE --diff FROM UNTIL -j", NodeDifferenceDocument<'_>;
    "muster.broker.balance.v1": "rpc broker balance -j", broker::balance::BrokerBalanceDocument;
    "muster.broker.status.v1": "rpc broker status -j", broker::status::BrokerStatusDocument;
    "muster.doctor.v1": "rpc doctor -j", doctor::output::DoctorDocument<'_>;
    "muster.stats.v1": "rpc stats -j", ReportDocument<'_, stats::output::DaemonStatsDocument<'_>>;
    "muster.whoami.v1": "rpc whoami -j, rpc context show -j", whoami::output::WhoamiDocument;
    "muster.contexts.v1": "rpc context list -j", whoami::output::ContextListDocument;
    "muster.puppet.status.v1": "rpc puppet status -j", ReportDocument<'_, puppet::output::status::PuppetStatusDocument<'_>>;
    "muster.puppet.count.v1": "rpc puppet count -j", ReportDocument<'_, puppet::output::count::PuppetCountDocument<'_>>;
    "muster.puppet.summary.v1": "rpc puppet summary -j", ReportDocument<'_, puppet::output::summary::LastRunsSummary>;
    "muster.puppet.runs.v1": "rpc puppet runonce -j, rpc puppet runall -j", PuppetRunsDocument<'_>;
    "muster.puppet.runs.lines.v1": "each line of rpc puppet runonce --jsonl, rpc puppet runall --jsonl", PuppetRunsJsonLine<'_>;
    "muster.provision.v1": "rpc provision status -j", provision::output::ProvisioningDocument<'_>;
    "muster.plugins.v1": "rpc plugin list -j", plugin::output::PluginListDocument<'_>;
    "muster.plugin.v1": "rpc plugin doc -j", plugin::output::PluginDocument<'_>;
    "muster.plugin.check.v1": "rpc plugin check -j", plugin::check_output::DdlCheckDocument<'_>;
    "muster.policy.check.v1": "rpc policy check -j", policy::output::PolicyCheckDocument<'_>;
    "muster.policy.explain.v1": "rpc policy explain -j", policy::output::PolicyExplainDocument<'_>;
    "muster.policy.test.v1": "rpc policy test -j", policy::output::PolicyTestDocument<'_>;
    "muster.policy.who.v1": "rpc policy who -j", ReportDocument<'_, policy::output::PolicyWhoDocument<'_>>;
    "muster.audit.verdict.v1": "rpc audit verify -j", audit::output::AuditVerdictDocument<'_>;
    "muster.org.list.v1": "rpc org list -j", org::list::OrgListDocument;
    "muster.org.programs.v1": "rpc org program list -j", org::program::OrgProgramsDocument;
    "muster.org.show.v1": "rpc org show -j", org::show::OrganisationDocument<'_>;
    "muster.org.party.v1": "each element of rpc org show NAME -j", org::show::PrincipalDocument;
}
