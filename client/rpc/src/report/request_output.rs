//! Prints discovery, replies and the result of a request in the selected form.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};

use muster_client::{FleetRequestUpdate, NodeReply, ReplyFilter, RequestReport, TargetSelection};
use muster_ddl::ActionSchema;
use muster_display::jq::JqExpression;
use muster_display::json;
use muster_display::printer::PrintError;
use muster_display::screen::Screen;
use muster_display::template::{OutputTemplate, OutputTemplateError};
use muster_wire::identity::Identity;

use crate::flags::output::OutputArgs as Flags;
use crate::outcome::diagnostics::error_text;
use crate::outcome::error::ResultWriteError;
use crate::report::command_output_printer::CommandOutputPrinter;
use crate::report::documents::{RequestDocument, RolloutStopDocument};
use crate::report::group::group_equal_replies;
use crate::report::jsonl::RequestJsonLine;
use crate::report::progress_lines;
use crate::report::request::{RequestResultView, balance_line};
use crate::report::template_values::{REPLY_TEMPLATE_NAMES, ReplyTemplateValues};
use crate::session::context::{CommandContext, CommandResult, Error, Result};
use crate::session::form;
use crate::session::form::{JsonForm, OutputFormError};

/// Least number of nodes with equal replies for which grouping is suggested.
const MIN_FOLDED_NODES: usize = 3;

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

    fn waits_for_all(&self) -> bool {
        match self {
            Self::Command(command) => command.waits_for_all(),
            form => matches!(form, Self::Document(_) | Self::Table | Self::Groups),
        }
    }

    /// Whether output is held back for a time.
    pub fn holds_lines(&self) -> bool {
        matches!(self, Self::Command(_))
    }
}

#[derive(Debug)]
pub struct RequestOutput<'a> {
    pub form: &'a RequestOutputForm,
    /// Filter for replies; `None` accepts all.
    pub filter: Option<ReplyFilter>,
    /// Whether replies are held back until all have arrived, and sorted by node.
    pub sort: bool,
    pub view: RequestResultView<'a>,
    pub cx: CommandContext<'a>,
    /// Number of replies that the template could not be rendered for.
    unrendered: AtomicUsize,
}

impl<'a> RequestOutput<'a> {
    pub fn new(
        form: &'a RequestOutputForm,
        filter: Option<ReplyFilter>,
        flags: &Flags,
        action: &'a ActionSchema,
        cx: CommandContext<'a>,
    ) -> Self {
        let (display, verbose, width) = (flags.display, cx.is_verbose(), cx.width());
        let view = RequestResultView { action, display, verbose, noop: false, width };
        Self { form, filter, sort: flags.sort, view, cx, unrendered: AtomicUsize::new(0) }
    }

    /// The same settings for a request that only reports what would change, or for an ordinary one.
    #[must_use]
    pub fn with_noop(mut self, noop: bool) -> Self {
        self.view.noop = noop;
        self
    }

    /// Prints the nodes that will be asked, and the job that stores the request.
    pub fn print_found(
        &self,
        (agent, action): (&str, &str),
        nodes: &BTreeSet<Identity>,
        job: Option<&str>,
    ) -> Result<(), PrintError> {
        if let RequestOutputForm::Lines = self.form {
            self.print_line(&RequestJsonLine::discovered(agent, action, nodes))?;
            if let Some(id) = job {
                self.print_line(&RequestJsonLine::Job { id })?;
            }
        }
        Ok(())
    }

