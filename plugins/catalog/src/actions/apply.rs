//! `apply`: applies a catalog to the node.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};

use super::ask::{Ask, Mode};
use crate::options::Options;
use crate::runs::Outcome;

pub(crate) struct Apply(pub(crate) Arc<Options>);

impl Action for Apply {
    const NAME: &'static str = "apply";
    type Input = Ask;
    type Output = Outcome;

    async fn run(&self, cx: &Context, ask: Ask) -> Result<Outcome, ActionError> {
        ask.answer(cx, &self.0, Mode::Apply).await
    }
}
