//! An agent: a schema and exactly one handler for each of its actions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::ready;
use std::sync::Arc;

use muster_ddl::{AgentDdl, DdlError, builtin_agent};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::action::{ActionFuture, ActionHandler, FunctionHandler, encode_outputs, parse_inputs};
use crate::context::{BlockingContext, CallContext};
use crate::error::ActionError;

/// A schema with the handlers of its actions.
#[derive(Clone)]
pub struct Agent {
    ddl: Arc<AgentDdl>,
    actions: BTreeMap<String, Arc<dyn ActionHandler>>,
    ending_at_deadline: BTreeSet<String>,
}

/// Why an agent cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The DDL is invalid.
    #[error("the agent's DDL is invalid")]
    Ddl(#[from] DdlError),
    /// The DDL crate has no agent of this name.
    #[error("there is no built-in DDL of an agent `{0}`")]
    NotBuiltin(String),
    /// The schema declares an action that has no handler.
    #[error("agent `{agent}` declares the action `{action}` in its DDL, but does not implement it")]
    Missing {
        /// The agent.
        agent: String,
        /// The action.
        action: String,
    },
    /// A handler exists for an action that the schema does not declare.
    #[error("agent `{agent}` implements the action `{action}`, which its DDL does not declare")]
    Undeclared {
        /// The agent.
        agent: String,
        /// The action.
        action: String,
    },
}

impl Agent {
    /// Starts a builder from the JSON text of a DDL.
    pub fn builder(ddl: &str) -> Result<AgentBuilder, AgentError> {
        let ddl = AgentDdl::from_slice(ddl.as_bytes())?;
        Ok(Self::builder_from_ddl(Arc::new(ddl)))
    }

    /// Starts a builder from the built-in DDL of this agent.
    pub fn builtin(name: &str) -> Result<AgentBuilder, AgentError> {
        Self::builder(builtin_agent(name).ok_or_else(|| AgentError::NotBuiltin(name.to_owned()))?)
    }

    /// Starts a builder from a shared schema: many nodes in one process keep one copy of it.
    pub(crate) fn builder_from_ddl(ddl: Arc<AgentDdl>) -> AgentBuilder {
        AgentBuilder { ddl, actions: BTreeMap::new(), ending_at_deadline: BTreeSet::new() }
    }

    /// The name, as in subjects.
    pub fn name(&self) -> &str {
        self.ddl.name()
    }

    /// The schema.
    pub fn ddl(&self) -> &Arc<AgentDdl> {
        &self.ddl
    }

    /// The handler of one action.
    pub fn find_handler(&self, action: &str) -> Option<&Arc<dyn ActionHandler>> {
        self.actions.get(action)
    }

    /// Whether the action ends by itself at its deadline: see [`AgentBuilder::ending_at_deadline`].
    pub fn ends_at_deadline(&self, action: &str) -> bool {
        self.ending_at_deadline.contains(action)
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// Collects the actions of an agent.
///
/// An action is a function of the state that it was registered with, the context of the call, and its inputs. The inputs were validated by the DDL,
/// which also fills in defaults; the outputs serialise to a JSON object with the names of the DDL. Without state, register the function with [`NoState`](crate::NoState).
pub struct AgentBuilder {
    ddl: Arc<AgentDdl>,
    actions: BTreeMap<String, Arc<dyn ActionHandler>>,
    ending_at_deadline: BTreeSet<String>,
}

impl AgentBuilder {
    /// Adds an action that waits. Its future is dropped at the deadline; use [`CallContext::run_blocking`] for parts that block a thread.
    #[must_use]
    pub fn action<S, I, O, Fut>(
        self,
        name: &str,
        state: &S,
        function: impl Fn(S, CallContext, I) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        S: Clone + Send + Sync + 'static,
        I: DeserializeOwned + 'static,
        O: Serialize + 'static,
        Fut: Future<Output = Result<O, ActionError>> + Send + 'static,
    {
        let state = state.clone();
        self.function(name, false, move |cx, input| {
            let reply = parse_inputs(input).map(|input| function(state.clone(), cx.clone(), input));
            Box::pin(async move { encode_outputs("action", reply?.await?) })
        })
    }

    /// Adds an action that works with files or programs: it runs on the pool for blocking work. A result that arrives after cancellation still
    /// counts while the host waits, so that the caller learns what was already done.
    #[must_use]
    pub fn blocking_action<S, I, O>(
        self,
        name: &str,
        state: &S,
        function: impl Fn(&S, &BlockingContext, I) -> Result<O, ActionError> + Send + Sync + 'static,
    ) -> Self
    where
        S: Clone + Send + Sync + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
    {
        let function = Arc::new(function);
        self.action(name, state, move |state: S, cx: CallContext, input: I| {
            let function = Arc::clone(&function);
            async move { cx.run_blocking_in_context(move |cx| function(&state, cx, input)).await }
        })
    }

    /// Adds an action that replies from memory: it neither waits, nor fails, nor does slow work. It runs inline on the task that receives requests, without a
    /// task of its own, and the context is not cloned.
    #[must_use]
    pub fn immediate_action<S, I, O>(
        self,
        name: &str,
        state: &S,
        function: impl Fn(&S, &CallContext, I) -> O + Send + Sync + 'static,
    ) -> Self
    where
        S: Clone + Send + Sync + 'static,
        I: DeserializeOwned + 'static,
        O: Serialize + 'static,
    {
        let state = state.clone();
        self.function(name, true, move |cx, input| {
            let output = parse_inputs(input).map(|input| function(&state, cx, input));
            Box::pin(ready(output.and_then(|output| encode_outputs("action", output))))
        })
    }

    /// States that these actions end by themselves at the deadline of a call, and reply then with what they have. The host ends them only
    /// [`REPLY_GRACE`](muster_wire::request::REPLY_GRACE) later; it ends other actions at the deadline.
    #[must_use]
    pub fn ending_at_deadline<'a>(mut self, actions: impl IntoIterator<Item = &'a str>) -> Self {
        self.ending_at_deadline.extend(actions.into_iter().map(str::to_owned));
        self
    }

    /// Adds an action that is known only at run time, such as an action of an external agent.
    #[must_use]
    pub fn with_handler(mut self, name: &str, handler: Arc<dyn ActionHandler>) -> Self {
        self.actions.insert(name.to_owned(), handler);
        self
    }

    fn function(
        self,
        name: &str,
        answers_immediately: bool,
        function: impl for<'a> Fn(&'a CallContext, Map<String, Value>) -> ActionFuture<'a>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.with_handler(name, Arc::new(FunctionHandler { function, answers_immediately }))
    }

    /// Checks that the schema and the handlers have the same set of actions.
    pub fn build(self) -> Result<Agent, AgentError> {
        let agent = self.ddl.name().to_owned();
        for action in self.ddl.actions() {
            if !self.actions.contains_key(action.name()) {
                return Err(AgentError::Missing { agent, action: action.name().to_owned() });
            }
        }
        let mut names = self.actions.keys().chain(&self.ending_at_deadline);
        if let Some(action) = names.find(|name| self.ddl.find_action(name).is_none()) {
            return Err(AgentError::Undeclared { agent, action: action.clone() });
        }
        let Self { ddl, actions, ending_at_deadline } = self;
        Ok(Agent { ddl, actions, ending_at_deadline })
    }
}

impl fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder").field("name", &self.ddl.name()).finish_non_exhaustive()
    }
}
