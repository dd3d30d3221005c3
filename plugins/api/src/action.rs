//! Handlers of actions: functions with typed inputs and outputs, and their type-erased form, which is built in one place only.

use std::pin::Pin;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::context::CallContext;
use crate::error::ActionError;

/// The state of an action that needs none. Not `Copy`, so that functions take it by reference as they take any other state.
#[derive(Debug, Clone)]
pub struct NoState;

/// A boxed future of an action's result.
pub type ActionFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Map<String, Value>, ActionError>> + Send + 'a>>;

/// Type-erased action that the host calls: JSON in, JSON out. [`AgentBuilder`](crate::AgentBuilder) makes one of each function that it is given;
/// external agents implement it directly.
pub trait ActionHandler: Send + Sync + 'static {
    /// Runs the action on validated inputs.
    fn call<'a>(&'a self, cx: &'a CallContext, input: Map<String, Value>) -> ActionFuture<'a>;

    /// Whether the first poll returns the reply: see [`AgentBuilder::immediate_action`](crate::AgentBuilder::immediate_action).
    fn answers_immediately(&self) -> bool {
        false
    }
}

/// A function from JSON to JSON as a handler.
pub(crate) struct FunctionHandler<F> {
    pub(crate) function: F,
    pub(crate) answers_immediately: bool,
}

impl<F> ActionHandler for FunctionHandler<F>
where
    F: for<'a> Fn(&'a CallContext, Map<String, Value>) -> ActionFuture<'a> + Send + Sync + 'static,
{
    fn call<'a>(&'a self, cx: &'a CallContext, input: Map<String, Value>) -> ActionFuture<'a> {
        (self.function)(cx, input)
    }

    fn answers_immediately(&self) -> bool {
        self.answers_immediately
    }
}

/// The typed inputs of a call.
pub(crate) fn parse_inputs<I: DeserializeOwned>(
    input: Map<String, Value>,
) -> Result<I, ActionError> {
    serde_json::from_value(Value::Object(input))
        .map_err(|error| ActionError::invalid_input(format!("invalid input: {error}")))
}

/// The outputs of `source`, an action or a data source, as a JSON object.
pub(crate) fn encode_outputs(
    source: &str,
    output: impl Serialize,
) -> Result<Map<String, Value>, ActionError> {
    match serde_json::to_value(output) {
        Ok(Value::Object(output)) => Ok(output),
        Ok(other) => Err(ActionError::internal_error(format!(
            "the {source} returned {other}, not an object"
        ))),
        Err(error) => {
            Err(ActionError::internal_error(format!("cannot write the outputs as JSON: {error}")))
        }
    }
}
