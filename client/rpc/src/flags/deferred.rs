//! Arguments of a command that clap defines only when the command is called.
//!
//! The definitions of all commands take a tenth of the time of a call to one node, and a call needs one of them. clap's own `defer` attribute
//! takes the help text from the argument structs and moves the global options to the front, so the definition is deferred here.

use clap::builder::Resettable;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches, Id, Subcommand};

/// Arguments or subcommands `T`, boxed, because the arguments of some commands are large.
#[derive(Debug)]
pub struct Deferred<T>(pub Box<T>);

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(|arguments| Self(Box::new(arguments)))
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(|arguments| Self(Box::new(arguments)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(|command| define(command, T::augment_args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(|command| define(command, T::augment_args_for_update))
    }
}

impl<T: Subcommand> Subcommand for Deferred<T> {
    fn augment_subcommands(command: Command) -> Command {
        command.defer(|command| define(command, T::augment_subcommands))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        command.defer(|command| define(command, T::augment_subcommands_for_update))
    }

    fn has_subcommand(name: &str) -> bool {
        T::has_subcommand(name)
    }
}

/// Adds the definition, keeps the description of the command, and lists the options that it inherited last.
fn define(command: Command, augment: fn(Command) -> Command) -> Command {
    let about = Resettable::from(command.get_about().cloned());
    let long_about = Resettable::from(command.get_long_about().cloned());
    let inherited: Vec<Id> = command.get_arguments().map(|arg| arg.get_id().clone()).collect();
    let defined = augment(command).about(about).long_about(long_about);
    // `mut_arg` appends the argument that it changes.
    inherited.into_iter().fold(defined, |command, id| command.mut_arg(id, |arg| arg))
}
