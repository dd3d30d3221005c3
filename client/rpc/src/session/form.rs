//! Parses user-defined output forms, `--jq` and `--template`, before any request is sent.

use std::fs::File;
use std::io;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use muster_client::{ReplyFilter, ReplyFilterError};
use muster_ddl::ActionSchema;
use muster_display::evaluation_limit::EvaluationError;
use muster_display::jq::{JqExpression, JqExpressionError};
use muster_display::printer::{OutputPrinter, PrintError};
use muster_display::template::{OutputTemplate, OutputTemplateError};
use muster_display::{count_text, template};

use crate::flags::json::JsonArgs;
use crate::outcome::error::CommandError;
use crate::outcome::exit::CommandExitCode;

/// An output form is not valid, or its evaluation failed.
#[derive(Debug, thiserror::Error)]
pub enum OutputFormError {
    #[error("--jq: {0}")]
    Jq(#[from] JqExpressionError),
    #[error("--filter-replies: {0}")]
    Replies(#[from] ReplyFilterError),
    #[error("--template: {0}")]
    Template(#[from] OutputTemplateError),
    #[error("-o and {0} select two different forms of the output")]
    TwoForms(&'static str),
    #[error("-o jsonpath: {0}")]
    JsonPath(#[source] EvaluationError),
    #[error("--template: could not render {}", count_text(*.0, "reply", "replies"))]
    Unrendered(usize),
    #[error("--template: cannot read {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot write YAML")]
    Yaml(#[source] serde_saphyr::ser::Error),
    #[error(transparent)]
    Print(#[from] PrintError),
}

impl CommandError for OutputFormError {
    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::Jq(JqExpressionError::Syntax { .. } | JqExpressionError::TooLong)
            | Self::Replies(_)
            | Self::TwoForms(_)
            | Self::Template(
                OutputTemplateError::Syntax { .. }
                | OutputTemplateError::TooLong
                | OutputTemplateError::Unknown { .. }
                | OutputTemplateError::UnknownField { .. },
            ) => CommandExitCode::Usage,
            Self::Print(error) => error.exit_code(),
            _ => CommandExitCode::Local,
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Jq(_) => "write it like `--jq '.replies[].sender'`; `-j` shows the document",
            Self::Replies(_) => {
                "write it like `--filter-replies 'ok() and data().status == \"stopped\"'`"
            }
            Self::Template(_) => "write it like `--template '{{ sender }} {{ data.status }}'`",
            Self::TwoForms(_) => "use one of them",
            Self::JsonPath(_)
            | Self::File { .. }
            | Self::Unrendered(_)
            | Self::Yaml(_)
            | Self::Print(_) => {
                return Vec::new();
            }
        };
        vec![hint.to_owned()]
    }
}

/// JSON output: the whole document, or the results of an expression.
#[derive(Debug, Default)]
pub struct JsonForm(pub Option<JqExpression>);

impl JsonArgs {
    /// `None` if the flags select no JSON.
    pub fn form(&self) -> Result<Option<JsonForm>, OutputFormError> {
        match &self.jq {
            Some(code) => Ok(Some(JsonForm(Some(JqExpression::new(code)?)))),
            None => Ok(self.json.then(JsonForm::default)),
        }
    }
}

pub fn parse_reply_filter(
    text: Option<&str>,
    action: &ActionSchema,
) -> Result<Option<ReplyFilter>, OutputFormError> {
    Ok(text.map(|text| ReplyFilter::new(text, action)).transpose()?)
}

/// Parses the template of `--template`, whose variables are these names. The value is the text itself, or `@FILE`.
pub fn parse_template(
    text: &str,
    known: &[&'static str],
) -> Result<OutputTemplate, OutputFormError> {
    let Some(path) = text.strip_prefix('@') else {
        return Ok(OutputTemplate::new(text, known)?);
    };
    // Reads one byte more than the limit to detect files that are too large.
    let limit = template::MAX_TEMPLATE_BYTES as u64 + 1;
    let source = File::open(path)
        .and_then(|file| muster_files::read_limited_text(file, limit))
        .map_err(|source| OutputFormError::File { path: path.into(), source })?;
    Ok(OutputTemplate::new(&source, known)?)
}

/// Asks a question on the terminal. Only an explicit yes counts; `None` without a terminal.
pub fn confirm_on_terminal(
    question: impl std::fmt::Display,
    printer: &OutputPrinter,
) -> Option<bool> {
    if !io::stdin().is_terminal() {
        return None;
    }
    printer.print_question(question);
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    Some(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}
