//! `rpc policy`: checks policies, explains their decisions, and tests them, from files; and asks nodes who may run an action.

pub mod args;
pub mod errors;
pub mod output;

use muster_base::{error_chain, unix_millis_now};
use muster_client::{AgentSchemas, FleetRequestError, RequestWords};
use muster_contract::config::{ConfigWho, ConfigWhoInput};
use muster_operations::policy::{
    AssumedDataValues, PolicyTestSuite, SavedNode, lint_policies, read_directory, read_paths,
};
use muster_policy::{PolicyQuery, RuleVerdict};
use serde_json::{Map, Value};

use crate::commands::policy::args::{
    PolicyCheckArgs, PolicyCommand, PolicyExplainArgs, PolicyTestArgs, PolicyWhoArgs,
};
use crate::request::inquiry::query_nodes;
use crate::session::context::{CommandContext, CommandExitCode, CommandResult, Result};

pub async fn run(command: PolicyCommand, cx: CommandContext<'_>) -> CommandResult {
    match command {
        PolicyCommand::Check(args) => check_policies(&args, cx),
        PolicyCommand::Explain(args) => explain_decision(&args, cx),
        PolicyCommand::Test(args) => run_cases(&args, cx),
        PolicyCommand::Who(args) => ask_who(*args, cx).await,
    }
}

async fn ask_who(args: PolicyWhoArgs, cx: CommandContext<'_>) -> CommandResult {
    let (agent, action) = args.request;
    let schemas = cx.load_configured_schemas()?;
    // Finds names that do not exist, with suggestions.
    schemas.find_action(&RequestWords::new(&agent, Some(&action), &[]))?;
    let input = ConfigWhoInput { agent, action };
    let result = query_nodes::<ConfigWho>(&args.query, &input, cx).await?;
    let rows = output::read_callers(&result.report);
    let content = output::PolicyWhoDocument { rows: &rows };
    result.print_answered("muster.policy.who.v1", content, || {
        Ok(cx.printer.print_text(output::render_callers(&rows, cx.table_width()))?)
    })
}

fn check_policies(args: &PolicyCheckArgs, cx: CommandContext<'_>) -> CommandResult {
    let schemas = AgentSchemas::load(cx.load_settings_if_any()?)?;
    let data = cx.load_data_sources()?;
    let sources = data.declared_sources();
    let readings = read_paths(&args.paths, RuleVerdict::Deny)?;
    let mut findings = Vec::new();
    for reading in &readings {
        let (set, problems) = (&reading.set, &reading.problems);
        findings.extend(lint_policies(set, problems, &schemas.store, &sources, unix_millis_now()));
    }
    for reading in &readings {
        findings.extend(reading.unprotected_findings());
    }
    let files = readings.iter().map(|reading| reading.files.len()).sum();
    let document = output::PolicyCheckDocument::new(files, &findings);
    let json = args.json.form()?;
    cx.print_result(json.as_ref(), &document, || document.render_text())?;
    let has_passed = document.errors == 0 && !(args.strict && document.warnings > 0);
    Ok(CommandExitCode::from_verdict(has_passed))
}

fn explain_decision(args: &PolicyExplainArgs, cx: CommandContext<'_>) -> CommandResult {
    check_action_exists(args, cx)?;
    let mut node = match &args.node {
        Some(path) => SavedNode::read(path)?,
        None => SavedNode::default(),
    };
    for fact in &args.facts {
        node = node.with_fact(fact)?;
    }
    let node = node.with_facts_and_classes(Map::new(), &args.classes)?;
    let mut data = AssumedDataValues::default();
    for assumption in &args.data {
        data = data.with_value(assumption)?;
    }
    let text = |(name, value): &(String, String)| (name.clone(), Value::from(value.as_str()));
    let inputs: Map<String, Value> = args.inputs.iter().map(text).collect();
    let reading = read_directory(&args.dir, args.default)?;
    for problem in &reading.problems {
        cx.printer.print_warning(problem);
    }
    let query = PolicyQuery {
        caller: &args.caller,
        agent: &args.agent,
        action: &args.action,
        node: &node.view(),
        inputs: Some(&inputs),
        now: args.at.unwrap_or_else(unix_millis_now),
    };
    let explanation = reading.set.explain(&query, &data.to_lookup_values());
    let request = (&args.caller, &args.agent, &args.action);
    let document = output::PolicyExplainDocument::new(request, node.name(), &explanation);
    let json = args.json.form()?;
    cx.print_result(json.as_ref(), &document, || document.render_text())?;
    Ok(CommandExitCode::from_verdict(explanation.decision.allowed))
}

/// Fails for an action that its agent does not have, with a suggestion. An agent that is not known here may exist on nodes: that is a warning.
fn check_action_exists(args: &PolicyExplainArgs, cx: CommandContext<'_>) -> Result<()> {
    let schemas = cx.load_schemas()?;
    let words = RequestWords::new(args.agent.as_str(), Some(args.action.as_str()), &[]);
    match schemas.find_action(&words) {
        Ok(_) => Ok(()),
        Err(error @ FleetRequestError::UnknownAgent { .. }) => {
            let problem = error_chain(&error);
            cx.printer.print_warning(format_args!("the request is not checked: {problem}"));
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn run_cases(args: &PolicyTestArgs, cx: CommandContext<'_>) -> CommandResult {
    let cases = PolicyTestSuite::read(&args.file)?;
    let reading = read_directory(&cases.policies, cases.default)?;
    for problem in &reading.problems {
        cx.printer.print_warning(problem);
    }
    let outcomes = cases.run_cases(&reading.set, unix_millis_now());
    let document = output::PolicyTestDocument::new(&outcomes);
    let json = args.json.form()?;
    cx.print_result(json.as_ref(), &document, || document.render_text())?;
    Ok(CommandExitCode::from_verdict(document.failed == 0))
}

#[cfg(test)]
mod tests;
