//! Typed actions, and their type-erased form, which is built in one place only.

use std::pin::Pin;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::context::CallContext;
use crate::error::ActionError;

/// One action of an agent, with typed input and output.
pub trait AgentAction: Send + Sync + 'static {
    /// The name in the DDL.
    const NAME: &'static str;
    /// The action replies from memory: [`Self::run`] never waits and does no slow work. Such an action runs inline on the task that receives
    /// requests, without a task of its own.
    const ANSWERS_IMMEDIATELY: bool = false;
    /// The inputs, after the DDL has validated them and filled in defaults.
    type Input: DeserializeOwned + Send;
    /// The outputs: serialises to a JSON object with the DDL's names.
    type Output: Serialize + Send;

    /// Runs the action. The future is dropped at the deadline; use [`CallContext::run_blocking`] for blocking work.
    fn run(
        &self,
        cx: &CallContext,
        input: Self::Input,
    ) -> impl Future<Output = Result<Self::Output, ActionError>> + Send;
}

/// A boxed future of an action's result.
pub type ActionFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Map<String, Value>, ActionError>> + Send + 'a>>;

/// Type-erased action that the host calls: JSON in, JSON out. Implemented for every [`AgentAction`]; external agents implement it directly.
pub trait ActionHandler: Send + Sync + 'static {
    /// Runs the action on validated inputs.
    fn call<'a>(&'a self, cx: &'a CallContext, input: Map<String, Value>) -> ActionFuture<'a>;

    /// Whether the first poll returns the reply: see [`AgentAction::ANSWERS_IMMEDIATELY`].
    fn answers_immediately(&self) -> bool {
        false
    }
}

impl<A: AgentAction> ActionHandler for A {
    fn call<'a>(&'a self, cx: &'a CallContext, input: Map<String, Value>) -> ActionFuture<'a> {
        Box::pin(async move {
            let input = serde_json::from_value(Value::Object(input))
                .map_err(|error| ActionError::invalid_input(format!("invalid input: {error}")))?;
            let output = self.run(cx, input).await?;
            match serde_json::to_value(output) {
                Ok(Value::Object(output)) => Ok(output),
                Ok(other) => Err(ActionError::internal_error(format!(
                    "the action returned {other}, not an object"
                ))),
                Err(error) => Err(ActionError::internal_error(format!(
                    "cannot write the outputs as JSON: {error}"
                ))),
            }
        })
    }

    fn answers_immediately(&self) -> bool {
        A::ANSWERS_IMMEDIATELY
    }
}
