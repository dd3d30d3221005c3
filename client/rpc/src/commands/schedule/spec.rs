//! Builds a schedule from the command line.

use muster_client::{AgentSchemas, RequestPlan, RequestWords, TargetSelection};
use muster_schedule::{CompiledSchedule, ScheduleBlackout, ScheduleError, ScheduleSpec};
use muster_wire::identity::{NameError, SubjectName};
use serde_json::{Map, Value};

use crate::commands::schedule::args::{BlackoutArg, ScheduleSpecArgs};
use crate::flags::filters::FilterArgs;
use crate::request::input_values::{StdinUse, read_input_values};
use crate::session::context::{CommandContext, CommandError, CommandExitCode, Result};

#[derive(Debug, thiserror::Error)]
pub enum ScheduleArgsError {
    #[error("a schedule needs `--every` or `--cron`")]
    NoTiming,
    /// The name of a stored schedule, with options that would change it.
    #[error("the schedule `{0}` is simulated as it is stored, without other options")]
    StoredWithOptions(String),
    /// A condition that only a program on the author's machine can evaluate.
    #[error(
        "`{0}` cannot be the condition of a schedule: the service evaluates it again and again, without this machine's programs and files"
    )]
    LocalCondition(String),
    #[error("the input `{0}` is sensitive, and a schedule is stored in clear text")]
    Sensitive(String),
    #[error(transparent)]
    Name(#[from] NameError),
}

impl CommandError for ScheduleArgsError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::NoTiming => vec!["for example `--every 30m`, or `--cron '0 3 * * *'`".to_owned()],
            Self::StoredWithOptions(_) => {
                vec!["a changed one is a whole line of `rpc schedule add`: agent, action, and `--every` or `--cron`".to_owned()]
            }
            Self::LocalCondition(_) => {
                vec!["use facts, classes, agents and names of nodes".to_owned()]
            }
            Self::Sensitive(_) => {
                vec![
                    "store the secret on the nodes, and schedule an action that reads it there"
                        .to_owned(),
                ]
            }
            Self::Name(_) => Vec::new(),
        }
    }

    fn exit_code(&self) -> CommandExitCode {
        CommandExitCode::Usage
    }
}

impl CommandError for ScheduleError {
    fn exit_code(&self) -> CommandExitCode {
        CommandExitCode::Usage
    }
}

/// A schedule from the command line, with the nodes that it selects.
#[derive(Debug)]
pub struct NewSchedule {
    pub spec: ScheduleSpec,
    /// The valid form of `spec`.
    pub compiled: CompiledSchedule,
    pub target: TargetSelection,
    /// Whether the action changes nothing on nodes.
    pub read_only: bool,
}

/// Reads agent, action, inputs, filter and times, and validates all of them.
pub async fn build_schedule(
    words: &[String],
    args: &ScheduleSpecArgs,
    schemas: &AgentSchemas,
    cx: CommandContext<'_>,
) -> Result<NewSchedule> {
    if args.every.is_none() && args.cron.is_none() {
        return Err(ScheduleArgsError::NoTiming.into());
    }
    check_conditions(args)?;
    let (agent, words) =
        words.split_first().map_or(("", words), |(agent, rest)| (agent.as_str(), rest));
    let words = RequestWords::parse(agent, words)?;
    let (ddl, action) = schemas.find_action(&words)?;
    let inputs =
        read_input_values(action, words.inputs.clone(), StdinUse::WithoutSecrets, cx.printer)
            .await?;
    if let Some((name, _)) = inputs.iter().find(|(name, _)| action.is_sensitive(name)) {
        return Err(ScheduleArgsError::Sensitive(name.clone()).into());
    }
    let plan = RequestPlan::new(ddl, action, &inputs)?;
    let conditions = args.conditions.clone();
    let filters = FilterArgs { conditions, target: args.target.clone(), ..FilterArgs::default() };
    let target = cx.read_target(&filters)?.with_agent(ddl.name())?;
    let mut spec = timing_of(args, names_of(ddl.name(), action.name())?, target.filter.clone());
    spec.inputs = given_inputs(&plan.data, &inputs, action);
    let compiled = spec.compile()?;
    Ok(NewSchedule { spec, compiled, target, read_only: action.is_read_only() })
}

fn names_of(agent: &str, action: &str) -> Result<(SubjectName, SubjectName), ScheduleArgsError> {
    Ok((SubjectName::parse(agent)?, SubjectName::parse(action)?))
}

/// Inputs without the defaults that the DDL adds: nodes have their own, which may be newer.
fn given_inputs(
    data: &Map<String, Value>,
    inputs: &[(String, String)],
    action: &muster_ddl::ActionSchema,
) -> Map<String, Value> {
    let is_given = |name: &str| inputs.iter().any(|(given, _)| given == name);
    let has_default =
        |name: &str| action.find_input(name).is_some_and(|input| input.default.is_some());
    let kept = data.iter().filter(|(name, _)| is_given(name) || !has_default(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Groups and queries of `PuppetDB` are evaluated by discovery programs and files of the author's machine.
fn check_conditions(args: &ScheduleSpecArgs) -> Result<(), ScheduleArgsError> {
    let mut identities = args.conditions.identities.iter();
    let is_local = |text: &&String| text.starts_with("group:") || text.starts_with("pql:");
    match identities.find(is_local) {
        Some(text) => Err(ScheduleArgsError::LocalCondition(text.clone())),
        None => Ok(()),
    }
}

fn timing_of(
    args: &ScheduleSpecArgs,
    (agent, action): (SubjectName, SubjectName),
    filter: muster_filter::NodeFilter,
) -> ScheduleSpec {
    let seconds = |time: Option<std::time::Duration>| time.map(|time| time.as_secs());
    let blackout = |BlackoutArg { from, until, reason }: &BlackoutArg| ScheduleBlackout {
        from: from.clone(),
        until: until.clone(),
        reason: reason.clone(),
    };
    ScheduleSpec {
        agent,
        action,
        inputs: Map::new(),
        filter,
        every: seconds(args.every),
        cron: args.cron.clone(),
        time_zone: args.time_zone.clone(),
        spread: seconds(args.spread),
        windows: args.windows.clone(),
        blackouts: args.blackouts.iter().map(blackout).collect(),
        limit: args.concurrency,
        pool: args.pool.clone(),
        priority: args.priority,
        catch_up: seconds(args.catch_up),
        skip_if_ran_within: seconds(args.skip_if_ran_within),
        timeout: seconds(args.timeout),
    }
}
