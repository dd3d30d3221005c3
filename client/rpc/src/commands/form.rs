//! Forms of results that users write themselves, `--jq` and `--template`, read before anybody is asked.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;

use muster_ddl::Action;

use crate::cli::json::Json;
use crate::exit::Exit;
use crate::printer::OutputError;
use crate::render::jq::{Jq, JqError};
use crate::render::template::{self, Template, TemplateError};
use crate::reply_filter::{ReplyFilter, ReplyFilterError};

/// Why a form cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FormError {
    /// The expression of `--jq`.
    #[error("--jq: {source}")]
    Jq {
        /// What is wrong.
        source: JqError,
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
        source: TemplateError,
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

impl FormError {
    /// How the command ends: what is wrong from the start is wrong on the command line.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Jq {
                source: JqError::Syntax { .. } | JqError::TooLong,
            }
            | Self::Replies { .. }
            | Self::Template {
                source:
                    TemplateError::Syntax { .. }
                    | TemplateError::TooLong
                    | TemplateError::Unknown { .. },
            } => Exit::Usage,
            _ => Exit::Local,
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
pub struct JsonForm(pub Option<Jq>);

/// Why an expression's results stop.
pub enum Stopped {
    /// They cannot be written.
    Output(OutputError),
    /// There are no more.
    Jq(JqError),
}

impl From<JqError> for Stopped {
    fn from(error: JqError) -> Self {
        Self::Jq(error)
    }
}

/// What the flags want; nothing, if no document.
pub fn json(flags: &Json) -> Result<Option<JsonForm>, FormError> {
    match &flags.jq {
        Some(code) => Ok(Some(JsonForm(Some(jq(code)?)))),
        None => Ok(flags.json.then(JsonForm::default)),
    }
}

/// The expression of `--jq`.
pub fn jq(code: &str) -> Result<Jq, FormError> {
    Jq::new(code).map_err(|source| FormError::Jq { source })
}

/// The expression of `--filter-replies` over replies of this action, if it is given.
pub fn replies(text: Option<&str>, action: &Action) -> Result<Option<ReplyFilter>, FormError> {
    let filter = text.map(|text| ReplyFilter::new(text, action)).transpose();
    filter.map_err(|source| FormError::Replies { source })
}

/// The template of `--template`, which will be given values of these names: the text itself, or what is in `@FILE`.
pub fn template(text: &str, known: &[&'static str]) -> Result<Template, FormError> {
    let template = match text.strip_prefix('@') {
        None => Template::new(text, known),
        Some(path) => {
            let mut source = String::new();
            // One byte more than is allowed shows that there is more.
            File::open(path)
                .and_then(|file| {
                    let limit = template::LONGEST as u64 + 1;
                    file.take(limit).read_to_string(&mut source)
                })
                .map_err(|source| FormError::File {
                    path: path.into(),
                    source,
                })?;
            Template::new(&source, known)
        }
    };
    template.map_err(|source| FormError::Template { source })
}
