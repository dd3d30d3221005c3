//! What a request prints, in the form that was asked for: when nodes were found, at each reply, and at the end.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use muster_wire::identity::Identity;

use super::nobody_found;
use crate::ask::{AskError, News, Target};
use crate::cli::output::Output as Flags;
use crate::commands::context::Context;
use crate::commands::form::{self, FormError, JsonForm};
use crate::diagnostics;
use crate::error::Error;
use crate::printer::{OutputError, Talk};
use crate::render::group::groups;
use crate::render::json;
use crate::render::jsonl::Line;
use crate::render::progress;
use crate::render::reply_values::{NAMES, Values};
use crate::render::request::{View, balance};
use crate::render::template::Template;
use crate::reply_filter::ReplyFilter;
use crate::report::{Reply, Report};
use crate::screen::Screen;

/// How many nodes must say the same before folding their replies is worth a hint.
const WORTH_FOLDING: usize = 3;

/// In which form.
#[derive(Debug)]
pub enum Form {
    /// Pages for people.
    Text,
    /// Pages for people, replies that say the same folded together.
    Groups,
    /// A row for each node.
    Table,
    /// One JSON document at the end.
    Document(JsonForm),
    /// A line of JSON for each event.
    Lines,
    /// The names of those that succeeded.
    Senders,
    /// What the user wrote, for each reply.
    Template(Box<Template>),
}

impl Form {
    /// The form that the flags ask for.
    pub fn of(flags: &Flags) -> Result<Self, FormError> {
        Ok(match flags {
            Flags { jq: Some(code), .. } => Self::Document(JsonForm(Some(form::jq(code)?))),
            Flags { json: true, .. } => Self::Document(JsonForm::default()),
            Flags { jsonl: true, .. } => Self::Lines,
            Flags { senders: true, .. } => Self::Senders,
            Flags { table: true, .. } => Self::Table,
            Flags { group: true, .. } => Self::Groups,
            Flags {
                template: Some(text),
                ..
            } => Self::Template(Box::new(form::template(text, &NAMES)?)),
            _ => Self::Text,
        })
    }

    /// Whether what nodes tell before they answer has a place in it.
    pub fn shows_progress(&self) -> bool {
        matches!(self, Self::Text | Self::Lines)
    }

    /// Whether programs read it.
    pub fn is_json(&self) -> bool {
        matches!(self, Self::Document(_) | Self::Lines)
    }

    /// Whether people read it, who may want to see more than the results.
    pub fn is_for_people(&self) -> bool {
        matches!(self, Self::Text | Self::Groups | Self::Table)
    }

    /// Whether nothing can be shown before all replies are there.
    fn waits(&self) -> bool {
        matches!(self, Self::Document(_) | Self::Table | Self::Groups)
    }
}

