//! The context of every command that sends requests: configuration path, environment and printer.

use std::borrow::Cow;
use std::cell::{Cell, LazyCell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use muster_base::error_chain;
use muster_calls::DataDdlStore;
use muster_client::{
    AgentSchemas, ConfigSelection, ConfirmContext, ConfirmDecision, ContextName, FleetConnection,
    FleetRequestError, Offline, RequestPlan, RequestReport, ResultGap, RpcSettings, TargetOptions,
    TargetSelection, fleet_name,
};
use muster_display::json;
use muster_display::printer::{OutputPrinter, VerbosityLevel};
use muster_display::{count_text, list_first_nodes, node_count_text};
use muster_organisation::{Organisation, OrganisationError};
use muster_wire::identity::Identity;
use serde::Serialize;

use crate::flags::filters::FilterArgs;
use crate::flags::named_nodes::expand_identities;
use crate::flags::org_directory::OrgDirectoryArgs;
use crate::session::change_scope::ChangeScope;
use crate::session::environment::ProcessEnvironment;
use crate::session::form::{JsonForm, OutputFormError};
use crate::session::suggest::is_short_name;
use crate::session::terminal::{PromptError, ask_confirmation, is_terminal};

/// Every command uses these.
pub use crate::outcome::error::{CommandError, Error, Result, ResultWriteError};
pub use crate::outcome::exit::CommandExitCode;

/// How a command ends: with an exit code, or with an error.
pub type CommandResult = Result<CommandExitCode>;

/// Most nodes that a warning names.
const MAX_NAMED_NODES: usize = 4;

/// The configuration of a command.
#[derive(Debug, Default)]
pub struct Configuration {
    /// Read by the first that needs it.
    offline: OnceCell<Offline>,
    /// Whether its warnings were printed.
    announced: Cell<bool>,
}

#[derive(Debug, Clone, Copy)]
pub struct CommandContext<'a> {
    /// Value of `--config`.
    pub config: Option<&'a Path>,
    /// Value of `--context`.
    pub context: Option<&'a str>,
    pub environment: &'a ProcessEnvironment,
    pub configuration: &'a Configuration,
    pub printer: &'a OutputPrinter,
}

impl<'a> CommandContext<'a> {
    pub fn is_verbose(&self) -> bool {
        self.printer.verbosity_level() == VerbosityLevel::Verbose
    }

    /// Width of the data output, in columns.
    pub fn width(&self) -> usize {
        self.printer.screen().width
    }

    /// Width of tables in the data output, in columns.
    pub fn table_width(&self) -> usize {
        self.printer.screen().table_width
    }

    pub fn open_organisation(
        &self,
        directory: &OrgDirectoryArgs,
    ) -> Result<Organisation, OrganisationError> {
        Organisation::open_selected(
            directory.org.as_deref(),
            self.environment.organisation.as_deref(),
            self.environment.default_organisation().as_deref(),
        )
    }

