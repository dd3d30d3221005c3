//! What commands ask agents, mostly `rpcutil`, for their own purposes: everybody at once, kept nowhere, shown by whoever asks.

use super::context::Context;
use crate::ask::{
    AskError, Fleet, Found, Plan, Progress, Question, Recorder, Schemas, Target, Words,
};
use crate::error::Error;
use crate::report::Report;
use crate::settings::Settings;

/// The agent that every node has.
pub const AGENT: &str = "rpcutil";

/// An action of `rpcutil` with these inputs, as they would be typed.
pub fn plan<'a>(
    schemas: &'a Schemas,
    action: &str,
    inputs: &[(&str, &str)],
) -> Result<Plan<'a>, AskError> {
    let inputs = inputs.iter();
    let inputs = inputs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    plan_of(schemas, (AGENT, action), inputs.collect())
}

/// An action of any agent with these inputs, as they would be typed.
pub fn plan_of<'a>(
    schemas: &'a Schemas,
    (agent, action): (&str, &str),
    inputs: Vec<(String, String)>,
) -> Result<Plan<'a>, AskError> {
    let words = Words {
        agent: agent.to_owned(),
        action: Some(action.to_owned()),
        inputs,
    };
    let (ddl, action) = schemas.action(&words)?;
    Plan::new(ddl, action, &words.inputs)
}

/// Asks these nodes.
pub async fn ask(
    fleet: &Fleet,
    plan: &Plan<'_>,
    found: Found,
    progress: &Progress<'_>,
) -> Result<Report, Error> {
    let mut unrecorded = Recorder::new(None, progress.printer());
    let question = Question::new(plan);
    fleet
        .ask(question, found, &mut unrecorded, progress, |_| Ok(()))
        .await
}

/// Connects, finds whoever is meant, and asks them; at a terminal waiting is shown, if that is wanted.
pub async fn ask_all(
    plan: &Plan<'_>,
    target: &Target,
    settings: &Settings,
    shown: bool,
    cx: Context<'_>,
) -> Result<Report, Error> {
    let fleet = Fleet::connect(settings, target).await?;
    let progress = Progress::new(cx.printer, shown);
    let found = fleet.discover(target, &progress).await?;
    ask(&fleet, plan, found, &progress).await
}
