//! Errors of DDLs, request inputs and reply outputs.
//!
//! Errors never contain values of sensitive inputs and outputs.

use serde_json::Value;

use crate::REDACTED;
use crate::check::{MAX_TIMEOUT_SECONDS, MAX_VALIDATIONS};
use crate::parse::MAX_DDL_BYTES;
use crate::value_schema::ValueSchemaError;
use crate::violation::ValueViolation;

/// Longest part of an invalid value or name in an error, in characters.
const MAX_SHOWN_CHARS: usize = 60;

/// Why a DDL document is refused.
#[derive(Debug, thiserror::Error)]
pub enum DdlError {
    /// The document exceeds the size limit. Holds its size in bytes.
    #[error("the DDL has {0} bytes; at most {MAX_DDL_BYTES} are allowed")]
    TooLarge(usize),
    /// The document is not JSON with the layout of a DDL.
    #[error("the DDL is not a JSON document with the layout of an agent's DDL")]
    Json(#[source] serde_json::Error),
    /// The document exceeds the limit of inputs with a validation. Holds their number.
    #[error("the DDL has {0} inputs with a validation; at most {MAX_VALIDATIONS} are allowed")]
    TooManyValidations(usize),
    /// A duplicate action name.
    #[error("action `{0}` is declared twice; rename one of them")]
    DuplicateAction(String),
    /// The default action does not exist, or is declared twice with different names.
    #[error(
        "the default action `{0}` is not an action of this agent, or the DDL names two different default actions"
    )]
    DefaultAction(String),
    /// An invalid definition.
    #[error("{at}: {problem}")]
    Definition {
        /// Location in the document.
        at: String,
        /// What is wrong with it.
        #[source]
        problem: DefinitionProblem,
    },
    /// An example of a data source is invalid.
    #[error("example {number} is invalid")]
    DataExample {
        /// Its number, from 1.
        number: usize,
        /// The reason.
        source: Box<DataQueryError>,
    },
}

/// What is wrong with a definition in a DDL. Names and words are truncated.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionProblem {
    /// An invalid name.
    #[error("the name {name:?} is not {grammar}")]
    Name {
        /// The name as written.
        name: String,
        /// The expected grammar.
        grammar: &'static str,
    },
    /// An unknown keyword: a type, validator or function.
    #[error("unknown {kind} {word:?}; known are {known}")]
    Unknown {
        /// The kind of keyword.
        kind: &'static str,
        /// The keyword as written.
        word: String,
        /// The valid keywords.
        known: String,
    },
    /// A regular expression does not compile.
    #[error("the validation pattern {pattern:?} is not a regular expression")]
    Pattern {
        /// The pattern as written.
        pattern: String,
        /// The compiler's error.
        source: Box<regex::Error>,
    },
    /// A default violates its own definition.
    #[error("the default {0}")]
    Default(ValueViolation),
    /// An invalid path.
    #[error("{path:?} is not {expected}")]
    Path {
        /// The path as written.
        path: String,
        /// What was expected.
        expected: &'static str,
    },
    /// An input of type `list` has no choices.
    #[error("an input of type list needs a `list` of at least one choice")]
    NoChoices,
    /// The class of an action contradicts its other keys, or needs another key.
    #[error("the class `{0}` {1}")]
    Class(&'static str, &'static str),
    /// The inputs of a resource are not declared as required.
    #[error("{0}")]
    Resource(&'static str),
    /// The timeout, in seconds, is zero or longer than a day.
    #[error("a timeout of {0} seconds is not between 1 and {MAX_TIMEOUT_SECONDS}")]
    Timeout(u64),
    /// An aggregate function has invalid arguments.
    #[error("aggregate `{0}` {1}")]
    Aggregate(&'static str, String),
    /// The schema of what is inside a value is invalid.
    #[error("the schema {0}")]
    Schema(#[from] ValueSchemaError),
    /// The request of an example is invalid.
    #[error("the example's input is invalid")]
    ExampleInput(#[source] Box<InputValidationError>),
    /// The reply of an example is invalid.
    #[error("the example's output is invalid")]
    ExampleOutput(#[from] Box<OutputValidationError>),
}

impl DefinitionProblem {
    /// The conversion to the error of a definition at a location.
    pub(crate) fn located(at: &str) -> impl Fn(Self) -> DdlError + Copy {
        move |problem| DdlError::Definition { at: at.to_owned(), problem }
    }
}

/// Why a query of a data source or its answer is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DataQueryError {
    /// The required query is missing.
    #[error("{source_name} requires {prompt} as its query")]
    Missing {
        /// The data source.
        source_name: String,
        /// The description of the query.
        prompt: String,
    },
    /// The source takes no query, but one was given.
    #[error("{0} takes no query")]
    Unexpected(String),
    /// The query fails its validation.
    #[error("the query {query:?} of {source_name} {violation}")]
    Invalid {
        /// The data source.
        source_name: String,
        /// The query, truncated.
        query: String,
        /// The violation.
        violation: ValueViolation,
    },
    /// An output that the DDL does not declare.
    #[error("{source_name} returned the output {output:?}, which its DDL does not declare")]
    Undeclared {
        /// The data source.
        source_name: String,
        /// The name in the answer, truncated.
        output: String,
    },
    /// An output of the wrong type.
    #[error("output `{output}` of {source_name} {violation}, but is {value}")]
    Output {
        /// The data source.
        source_name: String,
        /// The output.
        output: String,
        /// The value, truncated.
        value: String,
        /// The violation.
        violation: ValueViolation,
    },
}

impl DataQueryError {
    /// Whether data is missing (status 3) rather than invalid (status 4).
    pub const fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. })
    }
}

