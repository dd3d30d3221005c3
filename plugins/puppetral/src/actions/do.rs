//! `do`: brings one resource to the described state.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::change::{Changer, Report, Wanted};

pub(crate) struct Do(pub(crate) Arc<Changer>);

/// Without `Debug`: there may be passwords in it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    #[serde(rename = "type")]
    type_name: String,
    name: String,
    noop: Option<bool>,
    /// Everything else that was given: properties and parameters of the type.
    #[serde(flatten)]
    words: Map<String, Value>,
}

impl Action for Do {
    const NAME: &'static str = "do";
    type Input = Input;
    type Output = Report;

    async fn run(&self, cx: &Context, input: Input) -> Result<Report, ActionError> {
        let Input {
            type_name,
            name: title,
            noop,
            words,
        } = input;
        let wanted = Wanted {
            type_name,
            title,
            words,
        };
        self.0.bring(cx, wanted, noop.unwrap_or(false)).await
    }
}
