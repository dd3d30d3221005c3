//! An agent: a schema, and one handler for each of its actions. Nothing missing, nothing over.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use muster_ddl::{AgentDdl, DdlError};

use crate::action::{ActionHandler, AgentAction};

/// A plugin's callable face.
#[derive(Clone)]
pub struct Agent {
    ddl: Arc<AgentDdl>,
    handlers: BTreeMap<String, Arc<dyn ActionHandler>>,
}

/// Why an agent cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Its schema is not one.
    #[error("the agent's DDL cannot be used")]
    Ddl(#[from] DdlError),
    /// The schema declares an action that nobody wrote.
    #[error("agent {agent} declares the action {action}, and has no code for it")]
    Missing {
        /// The agent.
        agent: String,
        /// The action.
        action: String,
    },
    /// An action was written that the schema does not declare.
    #[error("agent {agent} has code for the action {action}, which its DDL does not declare")]
    Undeclared {
        /// The agent.
        agent: String,
        /// The action.
        action: String,
    },
}

impl Agent {
    /// Starts from the JSON of a DDL.
    pub fn builder(ddl: &str) -> Result<AgentBuilder, AgentError> {
        let ddl = AgentDdl::from_slice(ddl.as_bytes())?;
        Ok(Self::builder_from_ddl(Arc::new(ddl)))
    }

    /// Starts from a schema that others have too: many nodes in one process need it once.
    pub fn builder_from_ddl(ddl: Arc<AgentDdl>) -> AgentBuilder {
        AgentBuilder {
            ddl,
            handlers: BTreeMap::new(),
        }
    }

    /// The name, as in subjects.
    pub fn name(&self) -> &str {
        self.ddl.name()
    }

    /// The schema.
    pub fn ddl(&self) -> &Arc<AgentDdl> {
        &self.ddl
    }

    /// The code of one action.
    pub fn find_handler(&self, action: &str) -> Option<&Arc<dyn ActionHandler>> {
        self.handlers.get(action)
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// Collects an agent's actions.
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

    /// Adds an action that is known only at run time, as of an external agent.
    #[must_use]
    pub fn with_handler(mut self, name: &str, handler: Arc<dyn ActionHandler>) -> Self {
        self.handlers.insert(name.to_owned(), handler);
        self
    }

    /// Checks that schema and code name the same actions.
    pub fn build(self) -> Result<Agent, AgentError> {
        let agent = self.ddl.name().to_owned();
        for action in self.ddl.actions() {
            if !self.handlers.contains_key(action.name()) {
                return Err(AgentError::Missing {
                    agent,
                    action: action.name().to_owned(),
                });
            }
        }
        if let Some(action) = self
            .handlers
            .keys()
            .find(|name| self.ddl.find_action(name).is_none())
        {
            return Err(AgentError::Undeclared {
                agent,
                action: action.clone(),
            });
        }
        Ok(Agent {
            ddl: self.ddl,
            handlers: self.handlers,
        })
    }
}

impl fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder")
            .field("name", &self.ddl.name())
            .finish_non_exhaustive()
    }
}
