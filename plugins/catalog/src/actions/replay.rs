//! `replay`: makes the refreshes that are owed, now, with the catalog that was applied last.
//!
//! Only the targets have their turn; noop, schedules and failures hold for them as in any run.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::Deserialize;

use super::list::debts;
use crate::options::Options;
use crate::runs::{self, Outcome, Source, Wish};

pub(crate) struct Replay(pub(crate) Arc<Options>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    target: Option<String>,
}

impl Action for Replay {
    const NAME: &'static str = "replay";
    type Input = Input;
    type Output = Outcome;

    async fn run(&self, cx: &Context, input: Input) -> Result<Outcome, ActionError> {
        let options = Arc::clone(&self.0);
        let owed = cx.blocking(move |_| debts(&options)).await??;
        let wanted = |target: &String| input.target.as_ref().is_none_or(|wanted| wanted == target);
        let only: BTreeSet<String> = owed
            .into_iter()
            .map(|debt| debt.target)
            .filter(wanted)
            .collect();
        if only.is_empty() {
            return Err(ActionError::failed("no such refresh is owed here"));
        }
        let wish = Wish {
            only,
            ..Wish::default()
        };
        runs::apply(cx, &self.0, Source::Kept, wish).await
    }
}
