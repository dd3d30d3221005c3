//! What every command that asks the fleet is given: where its configuration may be, and where it prints.

use std::collections::BTreeSet;
use std::path::Path;

use muster_client::DataStore;
use muster_wire::identity::Identity;
use serde::Serialize;

use super::form::{FormError, JsonForm, Stopped};
use crate::ask::{AskError, Kept, Schemas, Target};
use crate::cli::filters::Filters;
use crate::completion::memory::Memory;
use crate::environment::Environment;
use crate::error::Error;
use crate::printer::Printer;
use crate::render::json;
use crate::report::Report;
use crate::settings::{Settings, SettingsError};

/// A command's surroundings.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// What `--config` says.
    pub config: Option<&'a Path>,
    /// The environment.
    pub environment: &'a Environment,
    /// Where to print.
    pub printer: &'a Printer,
}

impl Context<'_> {
    /// The settings, their oddities told.
    pub fn settings(&self) -> Result<Settings, SettingsError> {
        let settings = Settings::load(self.config, self.environment)?;
        self.printer
            .detail(format_args!("configuration: {}", settings.file.display()));
        for warning in &settings.warnings {
            self.printer.warn(warning);
        }
        Ok(settings)
    }

    /// The settings, for a command that can do without.
    pub fn settings_if_any(&self) -> Result<Option<Settings>, SettingsError> {
        match self.settings() {
            Ok(settings) => Ok(Some(settings)),
            Err(SettingsError::Nowhere(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All schemas that are known here: built in, of the user's directory, fetched from nodes.
    pub fn schemas(&self, settings: Option<&Settings>) -> Result<Schemas, AskError> {
        let mut schemas = Schemas::load(settings)?;
        if let Some(settings) = settings {
            for (agent, at) in schemas.add_kept(Kept::of(settings, self.environment).all()) {
                self.printer.detail(format_args!(
                    "agent {agent}: the DDL that was fetched at {at}"
                ));
            }
        }
        Ok(schemas)
    }

    /// The nodes that are meant. Expressions are checked against the data sources of the configuration's directory, if
    /// there is one; what else is wrong with a configuration is told by whoever needs it.
    pub fn target(&self, flags: &Filters) -> Result<Target, Error> {
        let settings = Settings::load(self.config, self.environment).ok();
        let directory = settings.map(|settings| settings.ddls);
        let data = DataStore::load(directory.as_deref()).map_err(AskError::from)?;
        Ok(Target::read(flags, &data)?)
    }

    /// Keeps names of nodes for completion.
    pub fn remember<'n>(&self, nodes: impl IntoIterator<Item = &'n Identity>) {
        let nodes = nodes.into_iter().map(Identity::to_string).collect();
        let facts = BTreeSet::new();
        Memory::add(self.environment, Memory { nodes, facts });
    }

    /// Prints a document, or what the expression makes of it.
    pub fn json(&self, document: &impl Serialize, form: &JsonForm) -> Result<(), Error> {
        match &form.0 {
            None => {
                let text = json::text(document).map_err(AskError::from)?;
                Ok(self.printer.line(text)?)
            }
            Some(jq) => {
                let document = serde_json::to_vec(document).map_err(AskError::from)?;
                jq.run(document, |text| {
                    self.printer.line(text).map_err(Stopped::Output)
                })
                .map_err(|stopped| match stopped {
                    Stopped::Output(error) => error.into(),
                    Stopped::Jq(source) => FormError::Jq { source }.into(),
                })
            }
        }
    }

    /// Tells loudly whatever makes a report less than the truth.
    pub fn warn_of_gaps(&self, report: &Report) {
        for gap in &report.stats.gaps {
            self.printer
                .warn(format_args!("incomplete: {}", gap.sentence()));
        }
        for (word, count) in &report.stats.disbelieved {
            self.printer
                .warn(format_args!("{count} answers were not believed ({word})"));
        }
    }
}
