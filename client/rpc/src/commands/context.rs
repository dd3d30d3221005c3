//! What every command that asks the fleet is given: where its configuration may be, and where it prints.

use std::collections::BTreeSet;
use std::path::Path;

use muster_client::DataDdlStore;
use muster_wire::identity::Identity;
use serde::Serialize;

use super::form::{JqRunError, JsonForm, OutputFormError};
use crate::ask::{AgentSchemas, DdlCache, FleetRequestError, TargetSelection};
use crate::cli::filters::FilterArgs;
use crate::completion::memory::SeenNamesCache;
use crate::environment::ProcessEnvironment;
use crate::error::Error;
use crate::printer::OutputPrinter;
use crate::render::json;
use crate::report::RequestReport;
use crate::settings::{RpcSettings, RpcSettingsError};

/// A command's surroundings.
#[derive(Debug, Clone, Copy)]
pub struct CommandContext<'a> {
    /// What `--config` says.
    pub config: Option<&'a Path>,
    /// The environment.
    pub environment: &'a ProcessEnvironment,
    /// Where to print.
    pub printer: &'a OutputPrinter,
}

impl CommandContext<'_> {
    /// The settings, their oddities told.
    pub fn load_settings(&self) -> Result<RpcSettings, RpcSettingsError> {
        let settings = RpcSettings::load(self.config, self.environment)?;
        self.printer
            .print_detail(format_args!("configuration: {}", settings.file.display()));
        for warning in &settings.warnings {
            self.printer.print_warning(warning);
        }
        Ok(settings)
    }

    /// The settings, for a command that can do without.
    pub fn load_settings_if_any(&self) -> Result<Option<RpcSettings>, RpcSettingsError> {
        match self.load_settings() {
            Ok(settings) => Ok(Some(settings)),
            Err(RpcSettingsError::Nowhere(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All schemas that are known here: built in, of the user's directory, fetched from nodes.
    pub fn load_schemas(
        &self,
        settings: Option<&RpcSettings>,
    ) -> Result<AgentSchemas, FleetRequestError> {
        let mut schemas = AgentSchemas::load(settings)?;
        if let Some(settings) = settings {
            for (agent, at) in
                schemas.add_cached(DdlCache::for_settings(settings, self.environment).load_all())
            {
                self.printer.print_detail(format_args!(
                    "agent {agent}: the DDL that was fetched at {at}"
                ));
            }
        }
        Ok(schemas)
    }

    /// The nodes that are meant. Expressions are checked against the data sources of the configuration's directory, if
    /// there is one; what else is wrong with a configuration is told by whoever needs it.
    pub fn read_target(&self, flags: &FilterArgs) -> Result<TargetSelection, Error> {
        let settings = RpcSettings::load(self.config, self.environment).ok();
        let directory = settings.map(|settings| settings.ddls);
        let data = DataDdlStore::load(directory.as_deref()).map_err(FleetRequestError::from)?;
        Ok(TargetSelection::from_flags(flags, &data)?)
    }

    /// Keeps names of nodes for completion.
    pub fn remember_nodes<'n>(&self, nodes: impl IntoIterator<Item = &'n Identity>) {
        let nodes = nodes.into_iter().map(Identity::to_string).collect();
        let facts = BTreeSet::new();
        SeenNamesCache::add_names(self.environment, SeenNamesCache { nodes, facts });
    }

    /// Prints a document, or what the expression makes of it.
    pub fn print_json(&self, document: &impl Serialize, form: &JsonForm) -> Result<(), Error> {
        match &form.0 {
            None => {
                let text = json::to_safe_text(document).map_err(FleetRequestError::from)?;
                Ok(self.printer.print_line(text)?)
            }
            Some(jq) => {
                let document = serde_json::to_vec(document).map_err(FleetRequestError::from)?;
                jq.run(document, |text| {
                    self.printer.print_line(text).map_err(JqRunError::Output)
                })
                .map_err(|stopped| match stopped {
                    JqRunError::Output(error) => error.into(),
                    JqRunError::Jq(source) => OutputFormError::Jq { source }.into(),
                })
            }
        }
    }

    /// Tells loudly whatever makes a report less than the truth.
    pub fn warn_of_gaps(&self, report: &RequestReport) {
        for gap in &report.stats.gaps {
            self.printer
                .print_warning(format_args!("incomplete: {}", gap.as_sentence()));
        }
        for (word, count) in &report.stats.disbelieved {
            self.printer
                .print_warning(format_args!("{count} answers were not believed ({word})"));
        }
    }
}
