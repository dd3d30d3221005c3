//! `apply`: applies a catalog to the node.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::Deserialize;

use crate::options::Options;
use crate::runs::{self, Outcome, Wish};

pub(crate) struct Apply(pub(crate) Arc<Options>);

/// Without `Debug`: there may be passwords in it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    catalog: Option<String>,
    file: Option<String>,
    tags: Option<String>,
    skip_tags: Option<String>,
}

impl Action for Apply {
    const NAME: &'static str = "apply";
    type Input = Input;
    type Output = Outcome;

    async fn run(&self, cx: &Context, input: Input) -> Result<Outcome, ActionError> {
        let wish = Wish {
            noop: false,
            tags: runs::words(input.tags),
            skip_tags: runs::words(input.skip_tags),
            ..Wish::default()
        };
        let source = runs::source(input.catalog, input.file)?;
        runs::apply(cx, &self.0, source, wish).await
    }
}
