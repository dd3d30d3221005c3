//! `diagnose`: what the daemon finds wrong with itself and its surroundings, and which agents it has. Mends nothing.

use std::collections::BTreeMap;

use muster_api::{Action, ActionError, Context, Finding};
use serde::Serialize;

use super::Nothing;

pub(crate) struct Diagnose;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    problems: u64,
    findings: Vec<Entry>,
    agents: BTreeMap<String, String>,
    sandbox: BTreeMap<String, String>,
    version: String,
}

/// One thing that is wrong.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Entry {
    check: String,
    /// `warning` or `error`.
    level: String,
    message: String,
}

impl Action for Diagnose {
    const NAME: &'static str = "diagnose";
    type Input = Nothing;
    type Output = Output;

    async fn run(&self, cx: &Context, _: Nothing) -> Result<Output, ActionError> {
        let node = std::sync::Arc::clone(&cx.node);
        let findings = cx.blocking(move |_| node.findings()).await?;
        let entry = |finding: Finding| Entry {
            check: finding.check.to_owned(),
            level: finding.level.word().to_owned(),
            message: finding.message,
        };
        let agents = cx.node.agents().into_iter();
        Ok(Output {
            problems: findings.len() as u64,
            findings: findings.into_iter().map(entry).collect(),
            agents: agents.map(|info| (info.agent, info.version)).collect(),
            sandbox: cx.node.sandboxes(),
            version: super::VERSION.to_owned(),
        })
    }
}
