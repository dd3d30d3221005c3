//! What runs print, in the form that was asked for: as they go on, and at the end.

use muster_client::runs::Halt;
use muster_wire::identity::Identity;

use crate::ask::RunNews;
use crate::cli::puppet::Form as Flags;
use crate::clock;
use crate::commands::context::Context;
use crate::commands::form::{self, JsonForm};
use crate::diagnostics::{self, chain};
use crate::error::Error;
use crate::printer::OutputError;
use crate::render::json;
use crate::render::plan::counted;
use crate::render::runs::{Document, JsonLine, RunDocument, ended, log, reason, summary, words};
use crate::runs::board::Line;
use crate::runs::{Ended, Runs};

/// In which form.
#[derive(Debug)]
pub enum Form {
    /// For people.
    Text,
    /// One JSON document at the end.
    Document(JsonForm),
    /// A line of JSON for each thing that happens.
    Lines,
}

/// Where all of it goes.
#[derive(Debug, Clone, Copy)]
pub struct Output<'a> {
    /// In which form.
    pub form: &'a Form,
    /// Whether everything that happens is told in a log; or else only how each run ended.
    pub logs: bool,
    /// Where to print.
    pub cx: Context<'a>,
}

impl Form {
    /// The form that the flags ask for.
    pub fn of(flags: &Flags) -> Result<Self, Error> {
        Ok(match form::json(&flags.json)? {
            Some(form) => Self::Document(form),
            None if flags.jsonl => Self::Lines,
            None => Self::Text,
        })
    }
}

impl Output<'_> {
    /// Tells something of the rollout as a whole.
    pub fn say(&self, words: &str) {
        if self.logs && !matches!(self.form, Form::Lines) {
            self.cx.printer.say(log(clock::now(), words));
        }
    }

    /// These will be asked.
    pub fn found(&self, order: Vec<&Identity>, runs: &Runs) -> Result<(), OutputError> {
        self.say(&format!("Found {} hosts", order.len()));
        for (node, message) in &runs.disabled {
            let message = crate::render::printable::line(message);
            self.say(&format!("{node} skipped: disabled: {message}"));
        }
        if let Form::Lines = self.form {
            self.line(&JsonLine::found(order, runs))?;
        }
        Ok(())
    }

    /// Something happened.
    pub fn news(&self, news: RunNews<'_>) -> Result<(), Error> {
        match news {
            RunNews::Told(line, run) => self.told(line, run)?,
            RunNews::Halted(halt, under_way) => {
                self.cx.printer.error(reason(halt));
                if under_way > 0 {
                    let nodes = counted(under_way);
                    let now = if halt == Halt::Interrupted {
                        "; Ctrl-C once more ends the command at once, and not their runs"
                    } else {
                        ""
                    };
                    let words = format!("waiting for {nodes} that were asked{now}");
                    self.cx.printer.say(words);
                }
            }
            RunNews::Failed(error) => self.cx.printer.error(chain(error)),
        }
        Ok(())
    }

    fn told(&self, told: &Line, run: Option<&Ended>) -> Result<(), OutputError> {
        match (self.form, told) {
            (Form::Lines, Line::Running(node, count)) => self.line(&JsonLine::Running {
                node,
                concurrency: *count,
            }),
            (Form::Lines, Line::Ended(node, _)) => match run {
                Some(run) => self.line(&JsonLine::Ended(RunDocument::new(node, run))),
                None => Ok(()),
            },
            (Form::Lines, _) => Ok(()),
            (Form::Text, Line::Ended(node, outcome)) if !self.logs => {
                self.cx.printer.line(ended(node, outcome))
            }
            _ => {
                self.say(&words(told));
                Ok(())
            }
        }
    }

    /// All is over.
    pub fn end(&self, runs: &Runs) -> Result<(), Error> {
        match self.form {
            Form::Document(form) => self.cx.json(&Document::new(runs), form)?,
            Form::Lines => self.line(&JsonLine::summary(runs))?,
            Form::Text if runs.ended.is_empty() && runs.not_asked.is_empty() => {}
            Form::Text => {
                let gap = if self.logs || runs.ended.is_empty() {
                    ""
                } else {
                    "\n"
                };
                self.cx
                    .printer
                    .text(format_args!("{gap}{}", summary(runs)))?;
            }
        }
        for (word, count) in &runs.disbelieved {
            self.cx
                .printer
                .warn(format_args!("{count} answers were not believed ({word})"));
        }
        self.next_steps(runs);
        Ok(())
    }

    /// What may be done about a rollout that did not reach everybody.
    fn next_steps(&self, runs: &Runs) {
        let Some(job) = &runs.job else { return };
        self.cx.printer.detail(format_args!("job {job}"));
        let unheard = |ended: &&Ended| !ended.outcome.is_heard();
        let rest = runs.not_asked.len() + runs.ended.values().filter(unheard).count();
        if rest > 0 {
            let nodes = counted(rest);
            self.cx.printer.hint(format_args!(
                "`rpc puppet runall --resume {job}` runs the {nodes} that are not known to have run"
            ));
        }
    }

    /// Why the command failed, where programs read it.
    pub fn complain(&self, error: &Error) -> Result<(), OutputError> {
        match self.form {
            Form::Lines => self.line(&JsonLine::Error {
                error: diagnostics::text(error),
            }),
            _ => Ok(()),
        }
    }

    fn line(&self, line: &JsonLine<'_>) -> Result<(), OutputError> {
        self.cx.printer.line(json::line(line)?)
    }
}
