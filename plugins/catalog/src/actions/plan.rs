//! `plan`: reports what a catalog would change.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};

use super::run_input::{CatalogRunInput, CatalogRunMode};
use crate::options::Options;
use crate::runs::CatalogRunOutcome;

pub(crate) struct CatalogPlanAction(pub(crate) Arc<Options>);

impl AgentAction for CatalogPlanAction {
    const NAME: &'static str = "plan";
    type Input = CatalogRunInput;
    type Output = CatalogRunOutcome;

    async fn run(
        &self,
        cx: &CallContext,
        input: CatalogRunInput,
    ) -> Result<CatalogRunOutcome, ActionError> {
        input.run_catalog(cx, &self.0, CatalogRunMode::Plan).await
    }
}
