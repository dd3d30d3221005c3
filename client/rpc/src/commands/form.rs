//! Parses user-defined output forms, `--jq` and `--template`, before any request is sent.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;

use muster_ddl::ActionSchema;
use muster_request::{ReplyFilter, ReplyFilterError};

use crate::cli::json::JsonArgs;
use crate::error::CommandError;
use crate::exit::CommandExitCode;
use crate::printer::PrintError;
use crate::render::jq::{JqExpression, JqExpressionError};
use crate::render::template::{self, OutputTemplate, OutputTemplateError};

/// An output form is not valid.
#[derive(Debug, thiserror::Error)]
pub enum OutputFormError {
    /// The expression of `--jq` is not valid.
    #[error("--jq: {source}")]
    Jq {
        /// The cause.
        source: JqExpressionError,
    },
    /// The expression of `--filter-replies` is not valid.
    #[error("--filter-replies: {source}")]
    Replies {
        /// The cause.
        source: ReplyFilterError,
    },
    /// The template of `--template` is not valid.
    #[error("--template: {source}")]
    Template {
        /// The cause.
        source: OutputTemplateError,
    },
    /// The file of `--template` cannot be read.
    #[error("--template: cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
}

impl CommandError for OutputFormError {
    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::Jq { source: JqExpressionError::Syntax { .. } | JqExpressionError::TooLong }
            | Self::Replies { .. }
            | Self::Template {
                source:
                    OutputTemplateError::Syntax { .. }
                    | OutputTemplateError::TooLong
                    | OutputTemplateError::Unknown { .. },
            } => CommandExitCode::Usage,
            _ => CommandExitCode::Local,
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Jq { .. } => "write it like `--jq '.replies[].sender'`; `-j` shows the document",
            Self::Replies { .. } => {
                "write it like `--filter-replies 'ok() and data().status == \"stopped\"'`"
            }
            Self::Template { .. } => "write it like `--template '{{ sender }} {{ data.status }}'`",
            Self::File { .. } => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}

/// JSON output: the whole document, or the results of an expression.
#[derive(Debug, Default)]
pub struct JsonForm(pub Option<JqExpression>);

/// Evaluation of an expression stopped.
pub enum JqRunError {
    /// A result cannot be written.
    Output(PrintError),
    /// The expression failed.
    Jq(JqExpressionError),
}

impl From<JqExpressionError> for JqRunError {
    fn from(error: JqExpressionError) -> Self {
        Self::Jq(error)
    }
}

/// The JSON form that the flags select. `None` if they select no JSON.
pub fn parse_json_form(flags: &JsonArgs) -> Result<Option<JsonForm>, OutputFormError> {
    match &flags.jq {
        Some(code) => Ok(Some(JsonForm(Some(parse_jq(code)?)))),
        None => Ok(flags.json.then(JsonForm::default)),
    }
}

/// Parses the expression of `--jq`.
pub fn parse_jq(code: &str) -> Result<JqExpression, OutputFormError> {
    JqExpression::new(code).map_err(|source| OutputFormError::Jq { source })
}

/// Parses the expression of `--filter-replies` for replies of this action, if given.
pub fn parse_reply_filter(
    text: Option<&str>,
    action: &ActionSchema,
) -> Result<Option<ReplyFilter>, OutputFormError> {
    let filter = text.map(|text| ReplyFilter::new(text, action)).transpose();
    filter.map_err(|source| OutputFormError::Replies { source })
}

/// Parses the template of `--template`, whose variables are these names. The value is the text itself, or `@FILE`.
pub fn parse_template(
    text: &str,
    known: &[&'static str],
) -> Result<OutputTemplate, OutputFormError> {
    let template = match text.strip_prefix('@') {
        None => OutputTemplate::new(text, known),
        Some(path) => {
            let mut source = String::new();
            // Reads one byte more than the limit to detect files that are too large.
            File::open(path)
                .and_then(|file| {
                    let limit = template::MAX_TEMPLATE_BYTES as u64 + 1;
                    file.take(limit).read_to_string(&mut source)
                })
                .map_err(|source| OutputFormError::File { path: path.into(), source })?;
            OutputTemplate::new(&source, known)
        }
    };
    template.map_err(|source| OutputFormError::Template { source })
}