    /// Prints an event at once.
    pub fn print_news(&self, update: FleetRequestUpdate<'_>) -> Result<()> {
        match (update, self.form) {
            (FleetRequestUpdate::Reply(reply), form) => {
                let is_folded = matches!(form, RequestOutputForm::Text) && !reply.is_ok();
                let is_held_back =
                    self.sort || is_folded || form.waits_for_all() || !self.accepts_reply(reply);
                if is_held_back { Ok(()) } else { self.print_reply(reply) }
            }
            (FleetRequestUpdate::Progress(progress_update), RequestOutputForm::Text) => Ok(self
                .cx
                .printer
                .print_text(progress_lines::render_progress_update(progress_update))?),
            (FleetRequestUpdate::Progress(progress_update), RequestOutputForm::Lines) => {
                Ok(RequestJsonLine::progress_lines(progress_update)
                    .try_for_each(|line| self.print_line(&line))?)
            }
            (FleetRequestUpdate::Batch { number, count, nodes }, RequestOutputForm::Lines) => {
                Ok(self.print_line(&RequestJsonLine::Wave { number, count, nodes })?)
            }
            (FleetRequestUpdate::Stopped { reason, job }, RequestOutputForm::Lines) => {
                let stop = RolloutStopDocument::new(reason);
                Ok(self.print_line(&RequestJsonLine::Stopped { stop, job })?)
            }
            (
                FleetRequestUpdate::Progress(progress_update),
                RequestOutputForm::Command(command),
            ) => Ok(command.handle_progress(progress_update, self.cx)?),
            _ => Ok(()),
        }
    }

    /// Prints output that was held back long enough.
    pub fn print_overdue(&self) -> Result<()> {
        match self.form {
            RequestOutputForm::Command(command) => Ok(command.print_overdue(self.cx)?),
            _ => Ok(()),
        }
    }

    /// Without a target there was no discovery.
    pub fn print_end(
        &self,
        report: &RequestReport,
        target: Option<&TargetSelection>,
    ) -> Result<()> {
        if self.sort && !self.form.waits_for_all() {
            let is_folded =
                |reply: &NodeReply| matches!(self.form, RequestOutputForm::Text) && !reply.is_ok();
            let replies = report.replies.iter();
            for reply in replies.filter(|reply| self.accepts_reply(reply) && !is_folded(reply)) {
                self.print_reply(reply)?;
            }
        }
        match self.form {
            RequestOutputForm::Document(form) => {
                let mut report = report.clone();
                report.replies.retain(|reply| self.accepts_reply(reply));
                return self.cx.print_json(&RequestDocument::new(&report), form);
            }
            RequestOutputForm::Lines => {
                let lines = RequestJsonLine::closing_lines(report);
                return Ok(lines.iter().try_for_each(|line| self.print_line(line))?);
            }
            _ => {}
        }
        if let Some(target) = target.filter(|_| report.stats.discovered == 0) {
            self.cx.report_no_nodes(target);
            return Ok(());
        }
        match self.form {
            RequestOutputForm::Senders | RequestOutputForm::Template(_) => {
                self.cx.printer.print_message(balance_line(report).trim_end());
                let unrendered = self.unrendered.load(Ordering::Relaxed);
                if unrendered > 0 {
                    return Err(OutputFormError::Unrendered(unrendered).into());
                }
                return Ok(());
            }
            RequestOutputForm::Command(command) => return Ok(command.print_end(report, self.cx)?),
            RequestOutputForm::Table => self.print_table(report)?,
            RequestOutputForm::Groups => self.print_groups(self.shown_replies(report))?,
            // Failures are printed last, and equal ones once: a policy may have denied a request on a thousand nodes.
            RequestOutputForm::Text => {
                self.print_groups(self.shown_replies(report).filter(|reply| !reply.is_ok()))?;
            }
            _ => {}
        }
        self.cx.printer.print_text(self.view.render_summary(report))?;
        if let RequestOutputForm::Text = self.form {
            self.hint_at_groups(report);
        }
        Ok(())
    }

    /// Prints why the template could not be rendered for a node.
    fn note_unrendered(&self, reply: &NodeReply, error: &OutputTemplateError) {
        self.unrendered.fetch_add(1, Ordering::Relaxed);
        let error = error.to_string();
        let message = format_args!("{}: --template: {}", reply.node, error);
        self.cx.printer.print_error(message);
    }

