//! Arguments of `rpc policy ...`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use muster_policy::{PolicyPrincipal, RuleVerdict, parse_instant};
use muster_wire::Millis;
use muster_wire::identity::SubjectName;

use crate::flags::filters::QueryArgs;
use crate::flags::json::JsonArgs;

const DEFAULT_POLICIES_DIRECTORY: &str = "/etc/muster/policies";

/// Commands for policies. All but `who` send no requests.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Read policies as a node does, and print errors and warnings
    #[command(
        after_help = "Exits with 2 if a policy has errors or, with --strict, if it has warnings.

Examples:
  rpc policy check
  rpc policy check policies/ --strict
  rpc policy check service.policy -j | jq -r '.findings[].message'"
    )]
    Check(PolicyCheckArgs),
    /// Show which line decides about a request, and why earlier lines do not match
    #[command(
        override_usage = "rpc policy explain --caller NAME --agent AGENT --action ACTION [OPTIONS]",
        after_help = "Exits with 2 if the request is denied.

Examples:
  rpc node db1.acme.net --live -j > db1.json
  rpc policy explain --caller rip --agent service --action stop --node db1.json
  rpc policy explain --caller rip --agent puppetral --action do \\
      --dir policies/ --fact environment=production --class mysql::master \\
      --data 'puppet().enabled=false'"
    )]
    Explain(Box<PolicyExplainArgs>),
    /// Run the cases of a test file against policies
    #[command(after_help = "A test file is TOML:
  policies = \"policies\"            # default: the file's directory
  [nodes.db1]
  facts = { environment = \"production\" }
  data.\"puppet()\" = { enabled = false }   # default: unknown
  [[cases]]
  caller = \"rip\"
  agent = \"service\"
  action = \"restart\"
  node = \"db1\"
  expect = \"deny\"
  rule = \"service.policy:3\"         # optional

Exits with 2 if a case fails.

Examples:
  rpc policy test policies.test.toml
  rpc policy test policies.test.toml -j | jq '.failed'")]
    Test(PolicyTestArgs),
    /// Ask nodes which callers may run an action on them
    #[command(
        override_usage = "rpc policy who AGENT.ACTION [OPTIONS]",
        after_help = "Examples:
  rpc policy who puppetral.do -I db1.acme.net
  rpc policy who service.restart -C web -j --jq '.rows[] | select(.allowed) | .caller'

A node answers by its own policies, facts and classes: each caller and service
that its policy names, an expression as written, with the verdict of its line,
and `*` and `service=*` for all that are not named. Conditions on inputs and
data sources count as unknown: they do not match an allow line. Users also need
permission of the broker: `rpc org list`."
    )]
    Who(Box<PolicyWhoArgs>),
}

/// `rpc policy who`.
#[derive(Debug, Args)]
pub struct PolicyWhoArgs {
    /// Agent and action, separated by a dot
    #[arg(value_name = "AGENT.ACTION", value_parser = parse_action)]
    pub request: (String, String),
    /// JSON output, and the nodes.
    #[command(flatten)]
    pub query: QueryArgs,
}

fn parse_action(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('.') {
        Some((agent, action)) if !agent.is_empty() && !action.is_empty() => {
            Ok((agent.to_owned(), action.to_owned()))
        }
        _ => Err("write it as AGENT.ACTION, as in puppetral.do"),
    }
}

/// `rpc policy check`.
#[derive(Debug, Args)]
pub struct PolicyCheckArgs {
    /// Policy directories, or single files; `groups` is read from the same directory
    #[arg(value_name = "DIR|FILE", default_value = DEFAULT_POLICIES_DIRECTORY)]
    pub paths: Vec<PathBuf>,
    /// Treat warnings as errors
    #[arg(long)]
    pub strict: bool,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc policy explain`.
#[derive(Debug, Args)]
pub struct PolicyExplainArgs {
    /// Caller of the request; a service is written service=NAME
    #[arg(long, value_name = "NAME")]
    pub caller: PolicyPrincipal,
    /// Name of the agent
    #[arg(long, value_name = "AGENT")]
    pub agent: SubjectName,
    /// Name of the action
    #[arg(long, value_name = "ACTION")]
    pub action: SubjectName,
    /// Data of the node, a file written by `rpc node NODE --live -j`
    #[arg(long, value_name = "FILE")]
    pub node: Option<PathBuf>,
    /// Fact of the node, in addition to the file; overrides a fact of the file; repeatable
    #[arg(long = "fact", value_name = "NAME=VALUE")]
    pub facts: Vec<String>,
    /// Class of the node, in addition to the file; repeatable
    #[arg(long = "class", value_name = "CLASS")]
    pub classes: Vec<String>,
    /// Input of the request, for rules with input:NAME=VALUE; repeatable
    #[arg(long = "input", value_name = "NAME=VALUE", value_parser = parse_input)]
    pub inputs: Vec<(String, String)>,
    /// Result of a data source, for example "puppet().enabled=false"; unknown if not given; repeatable
    #[arg(long = "data", value_name = "VALUE")]
    pub data: Vec<String>,
    /// Directory of the policies
    #[arg(long, value_name = "DIR", default_value = DEFAULT_POLICIES_DIRECTORY)]
    pub dir: PathBuf,
    /// Decision of the node for agents without a policy: allow or deny
    #[arg(long, value_name = "VERDICT", value_parser = parse_verdict, default_value = "deny")]
    pub default: RuleVerdict,
    /// Time of the request, for example 2026-11-22T10:00Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_instant)]
    pub at: Option<Millis>,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc policy test`.
#[derive(Debug, Args)]
pub struct PolicyTestArgs {
    /// Test file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

fn parse_input(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE, as in port=22")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn parse_verdict(text: &str) -> Result<RuleVerdict, &'static str> {
    match text {
        "allow" => Ok(RuleVerdict::Allow),
        "deny" => Ok(RuleVerdict::Deny),
        _ => Err("expected allow or deny"),
    }
}
