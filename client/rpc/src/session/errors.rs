//! Hints and exit codes of requests, their configuration, approvals and inventories.

use std::path::{Path, PathBuf};

use muster_calls::discovery::inventory::InventoryError;
use muster_calls::{ClientError, ServiceCallError};
use muster_client::{
    ApprovalFileError, CallerSummaryError, ContextError, DdlFetchError, FleetRequestError,
    RpcSettingsError,
};
use muster_files::files::FileAccessError;
use muster_operations::ssh::{SshCertificateError, SshNodeError};

use crate::outcome::error::CommandError;
use crate::outcome::exit::CommandExitCode;

const UNFILTERED_HINT: &str = "specify the nodes, for example with `-W country=uk`, `-C apache` or `--nodes FILE`; `-I /./` selects every node";

const SKIP_INPUT_CHECK_HINT: &str = "nothing was sent; if the nodes accept it, because they have another version or resource types of their own, add `--skip-input-check`";

const LARGE_INPUT_HINT: &str =
    "nothing was sent; copy large files by other means, for example from a package or a web server";

impl CommandError for FleetRequestError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Filter { flag, .. } => vec![filter_example(flag).to_owned()],
            Self::UnknownAgent { agent, nearest, command, ddls } => {
                let command = command.as_ref();
                let command =
                    command.map(|command| format!("did you mean the command `rpc {command}`?"));
                let nearest =
                    nearest.as_ref().map(|agent| format!("did you mean the agent `{agent}`?"));
                let ruby = is_ruby_ddl(Path::new(agent)).then(|| convert_hint(Path::new(agent)));
                let mut hints: Vec<String> =
                    ruby.into_iter().chain(command).chain(nearest).collect();
                hints.push("run `rpc plugin list` to list the known agents".to_owned());
                if let Some(directory) = ddls {
                    hints.push(
                        "run `rpc plugin fetch AGENT` to get the DDL from the nodes".to_owned(),
                    );
                    hints.push(format!("put DDLs of other agents into {}", directory.display()));
                }
                hints
            }
            Self::UnknownAction { agent, nearest, .. } => {
                let nearest =
                    nearest.iter().map(|action| format!("did you mean `rpc do {agent} {action}`?"));
                nearest.chain([documentation_hint(agent)]).collect()
            }
            Self::UnusableDdl { .. } => {
                vec!["run `rpc plugin check FILE` for the position of the problem".to_owned()]
            }
            Self::Unfiltered { .. } => vec![UNFILTERED_HINT.to_owned()],
            Self::Settings(error) => error.hints(),
            Self::Job(error) => error.hints(),
            Self::Input { source, .. } if source.is_about_attributes() => {
                vec![SKIP_INPUT_CHECK_HINT.to_owned()]
            }
            Self::InputsTooLarge { .. } | Self::Client(ClientError::RequestTooLarge { .. }) => {
                vec![LARGE_INPUT_HINT.to_owned()]
            }
            Self::NoAction { agent, .. }
            | Self::NoNoop { agent, .. }
            | Self::Input { agent, .. } => {
                vec![documentation_hint(agent)]
            }
            Self::Fetch(error) => fetch_hint(error).map(str::to_owned).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::Filter { .. }
            | Self::InvalidInputFormat(_)
            | Self::UnknownAgent { .. }
            | Self::UnknownAction { .. }
            | Self::NoAction { .. }
            | Self::NoNoop { .. }
            | Self::DiscoveryOption(_)
            | Self::UnsupportedCondition(_)
            | Self::Unfiltered { .. }
            | Self::Client(
                ClientError::ForeignInbox { .. } | ClientError::UnknownCollective { .. },
            )
            | Self::InputsTooLarge { .. }
            | Self::Input { .. } => CommandExitCode::Usage,
            Self::Settings(error) => error.exit_code(),
            Self::Job(error) => error.exit_code(),
            _ => CommandExitCode::Local,
        }
    }
}

/// A change of all nodes must be asked for.
#[derive(Debug, thiserror::Error)]
#[error("`{command}` without a filter {effect} all nodes")]
pub struct AllNodesError {
    pub command: String,
    pub effect: &'static str,
}

impl CommandError for AllNodesError {
    fn hints(&self) -> Vec<String> {
        vec!["name nodes with a filter such as -C CLASS, or add --all".to_owned()]
    }

