//! `lint`: lists the notifications of a catalog that an unmodified Puppet would lose.

use std::sync::Arc;

use muster_api::base::error_chain;
use muster_api::{ActionError, AgentAction, CallContext};
use muster_engine::type_source::machine_type_sources;
use muster_engine::{ResourceEngine, lint};
use serde::{Deserialize, Serialize};

use crate::runs;

pub(crate) struct CatalogLintAction;

/// Without `Debug`: there may be passwords in it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CatalogLintInput {
    catalog: Option<String>,
    file: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct CatalogLintOutput {
    count: usize,
    findings: Vec<String>,
}

impl AgentAction for CatalogLintAction {
    const NAME: &'static str = "lint";
    type Input = CatalogLintInput;
    type Output = CatalogLintOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: CatalogLintInput,
    ) -> Result<CatalogLintOutput, ActionError> {
        let source = runs::choose_source(input.catalog, input.file)?;
        let system = Arc::clone(&cx.system);
        let host = cx.node.identity().to_string();
        cx.run_blocking(move |_| {
            let catalog = runs::parse_catalog(&*system, &host, &source)?;
            let engine = ResourceEngine::new(Arc::clone(&system))
                .with_type_source(machine_type_sources(&system));
            let findings = lint::lint_catalog(&engine, &catalog);
            let findings =
                findings.map_err(|error| ActionError::invalid_input(error_chain(&error)))?;
            Ok(CatalogLintOutput {
                count: findings.len(),
                findings: findings.iter().map(ToString::to_string).collect(),
            })
        })
        .await?
    }
}
