//! Why a DDL, the inputs of a request or the outputs of a reply were refused.
//!
//! The values of sensitive inputs and outputs are never part of an error.

use serde_json::Value;

use crate::REDACTED;
use crate::validate::{InvalidPattern, ValueViolation};

/// Characters of a refused value or name that an error repeats.
const MAX_SHOWN_CHARS: usize = 60;

/// Why a DDL document was refused.
#[derive(Debug, thiserror::Error)]
pub enum DdlError {
    /// The document is larger than any honest one.
    #[error("the ddl has {size} bytes, more than the {limit} allowed")]
    TooLarge {
        /// Bytes in the document.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The document is not JSON, or not in the layout of a DDL.
    #[error("the ddl is not a JSON document in the layout of an agent's ddl")]
    Json(#[source] serde_json::Error),
    /// A name does not follow the grammar.
    #[error("{at}: the name {name:?} is not {grammar}")]
    Name {
        /// Where in the document.
        at: String,
        /// The name as written, shortened.
        name: String,
        /// What names look like there.
        grammar: &'static str,
    },
    /// More validations than any honest document has.
    #[error("the ddl has {count} inputs with a validation, more than the {limit} allowed")]
    TooManyValidations {
        /// Inputs with a validation.
        count: usize,
        /// How many are allowed.
        limit: usize,
    },
    /// Two actions have the same name.
    #[error("action `{name}` is declared twice; rename one of them")]
    DuplicateAction {
        /// The name.
        name: String,
    },
    /// A word that is none of those known in its place: a type, validator or function.
    #[error("{at}: unknown {what} {word:?}; known are {known}")]
    Unknown {
        /// Where in the document.
        at: String,
        /// What kind of word.
        what: &'static str,
        /// The word, shortened.
        word: String,
        /// The words that would do.
        known: String,
    },
    /// A regular expression does not compile.
    #[error("{at}: the validation pattern {pattern:?} is not a regular expression")]
    Pattern {
        /// Where in the document.
        at: String,
        /// The pattern, shortened.
        pattern: String,
        /// What the compiler says.
        #[source]
        source: InvalidPattern,
    },
    /// A default does not satisfy its own definition.
    #[error("{at}: the default {violation}")]
    Default {
        /// Where in the document.
        at: String,
        /// What the definition demands.
        violation: ValueViolation,
    },
    /// A path that cannot be used.
    #[error("{at}: {path:?} is not {expected}")]
    Path {
        /// Where in the document.
        at: String,
        /// The path as written, shortened.
        path: String,
        /// What is wanted there.
        expected: &'static str,
    },
    /// An input of type `list` has nothing to choose from.
    #[error("{at}: an input of type list needs a `list` of at least one choice")]
    NoChoices {
        /// Where in the document.
        at: String,
    },
    /// The class of an action contradicts its other keys.
    #[error("{at}: the class `{class}` {problem}")]
    Class {
        /// Where in the document.
        at: String,
        /// The class.
        class: &'static str,
        /// What it contradicts or needs.
        problem: &'static str,
    },
    /// The time limit is zero or longer than a day.
    #[error("{at}: a timeout of {seconds} seconds is not between 1 and {limit}")]
    Timeout {
        /// Where in the document.
        at: String,
        /// The limit as written.
        seconds: u64,
        /// The longest allowed.
        limit: u64,
    },
    /// An aggregate that cannot be computed.
    #[error("{at}: aggregate `{function}` {problem}")]
    Aggregate {
        /// Where in the document.
        at: String,
        /// The function.
        function: String,
        /// What is wrong with its arguments.
        problem: String,
    },
    /// The default action is none of the actions, or is named twice and differently.
    #[error("the default action `{name}` is not an action of this agent or is contradicted")]
    DefaultAction {
        /// The name as written, shortened.
        name: String,
    },
    /// An example of a data source would be refused.
    #[error("example {number} would be refused")]
    DataExample {
        /// Which one, from 1.
        number: usize,
        /// Why.
        source: Box<DataQueryError>,
    },
    /// The request of an example would be refused.
    #[error("{at}: the example's input would be refused")]
    ExampleInput {
        /// Where in the document.
        at: String,
        /// Why.
        #[source]
        source: Box<InputValidationError>,
    },
    /// The reply of an example would be refused.
    #[error("{at}: the example's output would be refused")]
    ExampleOutput {
        /// Where in the document.
        at: String,
        /// Why.
        #[source]
        source: Box<OutputValidationError>,
    },
}

/// Why a data source was not asked, or its answer was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DataQueryError {
    /// It was asked for nothing, and needs to be.
    #[error("{source_name} needs {prompt} as its query")]
    Missing {
        /// The data source.
        source_name: String,
        /// What its query is.
        prompt: String,
    },
    /// It was asked for something, and takes no query.
    #[error("{source_name} takes no query")]
    Needless {
        /// The data source.
        source_name: String,
    },
    /// Its validation refuses the query.
    #[error("the query {query:?} of {source_name} {violation}")]
    Invalid {
        /// The data source.
        source_name: String,
        /// The query, shortened.
        query: String,
        /// What the definition demands.
        violation: ValueViolation,
    },
    /// An output that the DDL does not declare.
    #[error("{source_name} answered with {output:?}, which its ddl does not declare")]
    Undeclared {
        /// The data source.
        source_name: String,
        /// The name as answered, shortened.
        output: String,
    },
    /// An output of the wrong type.
    #[error("output `{output}` of {source_name} {violation}, and is {value}")]
    Output {
        /// The data source.
        source_name: String,
        /// The output.
        output: String,
        /// The value, shortened.
        value: String,
        /// What the definition demands.
        violation: ValueViolation,
    },
}

impl DataQueryError {
    /// Whether data is missing (status 3) rather than invalid (status 4).
    pub const fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. })
    }
}

