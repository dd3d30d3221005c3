//! Input of `apply` and `plan`: the catalog and the selected resources. The two actions differ only in whether they change the node.

use std::sync::Arc;

use muster_api::{ActionError, CallContext};
use serde::Deserialize;

use crate::options::Options;
use crate::runs::{self, CatalogRunOptions, CatalogRunOutcome};

/// Without `Debug`: there may be passwords in it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CatalogRunInput {
    catalog: Option<String>,
    file: Option<String>,
    tags: Option<String>,
    skip_tags: Option<String>,
}

/// How the catalog is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CatalogRunMode {
    /// Changes the node.
    Apply,
    /// Reports what would change.
    Plan,
}

impl CatalogRunInput {
    /// Runs the engine with this input and returns the result.
    pub(crate) async fn run_catalog(
        self,
        cx: &CallContext,
        options: &Arc<Options>,
        mode: CatalogRunMode,
    ) -> Result<CatalogRunOutcome, ActionError> {
        let source = runs::choose_source(self.catalog, self.file)?;
        let run_options = CatalogRunOptions {
            noop: mode == CatalogRunMode::Plan,
            tags: runs::split_words(self.tags),
            skip_tags: runs::split_words(self.skip_tags),
            ..CatalogRunOptions::default()
        };
        runs::apply_catalog(cx, options, source, run_options).await
    }
}
