//! `rpc policy`: looks over policies, says why they decide as they do, and tests them. Reads files, and asks nobody.

use super::context::Context;
use super::form;
use crate::ask::{AskError, Schemas};
use crate::cli::policy::{Check, Explain, Policy, Test};
use crate::clock;
use crate::error::Error;
use crate::exit::Exit;
use crate::policy::{Cases, Loaded, SavedNode, Supposed, directory, look_over, paths};
use crate::render::policy as render;
use muster_client::DataStore;
use muster_wire::policy::{Question, Verdict};
use serde_json::Map;

/// Runs one of the commands.
pub fn run(command: Policy, cx: Context<'_>) -> Result<Exit, Error> {
    match command {
        Policy::Check(args) => check(&args, cx),
        Policy::Explain(args) => explain(&args, cx),
        Policy::Test(args) => test(&args, cx),
    }
}

fn check(args: &Check, cx: Context<'_>) -> Result<Exit, Error> {
    let settings = cx.settings_if_any()?;
    let schemas = Schemas::load(settings.as_ref())?;
    let directory = settings.as_ref().map(|settings| settings.ddls.as_path());
    let data = DataStore::load(directory).map_err(AskError::from)?;
    let sources = data.sources();
    let readings = paths(&args.paths, Verdict::Deny)?;
    let mut findings = Vec::new();
    for reading in &readings {
        let loaded = Loaded {
            set: &reading.set,
            problems: &reading.problems,
        };
        findings.append(&mut look_over(
            loaded,
            &schemas.store,
            &sources,
            clock::now(),
        ));
    }
    for reading in &readings {
        findings.extend(reading.unprotected());
    }
    let files = readings.iter().map(|reading| reading.files.len()).sum();
    let found = render::Check::new(files, &findings);
    if let Some(json) = form::json(&args.json)? {
        cx.json(&found, &json)?;
    } else {
        cx.printer.text(found.text())?;
    }
    let (errors, warnings) = found.counts();
    let bad = errors > 0 || (args.strict && warnings > 0);
    Ok(if bad { Exit::SomeFailed } else { Exit::Passed })
}

fn explain(args: &Explain, cx: Context<'_>) -> Result<Exit, Error> {
    let mut node = match &args.node {
        Some(path) => SavedNode::read(path)?,
        None => SavedNode::default(),
    };
    for fact in &args.facts {
        node = node.with_fact(fact)?;
    }
    let node = node.with(Map::new(), &args.classes)?;
    let mut data = Supposed::default();
    for stated in &args.data {
        data = data.with(stated)?;
    }
    let reading = directory(&args.dir, args.default)?;
    for problem in &reading.problems {
        cx.printer.warn(problem);
    }
    let question = Question {
        caller: &args.caller,
        agent: &args.agent,
        action: &args.action,
        node: &node.view(),
        now: args.at.unwrap_or_else(clock::now),
    };
    let explanation = reading.set.explain(&question, &data.known());
    let asked = (&args.caller, &args.agent, &args.action);
    let explained = render::Explained::new(asked, node.name(), &explanation);
    if let Some(json) = form::json(&args.json)? {
        cx.json(&explained, &json)?;
    } else {
        cx.printer.text(explained.text())?;
    }
    Ok(if explanation.decision.allowed {
        Exit::Passed
    } else {
        Exit::SomeFailed
    })
}

fn test(args: &Test, cx: Context<'_>) -> Result<Exit, Error> {
    let cases = Cases::read(&args.file)?;
    let reading = directory(&cases.policies, cases.default)?;
    for problem in &reading.problems {
        cx.printer.warn(problem);
    }
    let outcomes = cases.run(&reading.set, clock::now());
    let tested = render::Tested::new(&outcomes);
    if let Some(json) = form::json(&args.json)? {
        cx.json(&tested, &json)?;
    } else {
        cx.printer.text(tested.text())?;
    }
    Ok(if tested.failed() > 0 {
        Exit::SomeFailed
    } else {
        Exit::Passed
    })
}

#[cfg(test)]
mod tests;
