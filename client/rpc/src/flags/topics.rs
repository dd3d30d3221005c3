//! Topics of `rpc help`: groups of options that commands share. `rpc do` has all of them, and its definitions are what a topic shows.

use crate::flags::{approval, filters, output, request_flags, rollout_flags};

/// The heading of the options of every command.
pub const GLOBAL_HEADING: &str = "Global options";

/// A group of options below one heading.
#[derive(Debug)]
pub struct HelpTopic {
    /// The word after `rpc help`.
    pub name: &'static str,
    pub heading: &'static str,
    /// What the options decide.
    pub summary: &'static str,
    /// How they work together.
    pub text: &'static str,
    pub examples: &'static str,
}

pub const TOPICS: &[HelpTopic] = &[
    HelpTopic {
        name: "filters",
        heading: filters::HELP_HEADING,
        summary: "Which nodes",
        text: "\
Conditions of different kinds must all be true, and so must several of one kind;
several -I are alternatives. Without a condition, all nodes are selected. They
are found in the directory if one runs, by broadcast otherwise.",
        examples: "  rpc find -C apache -F os.family=Debian
  rpc find -W \"country=uk apache\"           the same kinds in one option
  rpc find -S \"country=uk and not apache\"
  rpc find -I web[1-40].acme.net -I db1
  rpc filter explain -S \"country=uk\"        what a filter means, in English",
    },
    HelpTopic {
        name: "batches",
        heading: rollout_flags::HELP_HEADING,
        summary: "How many nodes at a time",
        text: "\
Without these options, all nodes receive the request at once. A rollout with
--batch or --canary stops when more nodes fail than --max-failures allows. It is
a job: `rpc do --resume JOB` continues it.",
        examples: "  rpc service restart service=httpd -C web --canary 2 --batch 10%
  rpc service restart service=httpd -C web --batch 5 --max-failures 3
  rpc rpcutil ping --limit 10 --limit-seed 7   ten nodes, at random",
    },
    HelpTopic {
        name: "requests",
        heading: request_flags::HELP_HEADING,
        summary: "Confirmation, noop, jobs",
        text: "\
rpc asks on the terminal before it changes many nodes. A request that may change
nodes is stored as a job, which `rpc job show` and `rpc job undo` take.",
        examples: "  rpc puppetral do type=user name=rip --noop
  rpc service restart service=httpd -C web --yes --job restart
  rpc do --retry-failed restart",
    },
    HelpTopic {
        name: "output",
        heading: output::HELP_HEADING,
        summary: "Form of the results",
        text: "\
Results are text for people unless an option selects another form. They go to
standard output, messages to standard error. `rpc schema` prints the schema of
each document.",
        examples: "  rpc service status service=httpd --table
  rpc run uptime --fold
  rpc do rpcutil ping -j --jq '.replies[].sender'",
    },
    HelpTopic {
        name: "approval",
        heading: approval::HELP_HEADING,
        summary: "Approval by a second user",
        text: "\
A policy of a node can require that a second user approves a request. The first
user writes a proposal, the second one approves it with `rpc approve`, and the
first one sends it.",
        examples: "  rpc service stop service=httpd -C web --request-approval stop.json
  rpc approve stop.json
  rpc service stop service=httpd --approve stop.json.approved",
    },
    HelpTopic {
        name: "options",
        heading: GLOBAL_HEADING,
        summary: "Options of every command",
        text: "\
They can be before or after the command. `rpc --help` lists exit codes and
environment variables.",
        examples: "  rpc --context staging find
  rpc find -v --utc",
    },
];

/// The topic of the options below this heading.
pub fn find_topic(heading: &str) -> Option<&'static HelpTopic> {
    TOPICS.iter().find(|topic| topic.heading == heading)
}