    fn exit_code(&self) -> CommandExitCode {
        CommandExitCode::Usage
    }
}

impl CommandError for ServiceCallError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Denied(service, _) => vec![format!(
                "the policy `{service}.policy` on the hosts of the service decides who may use it"
            )],
            _ => Vec::new(),
        }
    }

    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::Denied(..) | Self::Refused(..) => CommandExitCode::SomeFailed,
            Self::Timeout(_) => CommandExitCode::NoneAnswered,
            _ => CommandExitCode::Local,
        }
    }
}

impl CommandError for SshNodeError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Record(error) => error.hints(),
            Self::Unknown(_) => vec![
                "`rpc nodes` lists the nodes; `--own-host-keys` connects to a name that is not among them"
                    .to_owned(),
            ],
            Self::Address { node, .. } => vec![format!("run `rpc node {node}` for its facts")],
            Self::HostKey { node, .. } => {
                vec![format!("run `rpc node {node}` for its keys; --own-host-keys ignores them")]
            }
            Self::Shared(_) => vec![
                "give each machine its own keys, and forget an old record with `rpc nodes --forget NODE`; --own-host-keys ignores them".to_owned(),
            ],
        }
    }

    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::Record(error) => error.exit_code(),
            Self::Unknown(_) | Self::Address { .. } | Self::HostKey { .. } | Self::Shared(_) => {
                CommandExitCode::Local
            }
        }
    }
}

impl CommandError for SshCertificateError {
    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NoAuthority => {
                "an administrator creates it with `rpc org ssh-ca create`; if that was done, install the new account.jwt or connect again"
            }
            Self::NoSigner => {
                "configure `key` of [plugins.ssh_ca] on a service host, or let an administrator run `rpc org ssh-ca sign`"
            }
            Self::Denied { .. } => "the file ssh_ca.policy of that host says who gets certificates",
            Self::Unusable { .. } => {
                "check the key of [plugins.ssh_ca] on that host: `rpc org ssh-ca show` prints the keys that nodes trust"
            }
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}

fn documentation_hint(agent: &str) -> String {
    format!("run `rpc plugin doc {agent}` for the actions and their inputs")
}

fn filter_example(flag: &str) -> &'static str {
    match flag {
        "--with-fact" => {
            "write it like `-F customer=acme`, `-F os.family=Debian`, `-F processors>=4` or `-F role=/^web/`"
        }
        "--with-class" => "write it like `-C mysql::master` or `-C /^role::/`",
        "--with-agent" => "write it like `-A puppetral` or `-A /^pup/`",
        "--with-identity" => "write it like `-I db1.acme.net` or `-I /^web/`",
        "--select" => "write it like `-S '(country=uk or customer=acme) and not apache'`",
        "--query" => "write it like `-Q \"{ 'facts.country': 'uk', classes: apache }\"`",
        _ => "write it like `-W \"environment=development mysql::master\"`",
    }
}

fn fetch_hint(error: &DdlFetchError) -> Option<&'static str> {
    match error {
        DdlFetchError::NoReplies(..) => {
            Some("run `rpc find -A AGENT` to list the nodes that offer an agent")
        }
        DdlFetchError::DifferentDdls(..) => {
            Some("use filters to fetch from some nodes only, or install one version on all nodes")
        }
        _ => None,
    }
}

impl CommandError for RpcSettingsError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::NotFound(_) => vec![
                "run `rpc org add user NAME --bundle ~/.config/muster` to create one".to_owned(),
                "run `rpc demo up` to try a demo fleet; it prints the path of its configuration"
                    .to_owned(),
            ],
            Self::Context(error) => error.hints(),
            Self::File(FileAccessError::TooLarge { .. }) => {
                vec!["check that it is a configuration file".to_owned()]
            }
            _ => Vec::new(),
        }
    }

    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::Context(error) => error.exit_code(),
            _ => CommandExitCode::Local,
        }
    }
}

impl CommandError for ContextError {
    fn hints(&self) -> Vec<String> {
        match self {
            Self::Unknown { nearest: Some(nearest), .. } => {
                vec![format!("did you mean `{nearest}`? `rpc context list` lists all of them")]
            }
            Self::Unknown { directory, .. } => vec![
                "run `rpc context list` to list the contexts".to_owned(),
                format!(
                    "run `rpc org add user NAME --bundle {}/CONTEXT` to create one",
                    directory.display()
                ),
            ],
            Self::TwoVariables => vec!["unset one of them".to_owned()],
            _ => Vec::new(),
        }
    }

    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::Name(_) => CommandExitCode::Usage,
            _ => CommandExitCode::Local,
        }
    }
}

