//! The builder of an agent whose actions are types: an action's agent, name, inputs and outputs cannot disagree with its function.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use muster_ddl::{Action, AgentContract, AgentDdl};

use crate::agent::{Agent, AgentBuilder, AgentError};
use crate::context::{BlockingContext, CallContext};
use crate::error::ActionError;

/// Collects the actions of the agent `T`, as [`AgentBuilder`] does by name.
pub struct TypedAgentBuilder<T> {
    builder: AgentBuilder,
    agent: PhantomData<fn() -> T>,
}

impl Agent {
    /// Starts a builder of an agent whose actions are types.
    pub fn builder_for<T: AgentContract>() -> Result<TypedAgentBuilder<T>, AgentError> {
        Self::builtin(T::NAME).map(TypedAgentBuilder::new)
    }

    /// Starts a builder of such an agent from its parsed schema: many nodes in one process keep one copy of it.
    pub fn builder_with_schema<T: AgentContract>(schema: Arc<AgentDdl>) -> TypedAgentBuilder<T> {
        TypedAgentBuilder::new(Self::builder_from_ddl(schema))
    }
}

impl<T: AgentContract> TypedAgentBuilder<T> {
    fn new(builder: AgentBuilder) -> Self {
        Self { builder, agent: PhantomData }
    }

    /// Adds an action that waits: see [`AgentBuilder::action`].
    #[must_use]
    pub fn action<A, S, Fut>(
        self,
        _: A,
        state: &S,
        function: impl Fn(S, CallContext, A::Input) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        A: Action<Agent = T>,
        S: Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<A::Output, ActionError>> + Send + 'static,
    {
        Self::new(self.builder.action(A::NAME, state, function))
    }

    /// Adds an action that works with files or programs: see [`AgentBuilder::blocking_action`].
    #[must_use]
    pub fn blocking_action<A, S>(
        self,
        _: A,
        state: &S,
        function: impl Fn(&S, &BlockingContext, A::Input) -> Result<A::Output, ActionError>
        + Send
        + Sync
        + 'static,
    ) -> Self
    where
        A: Action<Agent = T>,
        S: Clone + Send + Sync + 'static,
    {
        Self::new(self.builder.blocking_action(A::NAME, state, function))
    }

    /// Adds an action that replies from memory: see [`AgentBuilder::immediate_action`].
    #[must_use]
    pub fn immediate_action<A, S>(
        self,
        _: A,
        state: &S,
        function: impl Fn(&S, &CallContext, A::Input) -> A::Output + Send + Sync + 'static,
    ) -> Self
    where
        A: Action<Agent = T>,
        S: Clone + Send + Sync + 'static,
    {
        Self::new(self.builder.immediate_action(A::NAME, state, function))
    }

    /// States that an action ends by itself at the deadline of a call: see [`AgentBuilder::ending_at_deadline`].
    #[must_use]
    pub fn ending_at_deadline<A: Action<Agent = T>>(self, _: A) -> Self {
        Self::new(self.builder.ending_at_deadline([A::NAME]))
    }

    /// Checks that the schema and the handlers have the same set of actions.
    pub fn build(self) -> Result<Agent, AgentError> {
        self.builder.build()
    }
}

impl<T> fmt::Debug for TypedAgentBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedAgentBuilder").field(&self.builder).finish()
    }
}
