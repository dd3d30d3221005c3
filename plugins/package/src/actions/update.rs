//! `update`: brings a package that is installed to the newest version.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};

use crate::package::{Input, Report};
use crate::queue::Queue;

pub(crate) struct Update(pub(crate) Arc<Queue>);

impl Action for Update {
    const NAME: &'static str = "update";
    type Input = Input;
    type Output = Report;

    async fn run(&self, cx: &Context, input: Input) -> Result<Report, ActionError> {
        self.0
            .change(cx, move |packages| packages.update(&input.package))
            .await
    }
}
