//! Arguments of `rpc audit ...`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use muster_wire::audit::AuditAnchor;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::token::PublicKey;

use crate::flags::json::JsonArgs;

/// Commands for audit logs. They read files and send no requests.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Verify that no line of a node's audit log was altered, removed or inserted
    #[command(after_help = "\
Exit codes: 0 the log is intact, 1 it cannot be verified, 2 it is damaged

Examples:
  rpc audit verify /var/log/muster/audit.log*
  rpc audit verify --operator OA... ./db1/audit.log -j
  rpc audit verify --key UB... audit.log           with the node's own key
  rpc audit verify --anchor 812:mS5Y... audit.log  must contain that line")]
    Verify(AuditVerifyArgs),
    /// Show the records of audit logs
    #[command(after_help = "Examples:
  rpc audit show /var/log/muster
  rpc audit show --verdict denied --caller rip audit.log
  rpc audit show --agent puppetral -j audit.log | jq .data")]
    Show(AuditShowArgs),
}

/// `rpc audit verify`.
#[derive(Debug, Args)]
pub struct AuditVerifyArgs {
    /// Files of one node's audit log, in any order; or their directory
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Public key of the operator under which the node's token must be valid [default: from the configuration]
    #[arg(long, value_name = "KEY")]
    pub operator: Option<PublicKey>,
    /// Public key of the node that signed the log, instead of --operator; repeatable
    #[arg(long = "key", value_name = "KEY", conflicts_with = "operator")]
    pub keys: Vec<PublicKey>,
    /// Line that the log must contain, as printed by an earlier verification; repeatable
    #[arg(long = "anchor", value_name = "NUMBER:HASH")]
    pub anchors: Vec<AuditAnchor>,
    /// State directory of the daemon; its head records contain the end of each log. On the node, as root
    /// [default: /var/lib/muster, if readable]
    #[arg(long, value_name = "DIR", verbatim_doc_comment)]
    pub state: Option<PathBuf>,
    /// Fail if there are lines after the last signature
    #[arg(long)]
    pub strict: bool,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc audit show`.
#[derive(Debug, Args)]
pub struct AuditShowArgs {
    /// Files of audit logs, or directories with them
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Show only requests of this caller
    #[arg(long, value_name = "NAME")]
    pub caller: Option<Identity>,
    /// Show only requests to this agent
    #[arg(long, value_name = "NAME")]
    pub agent: Option<SubjectName>,
    /// Show only records with this verdict: started, executed, ended, denied,
    /// refused or lost
    #[arg(long, value_name = "VERDICT", hide_possible_values = true)]
    pub verdict: Option<AuditVerdictFilter>,
    /// Print the records unchanged, one line of JSON each
    #[arg(long, short)]
    pub json: bool,
}

/// The verdict of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuditVerdictFilter {
    /// A change was started.
    Started,
    /// The action was executed.
    Executed,
    /// Work that an action had begun, such as a tunnel, ended.
    Ended,
    /// The caller has no permission.
    Denied,
    /// The action was not executed for another reason.
    Refused,
    /// Records that could not be written.
    Lost,
}