impl CommandError for CallerSummaryError {
    fn hints(&self) -> Vec<String> {
        vec!["run `rpc doctor` to check the configuration".to_owned()]
    }
}

impl CommandError for ApprovalFileError {
    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Differs(_) => "run `rpc approve --show FILE` to see what a proposal requests",
            Self::OwnProposal(_) => {
                "send the file to a user that the node's policy allows to approve it"
            }
            Self::File(FileAccessError::System { action: "write", .. }) => {
                "existing files are not overwritten; choose another name"
            }
            Self::File(FileAccessError::TooLarge { .. }) => "check that it is the right file",
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }

    fn exit_code(&self) -> CommandExitCode {
        match self {
            Self::WithFilters | Self::Differs(_) => CommandExitCode::Usage,
            _ => CommandExitCode::Local,
        }
    }
}

/// Whether a file is a DDL of `MCollective`, by its name.
pub fn is_ruby_ddl(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "ddl")
}

pub fn convert_hint(path: &Path) -> String {
    format!("this is a DDL of MCollective in Ruby; run `rpc plugin convert {}`", path.display())
}

#[derive(Debug, thiserror::Error)]
pub enum InventoryFileError {
    #[error("{} exists already; use `--update` to rewrite it and keep its groups", path.display())]
    Exists { path: PathBuf },
    #[error("the inventory in {} cannot be used", path.display())]
    Inventory { path: PathBuf, source: InventoryError },
}

impl CommandError for InventoryFileError {}

#[cfg(test)]
mod tests {
    use muster_calls::DataDdlStore;
    use muster_client::{
        AgentSchemas, FleetRequestError, RequestPlan, RequestWords, TargetOptions, TargetSelection,
    };

    use crate::outcome::error::CommandError as _;
    use crate::outcome::exit::CommandExitCode;

    fn plan(words: &str) -> Result<(), FleetRequestError> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let words = RequestWords::parse(&words[0], &words[1..])?;
        let commands = ["ping", "find", "facts"].map(str::to_owned).to_vec();
        let mut schemas = AgentSchemas::load(None).unwrap();
        schemas.commands = commands;
        let (ddl, action) = schemas.find_action(&words)?;
        RequestPlan::new(ddl, action, &words.inputs).map(drop)
    }

    #[test]
    fn invalid_requests_are_usage_errors_with_hints() {
        for words in [
            "puppetral type=user",
            "puppetral find type=user nam=rip",
            "puppetral find type=user name=rip name=rap",
            "puppetral find type=_ name=rip",
            "puppetral type=user name=rip noop=perhaps",
            "rpcutil",
            "rpcutil fact=x",
            "rpcutil pong",
            "rpcutl ping",
        ] {
            let error = plan(words).unwrap_err();
            assert_eq!(error.exit_code(), CommandExitCode::Usage, "{words}");
            assert!(!error.hints().is_empty(), "{words}");
        }
        assert_eq!(plan("a b c").unwrap_err().exit_code(), CommandExitCode::Usage);
    }

    #[test]
    fn errors_suggest_similar_names() {
        let hints = |words| plan(words).unwrap_err().hints().join("\n");
        assert!(hints("rpcutil pong").contains("`rpc do rpcutil ping`"));
        assert!(hints("rpcutl ping").contains("`rpcutil`"));
        assert!(hints("fact country").contains("`rpc facts`"));
    }

    #[test]
    fn invalid_selections_are_usage_errors() {
        let data = DataDdlStore::load(None).unwrap();
        let words = TargetOptions { mixed: vec!["=x".into()], ..TargetOptions::default() };
        let select = TargetOptions { select: vec!["fstat()".into()], ..TargetOptions::default() };
        for options in [words, select] {
            let error = TargetSelection::parse(options, &data).unwrap_err();
            assert_eq!((error.exit_code(), error.hints().len()), (CommandExitCode::Usage, 1));
        }
        let groups =
            TargetOptions { identities: vec!["group:web".into()], ..TargetOptions::default() };
        let error =
            TargetSelection::parse(groups, &data).unwrap().discovery_source(None).unwrap_err();
        assert_eq!(error.exit_code(), CommandExitCode::Usage);
    }
}
