//! `disable`: forbids Puppet's runs, by the same lock and with the same bytes as `puppet agent --disable`.

use std::sync::Arc;

use muster_api::system::Attributes;
use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{failed, places};
use crate::files::look::disabled;
use crate::runs::Runs;

pub(crate) struct Disable(pub(crate) Arc<Runs>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    message: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    status: String,
    enabled: bool,
    disable_message: String,
}

impl Action for Disable {
    const NAME: &'static str = "disable";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let (runs, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        let caller = cx.caller.clone();
        cx.blocking(move |_| {
            let places = places(&runs.options, &*system)?;
            if let Some(first) = disabled(&*system, &places).map_err(failed)? {
                return Ok(Output {
                    status: format!("disabled already: {first}"),
                    enabled: false,
                    disable_message: first,
                });
            }
            let message = input
                .message
                .unwrap_or_else(|| format!("Disabled via Muster by {caller}"));
            let attributes = Attributes {
                mode: Some(0o644),
                ..Attributes::default()
            };
            let lock = json!({ "disabled_message": message }).to_string();
            system
                .write(&places.disabled_lock(), lock.as_bytes(), &attributes)
                .map_err(failed)?;
            Ok(Output {
                status: format!("disabled: {message}"),
                enabled: false,
                disable_message: message,
            })
        })
        .await?
    }
}
