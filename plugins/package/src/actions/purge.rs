//! `purge`: removes a package with its configuration.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};

use crate::package::{Input, Report};
use crate::queue::Queue;

pub(crate) struct Purge(pub(crate) Arc<Queue>);

impl Action for Purge {
    const NAME: &'static str = "purge";
    type Input = Input;
    type Output = Report;

    async fn run(&self, cx: &Context, input: Input) -> Result<Report, ActionError> {
        self.0
            .change(cx, move |packages| packages.bring(&input.package, "purged"))
            .await
    }
}
