//! What can go wrong before, while and after a resource is brought to its state.

use muster_system::SystemError;
use muster_system::error::{error_chain, with_causes};

use crate::resource::Resource;

/// A failure of the engine, with the resource and the value it concerns.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No type of that name.
    #[error("there is no resource type `{name}`{}", suggestion_hint(suggestion.as_ref()))]
    UnknownType {
        /// What was asked for.
        name: String,
        /// The nearest name.
        suggestion: Option<String>,
    },
    /// The type has no such property or parameter.
    #[error("{resource} has no property or parameter `{name}`{}", suggestion_hint(suggestion.as_ref()))]
    UnknownAttribute {
        /// `User[rip]`.
        resource: String,
        /// What was given.
        name: String,
        /// The nearest name.
        suggestion: Option<String>,
    },
    /// A required value is missing.
    #[error("{resource} needs `{name}`")]
    Missing {
        /// `Exec[x]`.
        resource: String,
        /// What is needed.
        name: &'static str,
    },
    /// A value that the type does not accept.
    #[error("{resource}: `{name}` {problem}")]
    Invalid {
        /// `User[rip]`.
        resource: String,
        /// The property or parameter.
        name: String,
        /// What is wrong with it and what is accepted; shows the value unless it is sensitive.
        problem: String,
    },
    /// The machine would not let itself be read or changed.
    #[error("{resource}: {doing}")]
    System {
        /// `User[rip]`.
        resource: String,
        /// What was being done.
        doing: String,
        /// The machine's word.
        #[source]
        source: SystemError,
    },
    /// A type that is not the engine's own does not take the resource.
    #[error("{resource}: {problem}")]
    Refused {
        /// `Augeas[hosts]`.
        resource: String,
        /// In the words of whoever knows the type.
        problem: String,
    },
    /// A type that is not the engine's own, and whoever might know it cannot be asked.
    #[error("the type `{name}` is not one of the engine's own, and {problem}")]
    Unavailable {
        /// The type.
        name: String,
        /// Why nobody can be asked, and what to do.
        problem: String,
    },
    /// A plan for a remote caller does not look at the resource: that would start a program of the caller's choosing.
    #[error("{resource}: {problem}")]
    NotEvaluated {
        /// `Augeas[hosts]`.
        resource: String,
        /// What would have to be run.
        problem: String,
    },
    /// A tool ran and said no, or the machine lacks what the type needs.
    #[error("{resource}: {problem}")]
    Failed {
        /// `Package[unix2dos]`.
        resource: String,
        /// What was tried, what came back, what to do.
        problem: String,
    },
}

impl EngineError {
    /// A value that the type does not accept.
    pub fn invalid_value(resource: &Resource, name: &str, problem: impl Into<String>) -> Self {
        Self::Invalid {
            resource: resource.reference(),
            name: name.to_owned(),
            problem: problem.into(),
        }
    }

    /// A tool said no, or the machine lacks something.
    pub fn failed(resource: &Resource, problem: impl Into<String>) -> Self {
        Self::Failed {
            resource: resource.reference(),
            problem: problem.into(),
        }
    }

    /// For `map_err`: the machine's failure while doing something.
    pub fn during(
        resource: &Resource,
        doing: impl Into<String>,
    ) -> impl FnOnce(SystemError) -> Self {
        let (resource, doing) = (resource.reference(), doing.into());
        move |source| Self::System {
            resource,
            doing,
            source,
        }
    }

    /// What went wrong without the resource's name, causes included: the end of an event's message.
    pub fn reason(&self) -> String {
        let words = match self {
            Self::System { doing, .. } => doing.clone(),
            Self::Failed { problem, .. }
            | Self::Refused { problem, .. }
            | Self::NotEvaluated { problem, .. } => problem.clone(),
            other => other.to_string(),
        };
        with_causes(words, self)
    }

    /// The whole message in one line, causes included.
    pub fn one_line_message(&self) -> String {
        error_chain(self)
    }

    /// Whether the resource was left unevaluated by a read-only engine, rather than refused by the machine.
    pub fn is_not_evaluated(&self) -> bool {
        matches!(
            self,
            Self::NotEvaluated { .. }
                | Self::System {
                    source: SystemError::NotAllowed { .. },
                    ..
                }
        )
    }

    /// Whether the request was wrong, rather than the machine: nothing was changed, and asking again is no use.
    pub fn is_invalid(&self) -> bool {
        matches!(
            self,
            Self::UnknownType { .. }
                | Self::UnknownAttribute { .. }
                | Self::Missing { .. }
                | Self::Invalid { .. }
                | Self::Refused { .. }
                | Self::Unavailable { .. }
        )
    }
}

fn suggestion_hint(suggestion: Option<&String>) -> String {
    suggestion.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}