/// Where a request's outcome goes.
#[derive(Debug)]
pub struct Output<'a> {
    /// In which form.
    pub form: &'a Form,
    /// Which replies count; all when absent.
    pub filter: Option<ReplyFilter>,
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
    pub fn news(&self, news: News<'_>) -> Result<(), Error> {
        match (news, self.form) {
            (News::Reply(reply), _) => self.reply(reply),
            (News::Progress(tale), Form::Text) => {
                Ok(self.cx.printer.text(progress::lines(tale))?)
            }
            (News::Progress(tale), Form::Lines) => {
                Ok(Line::progress(tale).try_for_each(|line| self.line(&line))?)
            }
            (News::Progress(_), _) => Ok(()),
        }
    }

    /// A node has answered.
    fn reply(&self, reply: &Reply) -> Result<(), Error> {
        if self.sort || self.form.waits() || !self.accepts(reply) {
            return Ok(());
        }
        self.show(reply)
    }

    /// All is over. Without a target nobody was looked for.
    pub fn end(&self, report: &Report, target: Option<&Target>) -> Result<(), Error> {
        if let Form::Document(form) = self.form {
            let mut report = report.clone();
            report.replies.retain(|reply| self.accepts(reply));
            return self.cx.json(&json::Request::new(&report), form);
        }
        if self.sort && !self.form.waits() {
            for reply in report.replies.iter().filter(|reply| self.accepts(reply)) {
                self.show(reply)?;
            }
        }
        if let Form::Lines = self.form {
            for line in &Line::tail(report) {
                self.line(line)?;
            }
            return Ok(());
        }
        if let Some(target) = target.filter(|_| report.stats.discovered == 0) {
            nobody_found(target, self.cx);
            return Ok(());
        }
        match self.form {
            Form::Senders | Form::Template(_) => self.cx.printer.say(balance(report).trim_end()),
            Form::Table => {
                self.table(report)?;
                self.cx.printer.text(self.view.tail(report))?;
            }
            Form::Groups => {
                for group in groups(self.shown(report)) {
                    self.cx.printer.text(self.view.folded(&group))?;
                }
                self.cx.printer.text(self.view.tail(report))?;
            }
            _ => {
                self.cx.printer.text(self.view.tail(report))?;
                self.hint_at_groups(report);
            }
        }
        Ok(())
    }

    fn accepts(&self, reply: &Reply) -> bool {
        let filter = self.filter.as_ref();
        filter.is_none_or(|filter| filter.accepts(reply))
    }

    /// Whether the reply is worth showing to people: what was asked for expressly is, whatever the schema says.
    fn is_shown(&self, reply: &Reply) -> bool {
        let is_asked_for = self.filter.is_some() && self.view.wish.is_none();
        is_asked_for || self.view.shows(reply)
    }

    fn table(&self, report: &Report) -> Result<(), OutputError> {
        let mut replies: Vec<&Reply> = report.replies.iter().collect();
        replies.retain(|reply| self.accepts(reply));
        if self.view.wish.is_some() {
            replies.retain(|reply| self.view.shows(reply));
        }
        if replies.is_empty() {
            return Ok(());
        }
        replies.sort_by(|a, b| a.node.cmp(&b.node));
        let grid = self.view.table(&replies);
        self.cx.printer.line(&grid.text)?;
        if !grid.left_out.is_empty() {
            let names = grid.left_out.join(", ");
            let hint = format_args!("no room for {names}; a wider terminal or `-j` shows them");
            self.cx.printer.hint(hint);
        }
        Ok(())
    }

    fn shown<'a>(&'a self, report: &'a Report) -> impl Iterator<Item = &'a Reply> {
        report
            .replies
            .iter()
            .filter(|reply| self.accepts(reply) && self.is_shown(reply))
    }

    /// Tells who asked for details that they can have less of them.
    fn hint_at_groups(&self, report: &Report) {
        if self.cx.printer.talk() < Talk::Verbose {
            return;
        }
        let most = groups(self.shown(report))
            .iter()
            .map(|group| group.nodes.len())
            .max();
        if let Some(most) = most.filter(|most| *most >= WORTH_FOLDING) {
            let hint = format_args!("{most} nodes say the same; `--group` shows it once");
            self.cx.printer.hint(hint);
        }
    }

    fn show(&self, reply: &Reply) -> Result<(), Error> {
        match self.form {
            Form::Text if self.is_shown(reply) => self.cx.printer.text(self.view.block(reply))?,
            Form::Lines => self.line(&Line::result(reply))?,
            Form::Senders if reply.is_ok() || self.filter.is_some() => {
                self.cx.printer.line(reply.node.as_str())?;
            }
            Form::Template(template) if self.view.wish.is_none() || self.view.shows(reply) => {
                let text = template
                    .render(&Values::new(reply))
                    .map_err(|source| FormError::Template { source })?;
                self.cx.printer.text(text)?;
            }
            _ => {}
        }
        Ok(())
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
    let screen = Screen::file(cx.environment.columns);
    cx.printer
        .divert(Box::new(anstream::StripStream::new(file)), screen);
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
