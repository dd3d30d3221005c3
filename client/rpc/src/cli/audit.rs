//! `rpc audit ...`: what may be typed.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use muster_wire::audit::AuditAnchor;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::token::PublicKey;

use super::json::JsonArgs;

/// The commands on audit logs. They read files, and ask nobody.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Prove that nothing in a node's audit log was altered, removed or put in
    #[command(after_help = "\
Exit codes: 0 intact, 2 something is wrong with the log, 1 it cannot be verified

Examples:
  rpc audit verify /var/log/muster/audit.log*
  rpc audit verify --operator OA... ./db1/audit.log -j
  rpc audit verify --key UB... audit.log           a key that is known otherwise
  rpc audit verify --anchor 812:mS5Y... audit.log  must still hold that line")]
    Verify(AuditVerifyArgs),
    /// Show the records of audit logs
    #[command(after_help = "Examples:
  rpc audit show /var/log/muster/audit.log
  rpc audit show --verdict denied --caller rip audit.log
  rpc audit show --agent puppetral -j audit.log | jq .data")]
    Show(AuditShowArgs),
}

/// `rpc audit verify`.
#[derive(Debug, Args)]
pub struct AuditVerifyArgs {
    /// The files of one node's log, in any order
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Public key of the operator who vouches for the node [default: the configuration's]
    #[arg(long, value_name = "KEY")]
    pub operator: Option<PublicKey>,
    /// Public key that signs the log, instead of an operator; repeatable
    #[arg(long = "key", value_name = "KEY", conflicts_with = "operator")]
    pub keys: Vec<PublicKey>,
    /// A line that must be there, as an earlier verification printed it; repeatable
    #[arg(long = "anchor", value_name = "NUMBER:HASH")]
    pub anchors: Vec<AuditAnchor>,
    /// The daemon's state directory, whose head records tell where its logs must end; on the node, as root
    /// [default: /var/lib/muster, if it can be read]
    #[arg(long, value_name = "DIR", verbatim_doc_comment)]
    pub state: Option<PathBuf>,
    /// Lines behind the last signature are a failure too
    #[arg(long)]
    pub strict: bool,
    /// As JSON.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc audit show`.
#[derive(Debug, Args)]
pub struct AuditShowArgs {
    /// The files
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Only what this caller asked
    #[arg(long, value_name = "NAME")]
    pub caller: Option<Identity>,
    /// Only this agent
    #[arg(long, value_name = "NAME")]
    pub agent: Option<SubjectName>,
    /// Only what ended so: started, executed, denied, refused or lost
    #[arg(long, value_name = "VERDICT", hide_possible_values = true)]
    pub verdict: Option<AuditVerdictFilter>,
    /// Print the records as they are, a line of JSON each
    #[arg(long, short)]
    pub json: bool,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuditVerdictFilter {
    /// A change began.
    Started,
    /// It was done.
    Executed,
    /// The caller may not.
    Denied,
    /// It was not done for another reason.
    Refused,
    /// Records that could not be written.
    Lost,
}

impl AuditVerdictFilter {
    /// The word in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Executed => "executed",
            Self::Denied => "denied",
            Self::Refused => "refused",
            Self::Lost => "lost",
        }
    }
}
