//! `enable`: allows Puppet's runs again.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};

use super::{failed, places};
use crate::files::look::disabled;
use crate::runs::Runs;

pub(crate) struct Enable(pub(crate) Arc<Runs>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    status: String,
    enabled: bool,
}

impl Action for Enable {
    const NAME: &'static str = "enable";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, _: Input) -> Result<Output, ActionError> {
        let (runs, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        cx.blocking(move |_| {
            let places = places(&runs.options, &*system)?;
            let was = disabled(&*system, &places).map_err(failed)?;
            system
                .remove_file(&places.disabled_lock())
                .map_err(failed)?;
            let status = match was {
                Some(reason) => format!("enabled; it was disabled: {reason}"),
                None => "enabled already".to_owned(),
            };
            Ok(Output {
                status,
                enabled: true,
            })
        })
        .await?
    }
}
