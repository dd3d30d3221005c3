//! `uninstall`: removes a package, and keeps its configuration.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};

use crate::package::{Input, Report};
use crate::queue::Queue;

pub(crate) struct Uninstall(pub(crate) Arc<Queue>);

impl Action for Uninstall {
    const NAME: &'static str = "uninstall";
    type Input = Input;
    type Output = Report;

    async fn run(&self, cx: &Context, input: Input) -> Result<Report, ActionError> {
        self.0
            .change(cx, move |packages| packages.bring(&input.package, "absent"))
            .await
    }
}
