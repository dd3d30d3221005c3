//! What a request prints, in the form that was asked for: when nodes were found, at each reply, and at the end.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use muster_wire::identity::Identity;

use super::nobody_found;
use crate::ask::{AskError, News, Target};
use crate::cli::request::Request;
use crate::commands::context::Context;
use crate::diagnostics;
use crate::error::Error;
use crate::printer::OutputError;
use crate::render::json;
use crate::render::jsonl::Line;
use crate::render::progress;
use crate::render::request::{View, balance};
use crate::report::{Reply, Report};

/// In which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Pages for people.
    Text,
    /// One JSON document at the end.
    Document,
    /// A line of JSON for each event.
    Lines,
    /// The names of those that succeeded.
    Senders,
}

impl Form {
    /// The form that the flags ask for.
    pub fn of(args: &Request) -> Self {
        match args {
            Request { json: true, .. } => Self::Document,
            Request { jsonl: true, .. } => Self::Lines,
            Request { senders: true, .. } => Self::Senders,
            _ => Self::Text,
        }
    }

    /// Whether what nodes tell before they answer has a place in it.
    pub fn shows_progress(self) -> bool {
        matches!(self, Self::Text | Self::Lines)
    }

    /// Whether programs read it.
    pub fn is_json(self) -> bool {
        matches!(self, Self::Document | Self::Lines)
    }
}

/// Where a request's outcome goes.
#[derive(Debug, Clone, Copy)]
pub struct Output<'a> {
    /// In which form.
    pub form: Form,
    /// Whether replies wait for all others, and are sorted by node.
    pub sort: bool,
    /// What people want to see.
    pub view: View<'a>,
    /// Where to print.
    pub cx: Context<'a>,
}

impl Output<'_> {
    /// These nodes are asked.
    pub fn found(
        &self,
        agent: &str,
        action: &str,
        nodes: &BTreeSet<Identity>,
    ) -> Result<(), OutputError> {
        match self.form {
            Form::Lines => self.line(&Line::discovered(agent, action, nodes)),
            _ => Ok(()),
        }
    }

    /// Something happened that can be shown at once.
    pub fn news(&self, news: News<'_>) -> Result<(), OutputError> {
        match (news, self.form) {
            (News::Reply(reply), _) => self.reply(reply),
            (News::Progress(tale), Form::Text) => self.cx.printer.text(progress::lines(tale)),
            (News::Progress(tale), Form::Lines) => {
                Line::progress(tale).try_for_each(|line| self.line(&line))
            }
            (News::Progress(_), Form::Document | Form::Senders) => Ok(()),
        }
    }

    /// A node has answered.
    fn reply(&self, reply: &Reply) -> Result<(), OutputError> {
        if self.sort {
            return Ok(());
        }
        self.show(reply)
    }

    /// All is over.
    pub fn end(&self, report: &Report, target: &Target) -> Result<(), Error> {
        if self.form == Form::Document {
            return self.cx.json(&json::Request::new(report));
        }
        if self.sort {
            for reply in &report.replies {
                self.show(reply)?;
            }
        }
        match self.form {
            Form::Lines => {
                for line in &Line::tail(report) {
                    self.line(line)?;
                }
            }
            _ if report.stats.discovered == 0 => nobody_found(target, self.cx),
            Form::Senders => self.cx.printer.say(balance(report).trim_end()),
            _ => self.cx.printer.text(self.view.tail(report))?,
        }
        Ok(())
    }

    fn show(&self, reply: &Reply) -> Result<(), OutputError> {
        match self.form {
            Form::Text if self.view.shows(reply) => self.cx.printer.text(self.view.block(reply)),
            Form::Lines => self.line(&Line::result(reply)),
            Form::Senders if reply.is_ok() => self.cx.printer.line(reply.node.as_str()),
            _ => Ok(()),
        }
    }

    fn line(&self, line: &Line<'_>) -> Result<(), OutputError> {
        self.cx.printer.line(json::line(line)?)
    }
}

/// Data go into this file from now on, without colours; what was in it is gone.
pub fn divert(path: &Path, cx: Context<'_>) -> Result<(), AskError> {
    let file = File::create(path).map_err(|source| AskError::Output {
        path: path.to_owned(),
        source,
    })?;
    cx.printer
        .divert(Box::new(anstream::StripStream::new(file)));
    Ok(())
}

/// Tells a reader of lines why the command fails. Output that is gone cannot be told so.
pub fn complain(error: &Error, cx: Context<'_>) -> Result<(), OutputError> {
    if matches!(error, Error::Output(_)) {
        return Ok(());
    }
    let error = anstream::adapter::strip_str(&diagnostics::text(error)).to_string();
    cx.printer.line(json::line(&Line::Error { error })?)
}
