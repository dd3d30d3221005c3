//! `plan`: tells what `do` would change, or that it would be refused.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::change::{Changer, Mode, Report, Wanted};

pub(crate) struct Plan(pub(crate) Arc<Changer>);

/// Without `Debug`: there may be passwords in it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    #[serde(rename = "type")]
    type_name: String,
    name: String,
    /// Everything else that was given: properties and parameters of the type.
    #[serde(flatten)]
    words: Map<String, Value>,
}

impl Action for Plan {
    const NAME: &'static str = "plan";
    type Input = Input;
    type Output = Report;

    async fn run(&self, cx: &Context, input: Input) -> Result<Report, ActionError> {
        let Input {
            type_name,
            name: title,
            words,
        } = input;
        self.0
            .bring(
                cx,
                Wanted {
                    type_name,
                    title,
                    words,
                },
                Mode::Plan,
            )
            .await
    }
}
