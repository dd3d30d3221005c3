//! `rpc policy ...`: what may be typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use muster_wire::Millis;
use muster_wire::identity::SubjectName;
use muster_wire::policy::{PolicyPrincipal, RuleVerdict, parse_instant};

use super::json::JsonArgs;

/// Where a node keeps its policies.
const DEFAULT_POLICIES_DIRECTORY: &str = "/etc/muster/policies";

/// The commands on policies. None of them asks anybody.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Read policies as a node would, and tell what is wrong or odd about them
    #[command(
        after_help = "Exits with 2 if a policy is malformed, or with --strict if anything is odd.

Examples:
  rpc policy check
  rpc policy check policies/ --strict
  rpc policy check service.policy -j | jq -r '.findings[].message'"
    )]
    Check(PolicyCheckArgs),
    /// Tell which line decides about a request, and why the lines before it do not
    #[command(
        override_usage = "rpc policy explain --caller NAME --agent AGENT --action ACTION [OPTIONS]",
        after_help = "Exits with 2 if the request is denied.

Examples:
  rpc inventory db1.acme.net -j > db1.json
  rpc policy explain --caller rip --agent service --action stop --node db1.json
  rpc policy explain --caller rip --agent puppetral --action do \\
      --dir policies/ --fact environment=production --class mysql::master \\
      --data 'puppet().enabled=false'"
    )]
    Explain(PolicyExplainArgs),
    /// Run the cases of a test file against policies
    #[command(after_help = "A test file is TOML:
  policies = \"policies\"            # its own directory when left out
  [nodes.db1]
  facts = { environment = \"production\" }
  data.\"puppet()\" = { enabled = false }   # unknown when left out
  [[cases]]
  caller = \"rip\"
  agent = \"service\"
  action = \"restart\"
  node = \"db1\"
  expect = \"deny\"
  rule = \"service.policy:3\"         # may be left out

Exits with 2 if a case fails.

Examples:
  rpc policy test policies.test.toml
  rpc policy test policies.test.toml -j | jq '.failed'")]
    Test(PolicyTestArgs),
}

/// `rpc policy check`.
#[derive(Debug, Args)]
pub struct PolicyCheckArgs {
    /// Directories of policies, or single files; groups are read beside them
    #[arg(value_name = "DIR|FILE", default_value = DEFAULT_POLICIES_DIRECTORY)]
    pub paths: Vec<PathBuf>,
    /// What is odd counts as wrong
    #[arg(long)]
    pub strict: bool,
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc policy explain`.
#[derive(Debug, Args)]
pub struct PolicyExplainArgs {
    /// Who would ask; a service is written service=NAME
    #[arg(long, value_name = "NAME")]
    pub caller: PolicyPrincipal,
    /// The agent
    #[arg(long, value_name = "AGENT")]
    pub agent: SubjectName,
    /// The action
    #[arg(long, value_name = "ACTION")]
    pub action: SubjectName,
    /// What is known of the node: a file that `rpc inventory NODE -j` wrote
    #[arg(long, value_name = "FILE")]
    pub node: Option<PathBuf>,
    /// A fact of the node, besides or in place of the file's; repeatable
    #[arg(long = "fact", value_name = "NAME=VALUE")]
    pub facts: Vec<String>,
    /// A class of the node, besides the file's; repeatable
    #[arg(long = "class", value_name = "CLASS")]
    pub classes: Vec<String>,
    /// What a data source answers, as in "puppet().enabled=false"; unknown otherwise; repeatable
    #[arg(long = "data", value_name = "VALUE")]
    pub data: Vec<String>,
    /// Directory of the policies
    #[arg(long, value_name = "DIR", default_value = DEFAULT_POLICIES_DIRECTORY)]
    pub dir: PathBuf,
    /// What the node decides about agents without a policy: allow or deny
    #[arg(long, value_name = "VERDICT", value_parser = parse_verdict, default_value = "deny")]
    pub default: RuleVerdict,
    /// When it would be asked, as in 2026-11-22T10:00Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_instant)]
    pub at: Option<Millis>,
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc policy test`.
#[derive(Debug, Args)]
pub struct PolicyTestArgs {
    /// The test file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
}

fn parse_verdict(text: &str) -> Result<RuleVerdict, &'static str> {
    match text {
        "allow" => Ok(RuleVerdict::Allow),
        "deny" => Ok(RuleVerdict::Deny),
        _ => Err("expected allow or deny"),
    }
}
