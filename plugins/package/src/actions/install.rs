//! `install`: installs a package that is not there, or brings it to a certain version.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::Deserialize;

use crate::package::Report;
use crate::queue::Queue;

pub(crate) struct Install(pub(crate) Arc<Queue>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    package: String,
    /// Begins with a digit, the DDL says: the engine has other words for what a package can be, `absent` among them.
    version: Option<String>,
}

impl Action for Install {
    const NAME: &'static str = "install";
    type Input = Input;
    type Output = Report;

    async fn run(&self, cx: &Context, input: Input) -> Result<Report, ActionError> {
        self.0
            .change(cx, move |packages| {
                packages.bring(
                    &input.package,
                    input.version.as_deref().unwrap_or("present"),
                )
            })
            .await
    }
}
