//! The arguments of `rpc do`, which other commands fill in.

use std::time::Duration;

use clap::Args;
use muster_contract::given_inputs;
use muster_ddl::{Action, AgentContract as _};
use serde_json::{Map, Value};

use crate::flags::approval::ApprovalArgs;
use crate::flags::filters::FilterArgs;
use crate::flags::output::OutputArgs;
use crate::flags::request_flags::RequestFlags;
use crate::flags::rollout_flags::PaceArgs;
use crate::flags::seconds::parse_seconds;

/// `rpc do`.
#[derive(Debug, Args)]
pub struct RequestArgs {
    /// Name of the agent
    #[arg(value_name = "AGENT", required_unless_present_any = ["retry_failed", "resume"])]
    pub agent: Option<String>,
    /// Action [default: the agent's default action], then its inputs
    #[arg(value_name = "[ACTION] KEY=VALUE")]
    pub words: Vec<String>,
    /// Time limit of the action on a node [default: from the agent's DDL]
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = parse_seconds)]
    pub timeout: Option<Duration>,
    /// Time limit for a node to start the action
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "60")]
    pub ttl: Duration,
    /// Limits and batches.
    #[command(flatten)]
    pub pace: PaceArgs,
    /// Options of the request.
    #[command(flatten)]
    pub flags: RequestFlags,
    /// Output format.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Approval by a second user.
    #[command(flatten)]
    pub approval: ApprovalArgs,
    /// The nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
    /// Inputs as values, in addition to the words.
    #[arg(skip)]
    pub base: Map<String, Value>,
    /// The names of all commands, if the agent is in the place of one: `rpc AGENT ACTION`.
    #[arg(skip)]
    pub commands: Vec<String>,
    /// Whether only help is requested.
    #[arg(skip)]
    pub help: bool,
}

impl RequestArgs {
    /// A request of this action, with the default options.
    pub fn of_action<A: Action>(input: &A::Input) -> Self {
        Self {
            agent: Some(A::Agent::NAME.to_owned()),
            words: vec![A::NAME.to_owned()],
            timeout: None,
            ttl: Duration::from_mins(1),
            pace: PaceArgs::default(),
            flags: RequestFlags::default(),
            output: OutputArgs::default(),
            approval: ApprovalArgs::default(),
            filters: FilterArgs::default(),
            base: given_inputs(input),
            commands: Vec::new(),
            help: false,
        }
    }
}
