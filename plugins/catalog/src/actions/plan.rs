//! `plan`: tells what a catalog would change.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};

use super::ask::{Ask, Mode};
use crate::options::Options;
use crate::runs::Outcome;

pub(crate) struct Plan(pub(crate) Arc<Options>);

impl Action for Plan {
    const NAME: &'static str = "plan";
    type Input = Ask;
    type Output = Outcome;

    async fn run(&self, cx: &Context, ask: Ask) -> Result<Outcome, ActionError> {
        ask.answer(cx, &self.0, Mode::Plan).await
    }
}