    fn accepts_reply(&self, reply: &NodeReply) -> bool {
        let filter = self.filter.as_ref();
        filter.is_none_or(|filter| filter.accepts(reply))
    }

    /// Whether the reply is shown to people. Explicitly requested replies are shown regardless of the schema.
    fn is_shown(&self, reply: &NodeReply) -> bool {
        let is_selected = self.filter.is_some() && self.view.display.is_none();
        is_selected || self.view.is_shown(reply)
    }

    fn print_table(&self, report: &RequestReport) -> Result<(), PrintError> {
        let mut replies: Vec<&NodeReply> = report.replies.iter().collect();
        replies.retain(|reply| self.accepts_reply(reply));
        if self.view.display.is_some() {
            replies.retain(|reply| self.view.is_shown(reply));
        }
        if replies.is_empty() {
            return Ok(());
        }
        replies.sort_by(|a, b| a.node.cmp(&b.node));
        let grid = self.view.render_table(&replies, self.cx.table_width());
        self.cx.printer.print_text(format_args!("{}\n", grid.text))?;
        if !grid.left_out.is_empty() {
            let names = grid.left_out.join(", ");
            let hint =
                format_args!("no space for {names}; use a wider terminal or `-j` to show them");
            self.cx.printer.print_hint(hint);
        }
        Ok(())
    }

    fn print_groups<'r>(
        &self,
        replies: impl IntoIterator<Item = &'r NodeReply>,
    ) -> Result<(), PrintError> {
        let groups = group_equal_replies(replies);
        groups
            .iter()
            .try_for_each(|group| self.cx.printer.print_text(self.view.render_group(group)))
    }

    fn shown_replies<'r>(
        &'r self,
        report: &'r RequestReport,
    ) -> impl Iterator<Item = &'r NodeReply> {
        report.replies.iter().filter(|reply| self.accepts_reply(reply) && self.is_shown(reply))
    }

    /// Suggests grouping to users who asked for details.
    fn hint_at_groups(&self, report: &RequestReport) {
        if !self.cx.is_verbose() {
            return;
        }
        let largest = group_equal_replies(self.shown_replies(report))
            .iter()
            .map(|group| group.nodes.len())
            .max();
        if let Some(largest) = largest.filter(|largest| *largest >= MIN_FOLDED_NODES) {
            let hint =
                format_args!("{largest} nodes sent the same reply; use `--fold` to show it once");
            self.cx.printer.print_hint(hint);
        }
    }

    fn print_reply(&self, reply: &NodeReply) -> Result<()> {
        match self.form {
            RequestOutputForm::Text if self.is_shown(reply) => {
                self.cx.printer.print_text(self.view.render_reply(reply))?;
            }
            RequestOutputForm::Command(command) => command.print_reply(reply, self.cx)?,
            RequestOutputForm::Lines => {
                self.print_line(&RequestJsonLine::Result(reply))?;
            }
            RequestOutputForm::Senders if reply.is_ok() || self.filter.is_some() => {
                self.cx.printer.print_line(reply.node.as_str())?;
            }
            RequestOutputForm::Template(template)
                if self.view.display.is_none() || self.view.is_shown(reply) =>
            {
                let values = ReplyTemplateValues::new(reply);
                match template.render(&values) {
                    Ok(text) => self.cx.printer.print_value(&text)?,
                    // The replies of other nodes are still printed.
                    Err(error) => self.note_unrendered(reply, &error),
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn print_line(&self, line: &RequestJsonLine<'_>) -> Result<(), PrintError> {
        self.cx.printer.print_line(json::to_safe_line(line)?)
    }
}

/// Runs a command with the output form of the flags, and prints its error in that form.
pub async fn run_with_form(
    flags: &Flags,
    cx: CommandContext<'_>,
    command: impl AsyncFnOnce(&RequestOutputForm) -> CommandResult,
) -> CommandResult {
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
    let error = anstream::adapter::strip_str(&error_text(error)).to_string();
    cx.printer.print_line(json::to_safe_line(&RequestJsonLine::Error { error })?)
}
