//! Forms of results that users write themselves, `--jq` and `--template`, read before anybody is asked.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;

use muster_ddl::ActionSchema;

use crate::cli::json::JsonArgs;
use crate::exit::CommandExitCode;
use crate::printer::PrintError;
use crate::render::jq::{JqExpression, JqExpressionError};
use crate::render::template::{self, OutputTemplate, OutputTemplateError};
use crate::reply_filter::{ReplyFilter, ReplyFilterError};

/// Why a form cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OutputFormError {
    /// The expression of `--jq`.
    #[error("--jq: {source}")]
    Jq {
        /// What is wrong.
        source: JqExpressionError,
    },
    /// The expression of `--filter-replies`.
    #[error("--filter-replies: {source}")]
    Replies {
        /// What is wrong.
        source: ReplyFilterError,
    },
    /// The text of `--template`.
    #[error("--template: {source}")]
    Template {
        /// What is wrong.
        source: OutputTemplateError,
    },
    /// The file of `--template`.
    #[error("--template: cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
}

impl OutputFormError {
    /// How the command ends: what is wrong from the start is wrong on the command line.
    pub fn exit(&self) -> CommandExitCode {
        match self {
            Self::Jq {
                source: JqExpressionError::Syntax { .. } | JqExpressionError::TooLong,
            }
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

    /// Next steps, one line each.
    pub fn hints(&self) -> Vec<String> {
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

/// A document is wanted: all of it, or what an expression makes of it.
#[derive(Debug, Default)]
pub struct JsonForm(pub Option<JqExpression>);

/// Why an expression's results stop.
pub enum JqRunError {
    /// They cannot be written.
    Output(PrintError),
    /// There are no more.
    Jq(JqExpressionError),
}

impl From<JqExpressionError> for JqRunError {
    fn from(error: JqExpressionError) -> Self {
        Self::Jq(error)
    }
}

/// What the flags want; nothing, if no document.
pub fn parse_json_form(flags: &JsonArgs) -> Result<Option<JsonForm>, OutputFormError> {
    match &flags.jq {
        Some(code) => Ok(Some(JsonForm(Some(parse_jq(code)?)))),
        None => Ok(flags.json.then(JsonForm::default)),
    }
}

/// The expression of `--jq`.
pub fn parse_jq(code: &str) -> Result<JqExpression, OutputFormError> {
    JqExpression::new(code).map_err(|source| OutputFormError::Jq { source })
}

/// The expression of `--filter-replies` over replies of this action, if it is given.
pub fn parse_reply_filter(
    text: Option<&str>,
    action: &ActionSchema,
) -> Result<Option<ReplyFilter>, OutputFormError> {
    let filter = text.map(|text| ReplyFilter::new(text, action)).transpose();
    filter.map_err(|source| OutputFormError::Replies { source })
}

/// The template of `--template`, which will be given values of these names: the text itself, or what is in `@FILE`.
pub fn parse_template(
    text: &str,
    known: &[&'static str],
) -> Result<OutputTemplate, OutputFormError> {
    let template = match text.strip_prefix('@') {
        None => OutputTemplate::new(text, known),
        Some(path) => {
            let mut source = String::new();
            // One byte more than is allowed shows that there is more.
            File::open(path)
                .and_then(|file| {
                    let limit = template::MAX_TEMPLATE_BYTES as u64 + 1;
                    file.take(limit).read_to_string(&mut source)
                })
                .map_err(|source| OutputFormError::File {
                    path: path.into(),
                    source,
                })?;
            OutputTemplate::new(&source, known)
        }
    };
    template.map_err(|source| OutputFormError::Template { source })
}
