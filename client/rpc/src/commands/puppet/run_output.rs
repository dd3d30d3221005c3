//! Prints progress and results of Puppet runs in the selected form.

use muster_base::{error_chain, unix_millis_now};
use muster_calls::RolloutStopReason;
use muster_client::documents::{PuppetRunDocument, PuppetRunsDocument, PuppetRunsJsonLine};
use muster_client::{EndedRun, PuppetRunsReport, RequestEvent, RequestObserver, RunLogLine};
use muster_display::printer::PrintError;
use muster_display::{json, node_count_text};
use muster_wire::identity::Identity;

use crate::commands::puppet::args::RunOutputArgs as Flags;
use crate::commands::puppet::output::runs::{
    describe_log_line, describe_run_end, format_log_line, render_runs_summary,
};
use crate::outcome::diagnostics::error_text;
use crate::report::progress::MessagePrinter;
use crate::report::sink_failure::SinkFailure;
use crate::session::context::{CommandContext, Error, Result};
use crate::session::form::JsonForm;

#[derive(Debug)]
pub enum PuppetOutputForm {
    Text,
    /// One JSON document at the end.
    Document(JsonForm),
    /// One line of JSON per event.
    Lines,
}

/// The sink that prints the runs of a rollout.
#[derive(Debug)]
pub struct PuppetOutput<'a> {
    pub form: PuppetOutputForm,
    /// Whether all events are logged, or only the result of each run.
    logs: bool,
    pub cx: CommandContext<'a>,
    failure: SinkFailure,
}

impl PuppetOutputForm {
    fn from_flags(flags: &Flags) -> Result<Self> {
        Ok(match flags.json.form()? {
            Some(form) => Self::Document(form),
            None if flags.jsonl => Self::Lines,
            None => Self::Text,
        })
    }
}

impl<'a> PuppetOutput<'a> {
    pub fn new(flags: &Flags, logs: bool, cx: CommandContext<'a>) -> Result<Self> {
        let form = PuppetOutputForm::from_flags(flags)?;
        Ok(Self { form, logs, cx, failure: SinkFailure::default() })
    }

    /// Logs a message about the whole rollout.
    pub fn log_message(&self, text: &str) {
        if self.logs && !matches!(self.form, PuppetOutputForm::Lines) {
            self.cx.printer.print_message(format_log_line(unix_millis_now(), text));
        }
    }

    pub fn log_limit(&self, limit: Option<usize>) {
        if let Some(limit) = limit {
            self.log_message(&format!("Running all machines with a concurrency of {limit}"));
        }
    }

    /// Prints the nodes that will be asked.
    pub fn print_found(
        &self,
        order: Vec<&Identity>,
        runs: &PuppetRunsReport,
    ) -> Result<(), PrintError> {
        self.log_message(&format!("Found {} hosts", order.len()));
        for (node, message) in &runs.disabled {
            self.log_message(&format!("{node} skipped: disabled: {}", message.block()));
        }
        if let PuppetOutputForm::Lines = self.form {
            self.print_line(&PuppetRunsJsonLine::found(order, runs))?;
        }
        Ok(())
    }

    fn print_stop(&self, reason: RolloutStopReason, in_flight: usize) {
        self.cx.printer.print_error(reason);
        if in_flight > 0 {
            let nodes = node_count_text(in_flight);
            let advice = if reason == RolloutStopReason::Interrupted {
                "; press Ctrl-C again to exit at once; their runs continue"
            } else {
                ""
            };
            let message = format_args!("waiting for {nodes} in flight{advice}");
            self.cx.printer.print_message(message);
        }
    }

    fn print_run(&self, line: &RunLogLine) -> Result<(), PrintError> {
        match (&self.form, line) {
            (PuppetOutputForm::Lines, RunLogLine::Running(node, count)) => {
                self.print_line(&PuppetRunsJsonLine::Running { node, concurrency: *count })
            }
            (PuppetOutputForm::Lines, RunLogLine::Ended(node, run)) => {
                self.print_line(&PuppetRunsJsonLine::Ended(PuppetRunDocument::new(node, run)))
            }
            (PuppetOutputForm::Lines, _) => Ok(()),
            (PuppetOutputForm::Text, RunLogLine::Ended(node, run)) if !self.logs => {
                self.cx.printer.print_line(describe_run_end(node, &run.outcome))
            }
            _ => {
                self.log_message(&describe_log_line(line));
                Ok(())
            }
        }
    }

    /// Fails with the first error of printing; otherwise prints everything after the runs.
    pub fn print_end(&self, runs: &PuppetRunsReport) -> Result<()> {
        self.failure.check()?;
        match &self.form {
            PuppetOutputForm::Document(form) => {
                self.cx.print_json(&PuppetRunsDocument::new(runs), form)?;
            }
            PuppetOutputForm::Lines => self.print_line(&PuppetRunsJsonLine::summary(runs))?,
            PuppetOutputForm::Text if runs.ended.is_empty() && runs.not_asked.is_empty() => {}
            PuppetOutputForm::Text => {
                let gap = if self.logs || runs.ended.is_empty() { "" } else { "\n" };
                self.cx.printer.print_text(format_args!("{gap}{}", render_runs_summary(runs)))?;
            }
        }
        self.cx.warn_of_rejected(&runs.rejected);
        self.cx.warn_of_clones(&runs.cloned);
        self.print_next_steps(runs);
        Ok(())
    }

    /// Prints next steps after a rollout that did not succeed on all nodes.
    fn print_next_steps(&self, runs: &PuppetRunsReport) {
        let Some(job) = &runs.job else { return };
        self.cx.printer.print_detail(format_args!("job {job}"));
        let has_no_result = |ended: &&EndedRun| !ended.outcome.is_heard();
        let remaining = runs.not_asked.len() + runs.ended.values().filter(has_no_result).count();
        if remaining > 0 {
            let nodes = node_count_text(remaining);
            self.cx.printer.print_hint(format_args!(
                "run `rpc puppet runall --resume {job}` for the {nodes} whose result is not known"
            ));
        }
    }

    /// Prints the error of the command in the machine-readable forms.
    pub fn print_error(&self, error: &Error) -> Result<(), PrintError> {
        match self.form {
            PuppetOutputForm::Lines => {
                self.print_line(&PuppetRunsJsonLine::Error { error: error_text(error) })
            }
            _ => Ok(()),
        }
    }

    fn print_line(&self, line: &PuppetRunsJsonLine<'_>) -> Result<(), PrintError> {
        self.cx.printer.print_line(json::to_safe_line(line)?)
    }
}

impl RequestObserver for PuppetOutput<'_> {
    fn observe(&self, event: RequestEvent<'_>) {
        match event {
            RequestEvent::Run(line) => self.failure.note(self.print_run(line).map_err(Error::from)),
            RequestEvent::Stopped { reason, in_flight } => self.print_stop(reason, in_flight),
            RequestEvent::SendFailed(error) => self.cx.printer.print_error(error_chain(error)),
            message => MessagePrinter(self.cx.printer).observe(message),
        }
    }

    fn is_closed(&self) -> bool {
        self.failure.is_set()
    }
}
