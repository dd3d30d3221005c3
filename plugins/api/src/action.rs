//! An action, typed; and its erased form, made in exactly one place.

use std::pin::Pin;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::context::Context;
use crate::error::ActionError;

/// One action of an agent, with its own types.
pub trait Action: Send + Sync + 'static {
    /// The name in the DDL.
    const NAME: &'static str;
    /// The answer comes from what the daemon holds in memory: [`Self::run`] never waits, and does nothing that takes time. Such an
    /// action is run where the request is taken in, without a task of its own.
    const AT_ONCE: bool = false;
    /// The inputs, after the DDL has validated them and filled in defaults.
    type Input: DeserializeOwned + Send;
    /// The outputs: serialises to a JSON object with the DDL's names.
    type Output: Serialize + Send;

    /// Does the work. Dropped at the deadline; blocking work belongs on [`Context::blocking`].
    fn run(
        &self,
        cx: &Context,
        input: Self::Input,
    ) -> impl Future<Output = Result<Self::Output, ActionError>> + Send;
}

/// A boxed future of an answer.
pub type Answer<'a> =
    Pin<Box<dyn Future<Output = Result<Map<String, Value>, ActionError>> + Send + 'a>>;

/// What the host calls: JSON in, JSON out. Implemented for every [`Action`]; external agents implement it themselves.
pub trait Handler: Send + Sync + 'static {
    /// Runs the action on validated inputs.
    fn call<'a>(&'a self, cx: &'a Context, input: Map<String, Value>) -> Answer<'a>;

    /// Whether the answer is there when it is first asked for: see [`Action::AT_ONCE`].
    fn at_once(&self) -> bool {
        false
    }
}

impl<A: Action> Handler for A {
    fn call<'a>(&'a self, cx: &'a Context, input: Map<String, Value>) -> Answer<'a> {
        Box::pin(async move {
            let input = serde_json::from_value(Value::Object(input))
                .map_err(|error| ActionError::invalid(format!("input does not fit: {error}")))?;
            let output = self.run(cx, input).await?;
            match serde_json::to_value(output) {
                Ok(Value::Object(output)) => Ok(output),
                Ok(other) => Err(ActionError::broken(format!(
                    "the answer is {other}, not an object"
                ))),
                Err(error) => Err(ActionError::broken(format!(
                    "the answer is no JSON: {error}"
                ))),
            }
        })
    }

    fn at_once(&self) -> bool {
        A::AT_ONCE
    }
}
