//! An agent: a schema and exactly one handler for each of its actions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use muster_ddl::{AgentDdl, DdlError};

use crate::action::{ActionHandler, AgentAction};

/// A schema with the handlers of its actions.
#[derive(Clone)]
pub struct Agent {
    ddl: Arc<AgentDdl>,
    handlers: BTreeMap<String, Arc<dyn ActionHandler>>,
}

/// Why an agent cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The DDL is invalid.
    #[error("the agent's DDL is invalid")]
    Ddl(#[from] DdlError),
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

    /// Starts a builder from a shared schema: many nodes in one process keep one copy of it.
    pub fn builder_from_ddl(ddl: Arc<AgentDdl>) -> AgentBuilder {
        AgentBuilder { ddl, handlers: BTreeMap::new() }
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
        self.handlers.get(action)
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// Collects the actions of an agent.
pub struct AgentBuilder {
    ddl: Arc<AgentDdl>,
    handlers: BTreeMap<String, Arc<dyn ActionHandler>>,
}

impl AgentBuilder {
    /// Adds a typed action.
    #[must_use]
    pub fn with_action<A: AgentAction>(self, action: A) -> Self {
        self.with_handler(A::NAME, Arc::new(action))
    }

    /// Adds an action that is known only at run time, such as an action of an external agent.
    #[must_use]
    pub fn with_handler(mut self, name: &str, handler: Arc<dyn ActionHandler>) -> Self {
        self.handlers.insert(name.to_owned(), handler);
        self
    }

    /// Checks that the schema and the handlers have the same set of actions.
    pub fn build(self) -> Result<Agent, AgentError> {
        let agent = self.ddl.name().to_owned();
        for action in self.ddl.actions() {
            if !self.handlers.contains_key(action.name()) {
                return Err(AgentError::Missing { agent, action: action.name().to_owned() });
            }
        }
        if let Some(action) = self.handlers.keys().find(|name| self.ddl.find_action(name).is_none())
        {
            return Err(AgentError::Undeclared { agent, action: action.clone() });
        }
        Ok(Agent { ddl: self.ddl, handlers: self.handlers })
    }
}

impl fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder").field("name", &self.ddl.name()).finish_non_exhaustive()
    }
}
