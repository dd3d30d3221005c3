//! `lint`: tells which notifications of a catalog a stock Puppet would lose.

use std::sync::Arc;

use muster_api::system::error::chain;
use muster_api::{Action, ActionError, Context};
use muster_engine::foreign::of_machine;
use muster_engine::{Engine, lint};
use serde::{Deserialize, Serialize};

use crate::runs;

pub(crate) struct Lint;

/// Without `Debug`: there may be passwords in it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    catalog: Option<String>,
    file: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    count: usize,
    findings: Vec<String>,
}

impl Action for Lint {
    const NAME: &'static str = "lint";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let source = runs::source(input.catalog, input.file)?;
        let system = Arc::clone(&cx.system);
        let host = cx.node.identity().to_string();
        cx.blocking(move |_| {
            let catalog = runs::parse(&*system, &host, &source)?;
            let engine = Engine::new(Arc::clone(&system)).with_foreign(of_machine(&system));
            let findings = lint::check(&engine, &catalog);
            let findings = findings.map_err(|error| ActionError::invalid(chain(&error)))?;
            Ok(Output {
                count: findings.len(),
                findings: findings.iter().map(ToString::to_string).collect(),
            })
        })
        .await?
    }
}
