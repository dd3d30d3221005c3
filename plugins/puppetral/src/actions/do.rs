//! `do`: brings one resource to the described state.

use std::sync::Arc;

use muster_api::{Action, ActionError, Context};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::change::{Changer, Mode, Report, Wanted};

pub(crate) struct Do(pub(crate) Arc<Changer>);

/// Without `Debug`: there may be passwords in it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    #[serde(rename = "type")]
    type_name: Option<String>,
    name: Option<String>,
    undo: Option<String>,
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
            name,
            undo,
            noop,
            words,
        } = input;
        let wanted = match (undo, type_name, name) {
            (Some(id), None, None) if words.is_empty() => self.0.recall(cx, id).await?,
            (None, Some(type_name), Some(title)) => Wanted {
                type_name,
                title,
                words,
            },
            _ => {
                let problem = "give `type` and `name`, or `undo` alone";
                return Err(ActionError::invalid(problem));
            }
        };
        let mode = if noop == Some(true) {
            Mode::Noop
        } else {
            Mode::Apply
        };
        self.0.bring(cx, wanted, mode).await
    }
}
