//! What `apply` and `plan` are asked: which catalog, and which of its resources. They differ in nothing but whether anything is changed.

use std::sync::Arc;

use muster_api::{ActionError, Context};
use serde::Deserialize;

use crate::options::Options;
use crate::runs::{self, Outcome, Wish};

/// Without `Debug`: there may be passwords in it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Ask {
    catalog: Option<String>,
    file: Option<String>,
    tags: Option<String>,
    skip_tags: Option<String>,
}

/// What is done with the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The node is changed.
    Apply,
    /// It is only told what would be.
    Plan,
}

impl Ask {
    /// Runs the engine as it was asked to, and tells what came of it.
    pub(crate) async fn answer(
        self,
        cx: &Context,
        options: &Arc<Options>,
        mode: Mode,
    ) -> Result<Outcome, ActionError> {
        let source = runs::source(self.catalog, self.file)?;
        let wish = Wish {
            noop: mode == Mode::Plan,
            tags: runs::words(self.tags),
            skip_tags: runs::words(self.skip_tags),
            ..Wish::default()
        };
        runs::apply(cx, options, source, wish).await
    }
}
