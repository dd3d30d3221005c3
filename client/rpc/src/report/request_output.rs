//! The sink that prints the replies of a request in the selected form, its progress and its end.

use std::cell::Cell;
use std::collections::BTreeSet;

use muster_client::{
    NodeReply, ReplyFilter, RequestEvent, RequestObserver, RequestReport, TargetSelection,
};
use muster_ddl::ActionSchema;
use muster_display::json;
use muster_display::printer::PrintError;
use muster_display::template::OutputTemplateError;
use muster_wire::identity::Identity;

use crate::flags::output::OutputArgs as Flags;
use crate::report::documents::RequestDocument;
use crate::report::group::group_equal_replies;
use crate::report::jsonl::RequestJsonLine;
use crate::report::progress::ProgressReporter;
use crate::report::progress_lines;
use crate::report::request::{RequestResultView, balance_line};
use crate::report::request_form::RequestOutputForm;
use crate::report::sink_failure::SinkFailure;
use crate::report::template_values::ReplyTemplateValues;
use crate::session::context::{CommandContext, Result};
use crate::session::form::OutputFormError;

/// Least number of nodes with equal replies for which grouping is suggested.
const MIN_FOLDED_NODES: usize = 3;

/// The sink that prints the replies of a request, and its progress.
#[derive(Debug)]
pub struct RequestOutput<'a> {
    form: &'a RequestOutputForm,
    /// Filter for replies; `None` accepts all.
    filter: Option<ReplyFilter>,
    /// Whether replies are held back until all have arrived, and sorted by node.
    sort: bool,
    /// Whether progress of nodes is shown.
    streams: bool,
    view: RequestResultView<'a>,
    /// The job that records the request.
    job: Option<String>,
    progress: ProgressReporter<'a>,
    cx: CommandContext<'a>,
    /// Number of replies that the template could not be rendered for.
    unrendered: Cell<usize>,
    failure: SinkFailure,
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
        Self {
            form,
            filter,
            sort: flags.sort,
            streams: flags.wants_progress(action),
            view: RequestResultView { action, display, verbose, noop: false, width },
            job: None,
            progress: form.progress_reporter(flags, cx),
            cx,
            unrendered: Cell::new(0),
            failure: SinkFailure::default(),
        }
    }

    /// The same settings for a request that only reports what would change, or for an ordinary one.
    #[must_use]
    pub fn with_noop(mut self, noop: bool) -> Self {
        self.view.noop = noop;
        self
    }

    /// The same settings for a request that is recorded as this job.
    #[must_use]
    pub fn with_job(mut self, job: Option<String>) -> Self {
        self.job = job;
        self
    }

    /// Prints the nodes that will be asked.
    pub fn print_found(
        &self,
        (agent, action): (&str, &str),
        nodes: &BTreeSet<Identity>,
    ) -> Result<(), PrintError> {
        match self.form {
            RequestOutputForm::Lines => {
                self.print_lines([RequestJsonLine::discovered(agent, action, nodes)])
            }
            _ => Ok(()),
        }
    }

    /// Prints the job that records the request.
    pub fn print_job(&self) -> Result<(), PrintError> {
        match (self.form, &self.job) {
            (RequestOutputForm::Lines, Some(id)) => self.print_lines([RequestJsonLine::Job { id }]),
            _ => Ok(()),
        }
    }

    fn print_event(&self, event: RequestEvent<'_>) -> Result<()> {
        match (event, self.form) {
            (RequestEvent::Reply(reply), _) if self.sort || self.is_held_back(reply) => {}
            (RequestEvent::Progress(_), _) if !self.streams => {}
            (event, RequestOutputForm::Lines) => {
                self.print_lines(RequestJsonLine::of_event(event, self.job.as_deref()))?;
            }
            (RequestEvent::Reply(reply), _) => self.print_reply(reply)?,
            (RequestEvent::Progress(update), RequestOutputForm::Text) => {
                self.cx.printer.print_text(progress_lines::render_progress_update(update))?;
            }
            (RequestEvent::Progress(update), RequestOutputForm::Command(command)) => {
                command.handle_progress(update, self.cx)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Prints output that was held back long enough.
    pub fn print_overdue(&self) -> Result<()> {
        match self.form {
            RequestOutputForm::Command(command) => {
                Ok(self.progress.suspend(|| command.print_overdue(self.cx))?)
            }
            _ => Ok(()),
        }
    }

    /// Fails with the first error of printing; otherwise prints everything after the replies. Without a target there was no discovery.
    pub fn print_end(
        &self,
        report: &mut RequestReport,
        target: Option<&TargetSelection>,
    ) -> Result<()> {
        self.failure.check()?;
        if self.sort {
            report.replies.sort_by(|a, b| a.node.cmp(&b.node));
            let mut replies = report.replies.iter().filter(|reply| !self.is_held_back(reply));
            replies.try_for_each(|reply| self.print_reply(reply))?;
        }
        match self.form {
            RequestOutputForm::Document(form) => {
                let mut report = report.clone();
                report.replies.retain(|reply| self.accepts_reply(reply));
                return self.cx.print_json(&RequestDocument::new(&report), form);
            }
            RequestOutputForm::Lines => {
                return Ok(self.print_lines(RequestJsonLine::closing_lines(report))?);
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
                return match self.unrendered.get() {
                    0 => Ok(()),
                    unrendered => Err(OutputFormError::Unrendered(unrendered).into()),
                };
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
        self.unrendered.update(|count| count + 1);
        let error = error.to_string();
        let message = format_args!("{}: --template: {}", reply.node, error);
        self.cx.printer.print_error(message);
    }

    /// Whether the reply is printed at the end, together with others, or not at all.
    fn is_held_back(&self, reply: &NodeReply) -> bool {
        let is_folded = matches!(self.form, RequestOutputForm::Text) && !reply.is_ok();
        is_folded || self.form.waits_for_all() || !self.accepts_reply(reply)
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
                self.print_lines([RequestJsonLine::Result(reply)])?;
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

    fn print_lines<'r>(
        &self,
        lines: impl IntoIterator<Item = RequestJsonLine<'r>>,
    ) -> Result<(), PrintError> {
        lines
            .into_iter()
            .try_for_each(|line| self.cx.printer.print_line(json::to_safe_line(&line)?))
    }
}

impl RequestObserver for RequestOutput<'_> {
    fn observe(&self, event: RequestEvent<'_>) {
        let is_result = matches!(event, RequestEvent::Reply(_) | RequestEvent::Progress(_));
        if !is_result {
            self.progress.observe(event);
        }
        if is_result
            || matches!(event, RequestEvent::BatchStarted { .. } | RequestEvent::Stopped { .. })
        {
            self.failure.note(self.progress.suspend(|| self.print_event(event)));
        }
    }

    fn is_closed(&self) -> bool {
        self.failure.is_set()
    }
}
