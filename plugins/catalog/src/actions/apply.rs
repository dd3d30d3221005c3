//! `apply`: applies a catalog to the node.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};

use super::run_input::{CatalogRunInput, CatalogRunMode};
use crate::options::Options;
use crate::runs::CatalogRunOutcome;

pub(crate) struct CatalogApplyAction(pub(crate) Arc<Options>);

impl AgentAction for CatalogApplyAction {
    const NAME: &'static str = "apply";
    type Input = CatalogRunInput;
    type Output = CatalogRunOutcome;

    async fn run(
        &self,
        cx: &CallContext,
        input: CatalogRunInput,
    ) -> Result<CatalogRunOutcome, ActionError> {
        input.run_catalog(cx, &self.0, CatalogRunMode::Apply).await
    }
}
