//! The forms in which a request prints its replies, and a command that prints in one of them.

use std::fs::File;

use muster_ddl::ActionSchema;
use muster_display::jq::JqExpression;
use muster_display::json;
use muster_display::printer::PrintError;
use muster_display::screen::Screen;
use muster_display::template::OutputTemplate;

use crate::flags::output::OutputArgs as Flags;
use crate::outcome::diagnostics;
use crate::outcome::error::ResultWriteError;
use crate::report::command_output_printer::CommandOutputPrinter;
use crate::report::jsonl::RequestJsonLine;
use crate::report::progress::ProgressReporter;
use crate::report::template_values::REPLY_TEMPLATE_NAMES;
use crate::session::context::{CommandContext, Error, Result};
use crate::session::form;
use crate::session::form::{JsonForm, OutputFormError};

#[derive(Debug)]
pub enum RequestOutputForm {
    /// Pages for people.
    Text,
    /// Pages for people, with equal replies grouped.
    Groups,
    /// A table with a row per node.
    Table,
    /// One JSON document at the end.
    Document(JsonForm),
    /// One line of JSON per event.
    Lines,
    /// Names of the nodes that succeeded.
    Senders,
    /// The user's template, rendered for each reply.
    Template(Box<OutputTemplate>),
    /// The output of command lines.
    Command(CommandOutputPrinter),
}

impl RequestOutputForm {
    /// Checks that a template uses only outputs of this action.
    pub fn check_outputs(&self, action: &ActionSchema) -> Result<(), OutputFormError> {
        let Self::Template(template) = self else { return Ok(()) };
        let outputs = action.outputs().iter().map(|output| output.name.as_str());
        Ok(template.check_fields("data", &outputs.collect::<Vec<_>>())?)
    }

    pub fn from_flags(flags: &Flags) -> Result<Self, OutputFormError> {
        Ok(match flags {
            Flags { jq: Some(code), .. } => {
                Self::Document(JsonForm(Some(JqExpression::new(code)?)))
            }
            Flags { json: true, .. } => Self::Document(JsonForm::default()),
            Flags { jsonl: true, .. } => Self::Lines,
            Flags { senders: true, .. } => Self::Senders,
            Flags { table: true, .. } => Self::Table,
            Flags { group: true, .. } => Self::Groups,
            Flags { template: Some(text), .. } => {
                Self::Template(Box::new(form::parse_template(text, &REPLY_TEMPLATE_NAMES)?))
            }
            Flags { command_output: Some(mode), .. } => {
                Self::Command(CommandOutputPrinter::new(*mode))
            }
            _ => Self::Text,
        })
    }

    /// Whether the form shows progress before the reply.
    pub fn shows_progress(&self) -> bool {
        match self {
            Self::Command(command) => command.shows_progress(),
            form => matches!(form, Self::Text | Self::Lines),
        }
    }

    pub fn is_json(&self) -> bool {
        matches!(self, Self::Document(_) | Self::Lines)
    }

    /// Whether the form is for people, who may want more than the results.
    pub fn is_human_readable(&self) -> bool {
        matches!(self, Self::Text | Self::Groups | Self::Table)
    }

    pub fn waits_for_all(&self) -> bool {
        match self {
            Self::Command(command) => command.waits_for_all(),
            form => matches!(form, Self::Document(_) | Self::Table | Self::Groups),
        }
    }

    /// Shows the progress of a request with this output.
    pub fn progress_reporter<'a>(
        &self,
        flags: &Flags,
        cx: CommandContext<'a>,
    ) -> ProgressReporter<'a> {
        ProgressReporter::new(cx.printer, !self.is_json() && !flags.no_progress)
    }

    /// Whether output is held back for a time.
    pub fn holds_lines(&self) -> bool {
        matches!(self, Self::Command(_))
    }
}

/// Runs a command with the output form of the flags, and prints its error in that form.
pub async fn run_with_form<T>(
    flags: &Flags,
    cx: CommandContext<'_>,
    command: impl AsyncFnOnce(&RequestOutputForm) -> Result<T>,
) -> Result<T> {
    let mut flags = flags.clone();
    if flags.apply_output().map_err(OutputFormError::TwoForms)? {
        cx.printer.print_warning(
            "`-o FILE` is deprecated, because -o is the form of the output; use `--output-file FILE`",
        );
    }
    if let Some(path) = &flags.file {
        // Truncates the file. Its data has no colours.
        let file =
            File::create(path).map_err(|source| ResultWriteError::File(path.clone(), source))?;
        let screen = Screen::for_file(cx.environment.columns);
        cx.printer.redirect_data(Box::new(file), screen);
    }
    let form = RequestOutputForm::from_flags(&flags)?;
    let result = command(&form).await;
    if let (RequestOutputForm::Lines, Err(error)) = (&form, &result) {
        print_error(error, cx)?;
    }
    result
}

/// Prints the error of the command in the JSON lines form. Does nothing if the output is closed.
fn print_error(error: &Error, cx: CommandContext<'_>) -> Result<(), PrintError> {
    if error.downcast_ref::<PrintError>().is_some() {
        return Ok(());
    }
    let error = anstream::adapter::strip_str(&diagnostics::error_text(error)).to_string();
    cx.printer.print_line(json::to_safe_line(&RequestJsonLine::Error { error })?)
}
