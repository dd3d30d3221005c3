//! `rpcd motd`: writes the message of the day and the prompt without the daemon, or prints a text.
//!
//! Manifests call it after they changed fragments; the daemon would do the same within seconds.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use muster_agents::motd::NodeSnapshot;
use muster_api::HistoryRecorder;
use muster_api::base::error_chain;
use muster_engine::types::motd_fragment::FragmentTarget;
use muster_node::config::Config;
use muster_node::machine::classes::ClassStore;
use muster_node::machine::facts::{FactMachines, FactStore};
use muster_node::machine::node_state::NodeStateStore;
use muster_node::trust::enrolment;
use muster_system::System;
use muster_system::real::RealSystem;

use crate::process::terminal::escape_text;
use crate::services::agents::{self, BrokerHandles};

/// What `rpcd motd` takes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rpcd motd                 write the files of [plugins.motd] that differ
  rpcd motd --print         print the message of the day; write nothing
  rpcd motd --print issue

Exit codes: 0 success, 1 a fragment is left out or a file could not be written.")]
pub struct MotdArgs {
    /// Print a text, motd (the default) or issue, instead of writing files
    #[arg(long, value_name = "TEXT", num_args = 0..=1, default_missing_value = "motd", hide_possible_values = true)]
    print: Option<PrintedText>,
}

/// A text that can be printed.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum PrintedText {
    /// The message after a login
    Motd,
    /// The text before a login
    Issue,
}

pub fn write_motd(arguments: &MotdArgs, config_file: &Path) -> anyhow::Result<ExitCode> {
    let config = enrolment::effective_config(&Config::load(config_file)?)?;
    let handles = BrokerHandles::new(config.identity.clone());
    let plugins = agents::configured_plugins(&config, &handles, HistoryRecorder::default())?;
    let system = RealSystem::new(config.paths.root.clone());
    let state = NodeStateStore::new(plugins.state_sources, plugins.state_changes);
    let (node, mut problems) = read_node(&config, &system, &state);
    if let Some(text) = arguments.print {
        let target = match text {
            PrintedText::Motd => FragmentTarget::Motd,
            PrintedText::Issue => FragmentTarget::Issue,
        };
        let (text, left_out) = plugins.background.motd.text(&system, &node, target);
        print_text(&text);
        problems.extend(left_out);
    } else {
        problems.extend(plugins.background.motd.refresh(&system, &node).problems);
    }
    report_problems(&problems);
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reads facts, classes and state as the daemon does.
fn read_node(
    config: &Config,
    system: &dyn System,
    state: &NodeStateStore,
) -> (NodeSnapshot, Vec<String>) {
    let facts = FactStore::new(config.fact_sources());
    let host = RealSystem::new("/".into());
    let fact_problems = facts.reload(FactMachines { node: system, host: &host });
    let classes = ClassStore::new(config.paths.classes.clone());
    let class_problem = classes.reload().err();
    state.refresh(system);
    let problems = fact_problems.iter().map(|problem| error_chain(problem));
    let problems = problems.chain(class_problem.iter().map(|problem| error_chain(problem)));
    let node = NodeSnapshot {
        identity: config.identity.to_string(),
        facts: facts.current(),
        classes: classes.current(),
        state: state.current(),
    };
    (node, problems.collect())
}

#[expect(clippy::print_stdout, reason = "the text is this command's output")]
fn print_text(text: &str) {
    print!("{text}");
}

#[expect(clippy::print_stderr, reason = "the command has no log")]
fn report_problems(problems: &[String]) {
    for problem in problems {
        eprintln!("rpcd: {}", escape_text(problem));
    }
}