    pub fn config_selection(&self) -> ConfigSelection<'a> {
        ConfigSelection {
            config: self.config,
            context: self.context,
            config_variable: self.environment.config.as_deref(),
            context_variable: self.environment.context.as_deref(),
            config_home: self.environment.config_home.as_deref(),
        }
    }

    /// The configuration, read once; nothing is printed.
    pub fn offline(&self) -> &'a Offline {
        self.configuration.offline.get_or_init(|| {
            let ProcessEnvironment { credentials, .. } = self.environment;
            let caches = self.environment.cache_directory();
            Offline::load(&self.config_selection(), caches, credentials.as_deref())
        })
    }

    /// The settings; nothing is printed.
    pub fn settings(&self) -> Result<&'a RpcSettings, FleetRequestError> {
        self.offline().settings()
    }

    /// The settings. The first call prints their warnings.
    pub fn load_settings(&self) -> Result<&'a RpcSettings, FleetRequestError> {
        let settings = self.settings()?;
        self.announce(settings);
        Ok(settings)
    }

    /// Like [`Self::load_settings`], for commands that work without a configuration.
    pub fn load_settings_if_any(&self) -> Result<Option<&'a RpcSettings>, FleetRequestError> {
        let settings = self.offline().settings_if_any()?;
        if let Some(settings) = settings {
            self.announce(settings);
        }
        Ok(settings)
    }

    fn announce(&self, settings: &RpcSettings) {
        if self.configuration.announced.replace(true) {
            return;
        }
        self.printer.print_detail(format_args!("configuration: {}", settings.file.display()));
        for warning in &settings.warnings {
            self.printer.print_warning(warning);
        }
    }

    /// Connects as configured.
    pub async fn connect(
        &self,
        target: &TargetSelection,
    ) -> Result<FleetConnection, FleetRequestError> {
        FleetConnection::connect(self.load_settings()?, target).await
    }

    /// Loads all known schemas, and prints the warnings of the settings and of the schemas.
    pub fn load_schemas(&self) -> Result<AgentSchemas, FleetRequestError> {
        self.load_settings_if_any()?;
        let schemas = self.offline().load_schemas()?;
        for (agent, problem) in schemas.store.problems() {
            let problem = error_chain(problem);
            self.printer.print_warning(format_args!("the agent {agent} is not known: {problem}"));
        }
        for (agent, fetched_at) in &schemas.cached {
            self.printer.print_detail(format_args!(
                "agent {agent}: using the DDL that was fetched at {fetched_at}"
            ));
        }
        Ok(schemas)
    }

    /// Like [`Self::load_schemas`]; fails without a configuration.
    pub fn load_configured_schemas(&self) -> Result<AgentSchemas, FleetRequestError> {
        self.settings()?;
        self.load_schemas()
    }

    /// Parses the target selection. Checks expressions against the data sources in the configuration's directory, if there is one.
    pub fn read_target(&self, flags: &FilterArgs) -> Result<TargetSelection> {
        let data = self.load_data_sources()?;
        let mut options = TargetOptions::from(flags);
        let seen = LazyCell::new(|| self.seen_names());
        options.identities =
            expand_identities(&options.identities, |name| is_short_name(name, &seen));
        Ok(TargetSelection::parse(options, &data)?)
    }

    /// Loads the DDLs of data sources, and prints a warning for each file that cannot be used.
    pub fn load_data_sources(&self) -> Result<DataDdlStore, FleetRequestError> {
        let data = self.offline().load_data_sources()?;
        for problem in data.problems() {
            let problem = error_chain(problem);
            self.printer.print_warning(format_args!("a data source is not known: {problem}"));
        }
        Ok(data)
    }

    /// Prints a document as one line, or the result of the expression on it.
    pub fn print_json_line(&self, document: &impl Serialize, form: &JsonForm) -> Result<()> {
        if form.0.is_some() {
            return self.print_json(document, form);
        }
        let line = json::to_safe_line(document).map_err(ResultWriteError::from)?;
        Ok(self.printer.print_line(line)?)
    }

    /// Prints a document, or the result of the expression on it.
    pub fn print_json(&self, document: &impl Serialize, form: &JsonForm) -> Result<()> {
        match &form.0 {
            None => {
                let text = json::to_safe_text(document).map_err(ResultWriteError::from)?;
                Ok(self.printer.print_text(text + "\n")?)
            }
            Some(jq) => {
                let document = serde_json::to_vec(document).map_err(ResultWriteError::from)?;
                Ok(jq.run::<OutputFormError>(document, |text| {
                    Ok(self.printer.print_value(&format!("{text}\n"))?)
                })?)
            }
        }
    }

    /// Prints the document if JSON is selected, otherwise the text.
    pub fn print_result(
        &self,
        json: Option<&JsonForm>,
        document: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<()> {
        match json {
            Some(form) => self.print_json(document, form),
            None => Ok(self.printer.print_text(text())?),
        }
    }

    /// Prints a warning for each message of failed replies, with the number of nodes: for commands whose table has no row for them.
    pub fn warn_of_failures(&self, report: &RequestReport) {
        let mut messages: BTreeMap<Cow<'_, str>, Vec<&Identity>> = BTreeMap::new();
        for reply in report.failures() {
            messages.entry(reply.message.line()).or_default().push(&reply.node);
        }
        for (message, nodes) in messages {
            let from = match nodes.as_slice() {
                [node] => node.to_string(),
                nodes => node_count_text(nodes.len()),
            };
            self.printer.print_warning(format_args!("{from}: {message}"));
        }
    }

    /// Names nodes that did not reply.
    pub fn warn_of_silent(&self, nodes: &BTreeSet<Identity>) {
        if !nodes.is_empty() {
            let names = list_first_nodes(nodes, MAX_NAMED_NODES, ", ");
            self.printer.print_warning(format_args!("no reply: {names}"));
        }
    }

    /// Prints a warning for everything that makes a report incomplete.
    pub fn warn_of_gaps(&self, report: &RequestReport) {
        for gap in &report.stats.gaps {
            self.warn_of_gap(*gap);
        }
        self.warn_of_rejected(&report.stats.rejected);
        self.warn_of_clones(&report.stats.cloned);
    }

    /// Names nodes under whose name two daemons run.
    pub fn warn_of_clones(&self, nodes: &BTreeSet<Identity>) {
        if !nodes.is_empty() {
            let names = list_first_nodes(nodes, MAX_NAMED_NODES, ", ");
            self.printer.print_warning(format_args!(
                "two daemons with the same name and key are running, as on a machine and its copy; each result is that of one of them: {names}"
            ));
        }
    }

    /// Prints a warning for each reason for which replies failed verification.
    pub fn warn_of_rejected(&self, rejected: &BTreeMap<&'static str, usize>) {
        self.warn_of_rejected_messages(("reply", "replies"), rejected);
    }

    /// Prints a warning for each reason for which messages of a kind failed verification. The kind is given in singular and plural.
    pub fn warn_of_rejected_messages(
        &self,
        (singular, plural): (&str, &str),
        rejected: &BTreeMap<&'static str, usize>,
    ) {
        for (reason, count) in rejected {
            let messages = count_text(*count, singular, plural);
            self.printer.print_warning(format_args!("{messages} failed verification ({reason})"));
        }
    }

    /// Prints a warning for a reason why a result may be incomplete.
    pub fn warn_of_gap(&self, gap: ResultGap) {
        let reason = match gap {
            ResultGap::Discovery => {
                "discovery ended while nodes were still replying, or replies were lost: matching nodes may be missing; use --discovery-timeout to listen longer"
            }
            ResultGap::Reconnected => {
                "the connection to the broker was interrupted: replies may be missing"
            }
            ResultGap::SlowConsumer => {
                "replies arrived faster than they could be processed, and some were dropped"
            }
            ResultGap::Interrupted => "interrupted before all nodes had replied",
            ResultGap::Broken => "a batch could not be sent to all of its nodes",
        };
        self.printer.print_warning(format_args!("incomplete: {reason}"));
    }

    /// Asks for confirmation of a request to this many nodes, if the settings require it. Returns whether the user was asked.
    pub async fn confirm_request(
        &self,
        (read_only, nodes, yes): (bool, usize, bool),
        preview: impl FnOnce() -> String,
    ) -> Result<bool> {
        let settings = self.settings()?;
        let context = ConfirmContext { read_only, nodes, yes, terminal: is_terminal() };
        match settings.confirm.decide(settings.confirm_above, context) {
            ConfirmDecision::Go => Ok(false),
            ConfirmDecision::Refuse => Err(PromptError::Unconfirmed.into()),
            ConfirmDecision::Ask => {
                let question = format!("{}Continue? [y/N]", preview());
                let yes = ask_confirmation(&question, self.printer).await?;
                yes.then_some(true).ok_or(PromptError::Declined.into())
            }
        }
    }

    /// Prints that no request was sent because no nodes matched.
    pub fn report_no_nodes(&self, target: &TargetSelection) {
        self.printer.print_error("no request sent: no nodes found");
        self.printer.print_hint(format_args!(
            "looked for {}; use `rpc find` to test filters",
            target.filter.explain()
        ));
        self.suggest_names(target);
    }
}

/// The fleet, the filter and the inputs of a change, for the question before it. `plan` has the inputs.
pub fn describe_change(
    settings: &RpcSettings,
    target: &TargetSelection,
    plan: &RequestPlan<'_>,
) -> String {
    let collective = target.collective.as_ref().unwrap_or(&settings.collective);
    let method = target.discovery_source(Some(settings)).map(|source| source.method());
    let method = method.ok().filter(|method| !method.asks_fleet());
    let method = method.map(|method| format!(" (found by {method})")).unwrap_or_default();
    let filter = target.filter.explain() + &method;
    let fleet = fleet_name(settings);
    let scope = ChangeScope {
        fleet: fleet.as_deref(),
        context: settings.context.as_ref().map(ContextName::as_str),
        collective: collective.as_str(),
        filter: &filter,
        inputs: &plan.action.redact_input(&plan.data),
    };
    scope.render_text()
}
