//! Parses the words before the cursor and returns the possible completions. A pure function of values.

use std::collections::BTreeSet;

use clap::{Arg, Command};
use muster_client::DdlStore;
use muster_ddl::{ActionSchema, AgentDdl, InputSchema, ValueType};

use crate::render::printable::escape_to_line;

/// Completion sources besides commands and options.
#[derive(Debug)]
pub struct CompletionSources<'a> {
    /// DDLs of agents.
    pub agents: &'a DdlStore,
    /// Names of nodes.
    pub nodes: &'a BTreeSet<String>,
    /// Names of facts.
    pub facts: &'a BTreeSet<String>,
}

/// A completion candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletionCandidate {
    /// The whole word.
    pub word: String,
    /// One-line help; may be empty.
    pub help: String,
}

impl CompletionCandidate {
    /// A word and the first line of its help.
    fn new(word: impl Into<String>, help: Option<impl ToString>) -> Self {
        let help = help.map(|help| help.to_string()).unwrap_or_default();
        let help = escape_to_line(help.lines().next().unwrap_or_default()).into_owned();
        Self { word: word.into(), help }
    }

    fn without_help(word: impl Into<String>) -> Self {
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
        (Some(option), _) => known.value_candidates(option),
        (None, Some((name, _))) if name.starts_with("--") && !position.options_ended => {
            let values = position.find_option(name).map(|option| known.value_candidates(option));
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

    /// Candidates at this position that are not options.
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
        } else if self.command.get_name() == "do" && !self.positionals.is_empty() {
            candidates.extend(known.request_candidates(&self.positionals, current));
        } else if let Some(arg) = self.command.get_positionals().nth(self.positionals.len()) {
            candidates.extend(known.value_candidates(arg));
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

impl CompletionSources<'_> {
    /// Values of an option or argument, if they can be listed.
    fn value_candidates(&self, arg: &Arg) -> Vec<CompletionCandidate> {
        let possible = arg.get_possible_values();
        if !possible.is_empty() {
            let shown = possible.iter().filter(|value| !value.is_hide_set());
            return shown
                .map(|value| CompletionCandidate::new(value.get_name(), value.get_help()))
                .collect();
        }
        let names = arg.get_value_names().unwrap_or_default();
        let name_candidates = |names: &BTreeSet<String>| {
            names.iter().map(CompletionCandidate::without_help).collect()
        };
        match (arg.get_id().as_str(), names.first().map(clap::builder::Str::as_str)) {
            ("display", _) => {
                ["ok", "failed", "all", "none"].map(CompletionCandidate::without_help).into()
            }
            (_, Some("NODE")) => name_candidates(self.nodes),
            (_, Some("AGENT")) => self.agent_candidates(),
            (_, Some("FACT")) => name_candidates(self.facts),
            (_, Some("FACT=VALUE")) => {
                let names = self.facts.iter();
                names.map(|name| CompletionCandidate::without_help(format!("{name}="))).collect()
            }
            _ => Vec::new(),
        }
    }

    fn agent_candidates(&self) -> Vec<CompletionCandidate> {
        let candidate = |ddl: &AgentDdl| {
            CompletionCandidate::new(ddl.name(), Some(&ddl.metadata().description))
        };
        self.agents.all().map(candidate).collect()
    }

    /// Candidates after the agent of a request: an action, then inputs that are not given yet.
    fn request_candidates(&self, words: &[&str], current: &str) -> Vec<CompletionCandidate> {
        let Some((ddl, rest)) =
            words.split_first().and_then(|(agent, rest)| Some((self.agents.get(agent)?, rest)))
        else {
            return Vec::new();
        };
        let (named, given) = match rest.split_first() {
            Some((first, given)) if !first.contains('=') => (Some(*first), given),
            _ => (None, rest),
        };
        let action = named.or(ddl.default_action()).and_then(|name| ddl.find_action(name));
        let mut candidates = if rest.is_empty() { action_candidates(ddl) } else { Vec::new() };
        candidates
            .extend(action.into_iter().flat_map(|action| input_candidates(action, given, current)));
        candidates
    }
}

fn action_candidates(ddl: &AgentDdl) -> Vec<CompletionCandidate> {
    let candidate =
        |action: &ActionSchema| CompletionCandidate::new(action.name(), Some(action.description()));
    ddl.actions().iter().map(candidate).collect()
}

fn input_candidates(
    action: &ActionSchema,
    given: &[&str],
    current: &str,
) -> Vec<CompletionCandidate> {
    if let Some(input) = current.split_once('=').and_then(|(name, _)| action.find_input(name)) {
        let values = listable_values(input).into_iter();
        return values
            .map(|value| CompletionCandidate::without_help(format!("{}={value}", input.name)))
            .collect();
    }
    let is_given =
        |input: &&InputSchema| given.iter().any(|word| word.split('=').next() == Some(&input.name));
    let missing = action.inputs().iter().filter(|input| !is_given(input));
    missing
        .map(|input| {
            let help =
                if input.description.is_empty() { &input.prompt } else { &input.description };
            CompletionCandidate::new(format!("{}=", input.name), Some(help))
        })
        .collect()
}

/// Values of an input, if they can be listed.
fn listable_values(input: &InputSchema) -> Vec<String> {
    match input.value_type {
        ValueType::List => input.choices.clone(),
        ValueType::Boolean => ["true", "false"].map(str::to_owned).to_vec(),
        _ => input
            .default
            .iter()
            .filter(|_| !input.sensitive)
            .filter_map(|value| value.as_str().map(str::to_owned))
            .filter(|value| !value.is_empty())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;
    use muster_client::DdlStore;

    use super::{CompletionSources, complete_word};
    use crate::cli::Cli;

    fn words(line: &str) -> Vec<String> {
        let mut root = Cli::command();
        root.build();
        let agents = DdlStore::load(None).unwrap();
        let nodes = BTreeSet::from(["db1.acme.net", "web1.acme.net"].map(str::to_owned));
        let facts = BTreeSet::from(["country", "os.family"].map(str::to_owned));
        let known = CompletionSources { agents: &agents, nodes: &nodes, facts: &facts };
        let mut before: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let current = before.pop().unwrap();
        complete_word(&root, &known, &before, &current)
            .into_iter()
            .map(|candidate| candidate.word)
            .collect()
    }

    #[test]
    fn first_word_completes_to_commands_and_agents() {
        let first = words("");
        for word in ["find", "facts", "do", "puppetral", "service"] {
            assert!(first.contains(&word.to_owned()), "{word}: {first:?}");
        }
        assert!(!first.contains(&"complete".to_owned()), "hidden");
        assert_eq!(words("inv"), ["inventory"]);
        assert_eq!(words("plugin do"), ["doc"]);
        assert_eq!(words("plugin doc rpcu"), ["rpcutil"]);
    }

    #[test]
    fn request_is_completed_from_the_ddl() {
        for lead in ["", "do ", "-v ", "-c rpc.toml do "] {
            let actions = words(&format!("{lead}service sta"));
            assert_eq!(actions, ["status", "start"], "{lead}");
        }
        assert_eq!(words("service restart -C apache s"), ["service="]);
        assert!(words("service restart service=httpd s").is_empty());
        assert!(words("puppetral do noop=").contains(&"noop=true".to_owned()));
        assert!(
            words("puppetral ty").contains(&"type=".to_owned()),
            "inputs of the default action"
        );
        assert!(words("nonsense ").is_empty());
    }

    #[test]
    fn completes_options_and_their_values() {
        assert_eq!(words("find --with-i"), ["--with-identity"]);
        assert_eq!(words("find --with-identity web"), ["web1.acme.net"]);
        assert_eq!(words("find -I db"), ["db1.acme.net"]);
        assert_eq!(words("find -vI db"), ["db1.acme.net"]);
        assert_eq!(words("find -F os"), ["os.family="]);
        assert_eq!(words("facts c"), ["country"]);
        assert_eq!(words("service status --display f"), ["failed"]);
        assert_eq!(words("find --color=n"), ["--color=never"]);
        assert_eq!(words("inventory web"), ["web1.acme.net"]);
        assert!(words("find -- --with").is_empty());
    }
}