/// Why the inputs of a request were refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InputValidationError {
    /// An input that is not optional was not given.
    #[error("action `{action}` needs the input `{input}`; give {input}=VALUE")]
    Missing {
        /// The action.
        action: String,
        /// The input.
        input: String,
    },
    /// An input that the action does not know.
    #[error("action `{action}` has no input {input:?}; {hint}")]
    Undeclared {
        /// The action.
        action: String,
        /// The name as given, shortened.
        input: String,
        /// The nearest declared name, or all of them.
        hint: String,
    },
    /// The same input was given twice.
    #[error("input {input:?} of action `{action}` is given twice; give it once")]
    Repeated {
        /// The action.
        action: String,
        /// The name as given, shortened.
        input: String,
    },
    /// A value of the wrong type, or one that its validation refuses.
    #[error("input `{input}` of action `{action}` {violation}, and is {value}")]
    Invalid {
        /// The action.
        action: String,
        /// The input.
        input: String,
        /// The value, shortened; `[redacted]` when it is sensitive.
        value: String,
        /// What the definition demands.
        violation: ValueViolation,
    },
}

impl InputValidationError {
    /// Whether data is missing (status 3) rather than invalid (status 4).
    pub const fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. })
    }
}

/// Why the outputs of a reply were refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OutputValidationError {
    /// An output that the DDL does not declare.
    #[error("action `{action}` answered with {output:?}, which its ddl does not declare")]
    Undeclared {
        /// The action.
        action: String,
        /// The name as answered, shortened.
        output: String,
    },
    /// A value of the wrong type.
    #[error("output `{output}` of action `{action}` {violation}, and is {value}")]
    Invalid {
        /// The action.
        action: String,
        /// The output.
        output: String,
        /// The value, shortened; `[redacted]` when it is sensitive.
        value: String,
        /// What the definition demands.
        violation: ValueViolation,
    },
}

/// `value` as an error may show it.
pub(crate) fn shown_value(value: &Value, sensitive: bool) -> String {
    if sensitive {
        REDACTED.to_owned()
    } else {
        truncate_text(&value.to_string())
    }
}

/// `text` cut to a length that suits a message.
pub(crate) fn truncate_text(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
