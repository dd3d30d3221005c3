//! What `apply` and `plan` are asked: which catalog, and which of its resources. They differ in nothing but whether anything is changed.

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

/// What is done with the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CatalogRunMode {
    /// The node is changed.
    Apply,
    /// It is only told what would be.
    Plan,
}

impl CatalogRunInput {
    /// Runs the engine as it was asked to, and tells what came of it.
    pub(crate) async fn run_catalog(
        self,
        cx: &CallContext,
        options: &Arc<Options>,
        mode: CatalogRunMode,
    ) -> Result<CatalogRunOutcome, ActionError> {
        let source = runs::choose_source(self.catalog, self.file)?;
        let wish = CatalogRunOptions {
            noop: mode == CatalogRunMode::Plan,
            tags: runs::split_words(self.tags),
            skip_tags: runs::split_words(self.skip_tags),
            ..CatalogRunOptions::default()
        };
        runs::apply_catalog(cx, options, source, wish).await
    }
}
