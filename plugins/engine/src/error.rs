//! Errors of the engine.

use std::fmt::Display;

use muster_base::{error_chain, with_causes};
use muster_system::{SystemError, SystemResult};

use crate::resource::Resource;

pub type Result<T, E = EngineError> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("there is no resource type `{name}`{}", suggestion_hint(suggestion.as_ref()))]
    UnknownType {
        name: String,
        /// The closest known name.
        suggestion: Option<String>,
    },
    #[error("{resource} has no property or parameter `{name}`{}", suggestion_hint(suggestion.as_ref()))]
    UnknownAttribute {
        /// `User[rip]`.
        resource: String,
        name: String,
        /// The closest known name.
        suggestion: Option<String>,
    },
    #[error("{resource} needs `{name}`")]
    Missing {
        /// `Exec[x]`.
        resource: String,
        name: &'static str,
    },
    /// A value that the type rejects.
    #[error("{resource}: `{name}` {problem}")]
    Invalid {
        /// `User[rip]`.
        resource: String,
        /// The property or parameter.
        name: String,
        /// The problem and the accepted values; includes the value unless it is sensitive.
        problem: String,
    },
    /// A system call failed while reading or changing the machine.
    #[error("{resource}: {operation}")]
    System {
        /// `User[rip]`.
        resource: String,
        operation: String,
        #[source]
        source: SystemError,
    },
    /// A type from the type source rejected the resource.
    #[error("{resource}: {problem}")]
    Refused {
        /// `Augeas[hosts]`.
        resource: String,
        /// Message of the type's provider.
        problem: String,
    },
    #[error("the type `{name}` is not built in, and {problem}")]
    Unavailable {
        /// The type.
        name: String,
        /// Why no source is available, and the remedy.
        problem: String,
    },
    /// A read-only engine does not evaluate the resource, because that would start a program chosen by the caller.
    #[error("{resource}: {problem}")]
    NotEvaluated {
        /// `Augeas[hosts]`.
        resource: String,
        /// The program that would have to run.
        problem: String,
    },
    /// A tool failed, or the machine lacks something that the type requires.
    #[error("{resource}: {problem}")]
    Failed {
        /// `Package[unix2dos]`.
        resource: String,
        /// What was attempted, the result, and the remedy.
        problem: String,
    },
}

impl EngineError {
    pub fn invalid_value(resource: &Resource, name: &str, problem: impl Into<String>) -> Self {
        Self::Invalid {
            resource: resource.reference(),
            name: name.to_owned(),
            problem: problem.into(),
        }
    }

    pub fn failed(resource: &Resource, problem: impl Into<String>) -> Self {
        Self::Failed { resource: resource.reference(), problem: problem.into() }
    }

    pub fn system(resource: &Resource, operation: impl Display, source: SystemError) -> Self {
        Self::System { resource: resource.reference(), operation: operation.to_string(), source }
    }

    /// The message without the resource's name, including causes; used as the end of an event message.
    pub fn reason(&self) -> String {
        let message = match self {
            Self::System { operation, .. } => operation.clone(),
            Self::Failed { problem, .. }
            | Self::Refused { problem, .. }
            | Self::NotEvaluated { problem, .. } => problem.clone(),
            other => other.to_string(),
        };
        with_causes(message, self)
    }

    /// The whole message on one line, including causes.
    pub fn one_line_message(&self) -> String {
        error_chain(self)
    }

    /// Whether a read-only engine skipped the resource, as opposed to a failure on the machine.
    pub fn is_not_evaluated(&self) -> bool {
        matches!(
            self,
            Self::NotEvaluated { .. } | Self::System { source: SystemError::NotAllowed { .. }, .. }
        )
    }

    /// Whether the request itself is invalid: nothing was changed, and a retry cannot succeed.
    pub fn is_invalid(&self) -> bool {
        !matches!(self, Self::System { .. } | Self::NotEvaluated { .. } | Self::Failed { .. })
    }
}

/// Adds the resource and the operation to the error of a call on the machine.
pub(crate) trait DescribeOperation<T> {
    /// The operation is displayed only after an error.
    fn during(self, resource: &Resource, operation: impl Display) -> Result<T>;
}

impl<T> DescribeOperation<T> for SystemResult<T> {
    fn during(self, resource: &Resource, operation: impl Display) -> Result<T> {
        self.map_err(|source| EngineError::system(resource, operation, source))
    }
}

fn suggestion_hint(suggestion: Option<&String>) -> String {
    suggestion.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}
