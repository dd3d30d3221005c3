//! Parses a command line. A first word that is not a command is an agent: `rpc rpcutil ping` means `rpc do rpcutil ping`.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _, Parser as _};

use crate::cli::Cli;
use crate::cli::links::resolve_link;
use crate::commands::Command;
use crate::flags::deferred::Deferred;

/// Commands with the name of an agent that lack some of its actions.
const AGENTS_NAMED_LIKE_COMMANDS: [&str; 3] = ["permit", "provision", "puppet"];

/// What is printed instead of running a command.
#[derive(Debug)]
pub enum CommandLineMessage {
    /// A usage error, a page of help, or the version.
    Clap(clap::Error),
    /// A page of help that clap does not have.
    HelpPage(StyledStr),
}

impl Cli {
    /// Parses these arguments, including the program's name.
    pub fn parse_arguments(
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, CommandLineMessage> {
        let arguments = resolve_link(arguments.into_iter().collect());
        let parsed = match Self::parse_line(arguments.clone()) {
            Err(error) if error.kind() == ErrorKind::DisplayHelp => {
                if let Some(cli) = Self::parse_agent_help(arguments.clone()) {
                    return Ok(cli);
                }
                let page = Self::help_page(&arguments);
                return Err(
                    page.map_or(CommandLineMessage::Clap(error), CommandLineMessage::HelpPage)
                );
            }
            Err(error) if error.kind() == ErrorKind::InvalidSubcommand => {
                if let Some(page) = Self::topic_page(&arguments) {
                    return Err(CommandLineMessage::HelpPage(page));
                }
                if let Some(arguments) = help_of_agent(&arguments) {
                    return Self::parse_arguments(arguments);
                }
                Self::parse_agent_action(arguments).ok_or(error)
            }
            result => result,
        };
        parsed.map_err(|error| CommandLineMessage::Clap(explain_number(error)))
    }

    /// Parses a request with `--help`, which is answered from the agent's schema.
    fn parse_agent_help(mut arguments: Vec<OsString>) -> Option<Self> {
        arguments.retain(|word| word != "--help" && word != "-h");
        let mut cli = Self::parse_line(arguments).ok()?;
        let Command::Do(Deferred(request)) = &mut cli.command else {
            return None;
        };
        // `rpc do --resume JOB --help` specifies no agent, so there is no schema for the help.
        request.agent.as_ref()?;
        request.help = true;
        Some(cli)
    }

    /// Parses a request to an agent with the same name as a command: a subcommand that does not exist is an action of the agent.
    fn parse_agent_action(mut arguments: Vec<OsString>) -> Option<Self> {
        let is_agent =
            |word: &OsString| AGENTS_NAMED_LIKE_COMMANDS.iter().any(|agent| word == agent);
        let index = arguments.iter().skip(1).position(is_agent)? + 1;
        arguments.insert(index, "do".into());
        Self::parse_line(arguments).ok()
    }

    fn parse_line(mut arguments: Vec<OsString>) -> Result<Self, clap::Error> {
        // Built once: the definitions of all commands take a tenth of the time of a call to one node.
        let mut command = Self::definition().allow_external_subcommands(true);
        let matches = command.try_get_matches_from_mut(&arguments)?;
        let word_count = match matches.subcommand() {
            Some((name, rest)) if command.find_subcommand(name).is_none() => {
                // The arguments after the unknown word are not parsed; clap stores them under an empty name.
                1 + rest.get_many::<OsString>("").map_or(0, Iterator::count)
            }
            _ => return Self::from_arg_matches(&matches),
        };
        arguments.insert(arguments.len().saturating_sub(word_count), "do".into());
        let mut cli = Self::try_parse_from(&arguments)?;
        if let Command::Do(Deferred(request)) = &mut cli.command {
            request.commands = Self::command_names();
        }
        Ok(cli)
    }

    pub fn command_names() -> Vec<String> {
        let command = Self::command();
        let names = command.get_subcommands().map(clap::Command::get_name);
        names.map(str::to_owned).collect()
    }
}

/// Explains errors of numbers: clap takes a negative one as an option, and describes others in the words of the parser.
fn explain_number(error: clap::Error) -> clap::Error {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let (argument, value) = (context(ContextKind::InvalidArg), context(ContextKind::InvalidValue));
    match error.kind() {
        ErrorKind::UnknownArgument if argument.parse::<f64>().is_ok() => clap::Error::raw(
            ErrorKind::InvalidValue,
            format!("'{argument}' is neither an option of this command nor a positive number\n"),
        ),
        ErrorKind::ValueValidation if error.to_string().contains("invalid digit") => {
            clap::Error::raw(
                ErrorKind::ValueValidation,
                format!(
                    "invalid value '{value}' for '{argument}': expected a whole number, not negative\n"
                ),
            )
        }
        _ => error,
    }
}

/// `rpc service restart --help` for `rpc help service restart`, if `service` is not a command.
fn help_of_agent(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let index = help_index(arguments)?;
    let agent = arguments.get(index + 1)?.to_str()?;
    if agent.starts_with('-') || Cli::command_names().iter().any(|name| name == agent) {
        return None;
    }
    let mut line: Vec<OsString> = arguments.to_vec();
    line.remove(index);
    line.push("--help".into());
    Some(line)
}

/// The position of the word `help`.
pub(super) fn help_index(arguments: &[OsString]) -> Option<usize> {
    arguments.iter().position(|word| word == "help").filter(|index| *index > 0)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::cli::{Cli, GlobalArgs};
    use crate::commands::Command;
    use crate::flags::deferred::Deferred;
    use crate::flags::request::RequestArgs;

    impl super::CommandLineMessage {
        fn kind(&self) -> clap::error::ErrorKind {
            match self {
                Self::Clap(error) => error.kind(),
                Self::HelpPage(_) => clap::error::ErrorKind::DisplayHelp,
            }
        }
    }

    fn request(line: &str) -> (GlobalArgs, RequestArgs) {
        let words = line.split(' ').map(OsString::from);
        let cli = Cli::parse_arguments(words).unwrap();
        match cli.command {
            Command::Do(Deferred(request)) => (cli.global, *request),
            other => panic!("{line} is {other:?}"),
        }
    }

    #[test]
    fn agent_can_replace_the_command() {
        let (global, request) = request("rpc -v rpcutil get_fact -C apache fact=country -q");
        assert!(!request.commands.is_empty() && global.verbose && global.quiet);
        assert_eq!(
            (request.agent.as_deref(), request.filters.conditions.classes),
            (Some("rpcutil"), vec!["apache".to_owned()])
        );
        assert_eq!(request.words, ["get_fact", "fact=country"]);
    }

    #[test]
    fn options_can_be_anywhere_and_values_are_unchanged() {
        let (global, request) =
            request("rpc do -j puppetral type=user -C x password=$1$xxx --np y=-1 -t 5 -v z=--ttl");
        assert!(
            request.commands.is_empty()
                && global.verbose
                && request.output.json
                && request.output.no_progress
        );
        assert_eq!(request.words, ["type=user", "password=$1$xxx", "y=-1", "z=--ttl"]);
        assert_eq!(request.timeout, Some(std::time::Duration::from_secs(5)));
    }

    #[test]
    fn errors_of_numbers_say_what_is_expected() {
        let message = |line: &str| match Cli::parse_arguments(line.split(' ').map(OsString::from)) {
            Err(super::CommandLineMessage::Clap(error)) => error.to_string(),
            other => panic!("{line}: {other:?}"),
        };
        for (line, expected) in [
            (
                "rpc events -t -5",
                "error: '-5' is neither an option of this command nor a positive number",
            ),
            ("rpc find --discovery-timeout -5", "error: '-5' is neither an option"),
            ("rpc run true -t -5", "'--timeout <SECONDS>': expected a whole number"),
            ("rpc do rpcutil ping --expect x", "'--expect <N>': expected a whole number"),
            ("rpc tunnel db1 ssh", "'<PORT>': expected a whole number"),
        ] {
            assert!(message(line).contains(expected), "{line}: {}", message(line));
        }
        assert!(message("rpc events -x").contains("unexpected argument '-x'"));
    }

    #[test]
    fn commands_take_precedence_over_agents() {
        let cli = Cli::parse_arguments(["rpc", "ping"].map(OsString::from)).unwrap();
        assert!(matches!(cli.command, Command::Ping(_)));
        let (_, request) = request("rpc do ping ping");
        assert_eq!(request.agent.as_deref(), Some("ping"));
    }

    #[test]
    fn unknown_subcommands_are_actions_of_the_agent_with_that_name() {
        let (global, request) = request("rpc -v puppet last_run_report logs=true -I web1");
        assert!(global.verbose);
        assert_eq!(request.agent.as_deref(), Some("puppet"));
        assert_eq!(request.words, ["last_run_report", "logs=true"]);
        for line in ["rpc puppet status", "rpc permit list puppet"] {
            let cli = Cli::parse_arguments(line.split(' ').map(OsString::from)).unwrap();
            assert!(!matches!(cli.command, Command::Do(_)), "{line}");
        }
        let wrong = Cli::parse_arguments(["rpc", "job", "lisst"].map(OsString::from)).unwrap_err();
        assert_eq!(wrong.kind(), clap::error::ErrorKind::InvalidSubcommand);
    }

    #[test]
    fn agent_help_comes_from_the_ddl() {
        for line in [
            "rpc rpcutil ping --help",
            "rpc -v rpcutil -h",
            "rpc do rpcutil ping x=1 --help",
            "rpc help rpcutil ping",
        ] {
            assert!(request(line).1.help, "{line}");
        }
        assert!(!request("rpc rpcutil ping").1.help);
        for line in [
            "rpc --help",
            "rpc find --help",
            "rpc do --help",
            "rpc do --resume JOB --help",
            "rpc rpcutil --nonsense --help",
            "rpc help all",
            "rpc help filters",
        ] {
            assert!(Cli::parse_arguments(line.split(' ').map(OsString::from)).is_err(), "{line}");
        }
    }

    #[test]
    fn bare_agent_requests_report_errors_as_do() {
        let read =
            |line: &str| Cli::parse_arguments(line.split(' ').map(OsString::from)).unwrap_err();
        assert_eq!(
            read("rpc rpcutil ping --nonsense").kind(),
            clap::error::ErrorKind::UnknownArgument
        );
        assert_eq!(read("rpc rpcutil --display x").kind(), clap::error::ErrorKind::ValueValidation);
    }
}
