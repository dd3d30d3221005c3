//! Parses the words before the cursor and returns the possible completions. `sources` has the names and values besides commands and options.

use clap::{Arg, ArgAction, Command};
use muster_display::printable::escape_to_line;

use crate::commands::completion::sources::CompletionSources;
use crate::flags::topics::{HelpTopic, TOPICS};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletionCandidate {
    /// The whole word.
    pub word: String,
    /// One-line help; may be empty.
    pub help: String,
}

impl CompletionCandidate {
    /// A word and the first line of its help.
    pub fn new(word: impl Into<String>, help: Option<impl ToString>) -> Self {
        let help = help.map(|help| help.to_string()).unwrap_or_default();
        let help = escape_to_line(help.lines().next().unwrap_or_default()).into_owned();
        Self { word: word.into(), help }
    }

    pub fn without_help(word: impl Into<String>) -> Self {
        Self { word: word.into(), help: String::new() }
    }
}

/// Parse state after the words before the cursor.
struct CommandLinePosition<'a> {
    command: &'a Command,
    positionals: Vec<&'a str>,
    /// The option that expects its value next.
    pending: Option<&'a Arg>,
    options_ended: bool,
}

/// Returns the candidates that can replace `current`, after `before`; `root` must be built. Hidden ones are omitted.
pub fn complete_word(
    root: &Command,
    known: &CompletionSources<'_>,
    before: &[String],
    current: &str,
) -> Vec<CompletionCandidate> {
    let position = CommandLinePosition::after_words(root, before);
    let mut candidates = match (position.pending, current.split_once('=')) {
        (Some(option), _) => known.value_candidates(option, current),
        (None, Some((name, value))) if name.starts_with("--") && !position.options_ended => {
            let option = position.find_option(name);
            let values = option.map(|option| known.value_candidates(option, value));
            let with_option = |value: CompletionCandidate| CompletionCandidate {
                word: format!("{name}={}", value.word),
                ..value
            };
            values.into_iter().flatten().map(with_option).collect()
        }
        _ if current.starts_with('-') && !position.options_ended => {
            option_candidates(position.command)
        }
        _ => position.positional_candidates(root, known, current),
    };
    candidates.retain(|candidate| candidate.word.starts_with(current));
    candidates
}

impl<'a> CommandLinePosition<'a> {
    fn after_words(root: &'a Command, before: &'a [String]) -> Self {
        let mut position =
            Self { command: root, positionals: Vec::new(), pending: None, options_ended: false };
        for word in before {
            position.advance(root, word);
        }
        position
    }

    fn advance(&mut self, root: &'a Command, word: &'a str) {
        if self.pending.take().is_some() {
            return;
        }
        if self.options_ended || !word.starts_with('-') || word == "-" {
            self.advance_positional(root, word);
        } else if word == "--" {
            self.options_ended = true;
        } else if word.starts_with("--") {
            if !word.contains('=') {
                self.pending = self.find_option(word).filter(|option| takes_value(option));
            }
        } else {
            self.pending = self.trailing_short_option(word);
        }
    }

    /// Handles a word that is not an option: a command, an agent, or an argument.
    fn advance_positional(&mut self, root: &'a Command, word: &'a str) {
        let command = self.command.find_subcommand(word);
        match command.filter(|_| self.positionals.is_empty()) {
            Some(command) => self.command = command,
            None if std::ptr::eq(self.command, root) => {
                self.command = root.find_subcommand("do").unwrap_or(root);
                self.positionals.push(word);
            }
            None => self.positionals.push(word),
        }
    }

    fn find_option(&self, name: &str) -> Option<&'a Arg> {
        let name = name.trim_start_matches('-');
        self.command.get_arguments().find(|arg| {
            arg.get_long() == Some(name)
                || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
        })
    }

    /// In a group such as `-vt`, returns the option that still expects its value.
    fn trailing_short_option(&self, word: &str) -> Option<&'a Arg> {
        let mut short_names = word.chars().skip(1).peekable();
        while let Some(short_name) = short_names.next() {
            let is_named = |arg: &&Arg| arg.get_short() == Some(short_name);
            let option = self.command.get_arguments().find(is_named)?;
            if takes_value(option) {
                return short_names.peek().is_none().then_some(option);
            }
        }
        None
    }

    /// The argument at this position; the last one may take several values.
    fn next_positional(&self) -> Option<&'a Arg> {
        let mut arguments = self.command.get_positionals();
        let last = self.command.get_positionals().last();
        let repeatable = last.filter(|arg| matches!(arg.get_action(), ArgAction::Append));
        arguments.nth(self.positionals.len()).or(repeatable)
    }

    fn positional_candidates(
        &self,
        root: &Command,
        known: &CompletionSources<'_>,
        current: &str,
    ) -> Vec<CompletionCandidate> {
        let mut candidates = Vec::new();
        if self.positionals.is_empty() {
            let commands = self.command.get_subcommands().filter(|command| !command.is_hide_set());
            candidates.extend(
                commands.map(|command| {
                    CompletionCandidate::new(command.get_name(), command.get_about())
                }),
            );
        }
        if std::ptr::eq(self.command, root) {
            candidates.extend(known.agent_candidates());
        } else if self.command.get_name() == "help" && self.positionals.is_empty() {
            let topic =
                |topic: &HelpTopic| CompletionCandidate::new(topic.name, Some(topic.summary));
            candidates.extend(TOPICS.iter().map(topic));
            candidates.push(CompletionCandidate::new("all", Some("All commands")));
        } else if self.command.get_name() == "do" && !self.positionals.is_empty() {
            candidates.extend(known.request_candidates(&self.positionals, current));
        } else if let Some(arg) = self.next_positional() {
            candidates.extend(known.value_candidates(arg, current));
        }
        candidates
    }
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

fn option_candidates(command: &Command) -> Vec<CompletionCandidate> {
    let visible = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let candidates = visible.filter_map(|arg| {
        let long = arg.get_long().map(|long| format!("--{long}"));
        let word = long.or_else(|| arg.get_short().map(|short| format!("-{short}")))?;
        Some(CompletionCandidate::new(word, arg.get_help()))
    });
    candidates.collect()
}

#[cfg(test)]
mod tests;
