//! `checkupdates`: which packages have newer versions. Changes nothing, and asks no source: see `refresh`.

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};

use crate::package::Packages;
use crate::queue::look;

pub(crate) struct Checkupdates;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    package_manager: String,
    outdated_packages: Vec<Outdated>,
    count: usize,
}

/// The names of the field's agent.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
struct Outdated {
    package: String,
    installed: String,
    /// The newest.
    version: String,
}

impl Action for Checkupdates {
    const NAME: &'static str = "checkupdates";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, _: Input) -> Result<Output, ActionError> {
        let (tool, outdated) = look(cx, Packages::outdated).await?;
        let outdated = outdated.into_iter().map(|found| Outdated {
            package: found.name,
            installed: found.installed,
            version: found.newest,
        });
        let outdated_packages: Vec<Outdated> = outdated.collect();
        Ok(Output {
            package_manager: tool.to_owned(),
            count: outdated_packages.len(),
            outdated_packages,
        })
    }
}