/// Why the inputs of a request are refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InputValidationError {
    /// A required input is missing.
    #[error("action `{action}` requires the input `{input}`; give {input}=VALUE")]
    Missing {
        /// The action.
        action: String,
        /// The input.
        input: String,
    },
    /// An undeclared input.
    #[error("action `{action}` has no input {input:?}; {hint}")]
    Undeclared {
        /// The action.
        action: String,
        /// The name as given, truncated.
        input: String,
        /// The most similar declared name, or all of them.
        hint: String,
    },
    /// A duplicate input that is not a list.
    #[error("input {input:?} of action `{action}` is given twice; only lists can be repeated")]
    Repeated {
        /// The action.
        action: String,
        /// The name as given, truncated.
        input: String,
    },
    /// A name that resembles that of a built-in resource type.
    #[error("there is no built-in resource type `{type_name}`; did you mean `{nearest}`?")]
    UnknownResourceType {
        /// The name as given, truncated.
        type_name: String,
        /// The most similar built-in type.
        nearest: String,
    },
    /// An attribute that a built-in resource type does not have.
    #[error("`{attribute}` is not a property of `{type_name}`; {hint}")]
    UnknownAttribute {
        /// The resource type.
        type_name: String,
        /// The name as given, truncated.
        attribute: String,
        /// The most similar attribute, or all of them.
        hint: String,
    },
    /// A value that a built-in resource type refuses.
    #[error("`{attribute}` of `{type_name}` {violation}, but is {value}")]
    InvalidAttribute {
        /// The resource type.
        type_name: String,
        /// The attribute.
        attribute: String,
        /// The value, truncated; `[redacted]` if it is sensitive.
        value: String,
        /// The violation.
        violation: ValueViolation,
    },
    /// A value of the wrong type, or one that fails its validation.
    #[error("input `{input}` of action `{action}` {violation}, but is {value}")]
    Invalid {
        /// The action.
        action: String,
        /// The input.
        input: String,
        /// The value, truncated; `[redacted]` if it is sensitive.
        value: String,
        /// The violation.
        violation: ValueViolation,
    },
}

impl InputValidationError {
    /// Whether data is missing (status 3) rather than invalid (status 4).
    pub const fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. })
    }

    /// Whether only the caller's knowledge of the built-in resource types refuses the inputs: a node of another version, or with types of its own,
    /// could accept them.
    pub const fn is_about_attributes(&self) -> bool {
        matches!(
            self,
            Self::UnknownResourceType { .. }
                | Self::UnknownAttribute { .. }
                | Self::InvalidAttribute { .. }
        )
    }
}

/// Why the outputs of a reply are refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OutputValidationError {
    /// An output that the DDL does not declare.
    #[error("action `{action}` returned the output {output:?}, which its DDL does not declare")]
    Undeclared {
        /// The action.
        action: String,
        /// The name in the reply, truncated.
        output: String,
    },
    /// A value of the wrong type.
    #[error("output `{output}` of action `{action}` {violation}, but is {value}")]
    Invalid {
        /// The action.
        action: String,
        /// The output.
        output: String,
        /// The value, truncated; `[redacted]` if it is sensitive.
        value: String,
        /// The violation.
        violation: ValueViolation,
    },
}

/// The form of `value` for error messages.
pub(crate) fn shown_value(value: &Value, sensitive: bool) -> String {
    if sensitive { REDACTED.to_owned() } else { truncate_text(&value.to_string()) }
}

/// `text`, truncated for a message.
pub(crate) fn truncate_text(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
