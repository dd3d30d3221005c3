//! What is loaded before there is a connection: the settings, and by them the schemas and the data sources.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_calls::DataDdlStore;

use crate::context_selection::ConfigSelection;
use crate::ddl_cache::DdlCache;
use crate::error::FleetRequestError;
use crate::plan::AgentSchemas;
use crate::settings::{RpcSettings, RpcSettingsError};

/// The configuration, read once. An error in it is kept, so that errors in a request are reported before a missing configuration.
#[derive(Debug)]
pub struct Offline(Result<RpcSettings, Arc<RpcSettingsError>>);

impl Offline {
    /// Reads the selected configuration. `caches` is the directory of cached data; `credentials` replaces the configured file.
    pub fn load(
        selection: &ConfigSelection<'_>,
        caches: Option<PathBuf>,
        credentials: Option<&Path>,
    ) -> Self {
        let load = || {
            let selected = selection.select()?;
            let mut settings = RpcSettings::load(&selected.file)?;
            settings.context = selected.context;
            settings.caches = caches;
            if let Some(credentials) = credentials {
                credentials.clone_into(&mut settings.credentials);
            }
            Ok(settings)
        };
        Self(load().map_err(Arc::new))
    }

    /// The settings, or why they cannot be used.
    pub fn settings(&self) -> Result<&RpcSettings, FleetRequestError> {
        self.0.as_ref().map_err(|error| Arc::clone(error).into())
    }

    /// The settings; `None` without a configuration file, for what works without one.
    pub fn settings_if_any(&self) -> Result<Option<&RpcSettings>, FleetRequestError> {
        match &self.0 {
            Err(error) if matches!(**error, RpcSettingsError::NotFound(_)) => Ok(None),
            _ => self.settings().map(Some),
        }
    }

    /// All known schemas: built-in ones, those of the user's directory, and those that were fetched from nodes. Without a configuration file only the built-in ones.
    pub fn load_schemas(&self) -> Result<AgentSchemas, FleetRequestError> {
        let settings = self.settings_if_any()?;
        let mut schemas = AgentSchemas::load(settings)?;
        if let Some(settings) = settings {
            schemas.add_cached(DdlCache::for_settings(settings).load_all());
        }
        Ok(schemas)
    }

    /// The known data sources: built-in ones and those of the user's directory. A configuration that cannot be used counts as none, because what needs the
    /// settings reports it.
    pub fn load_data_sources(&self) -> Result<DataDdlStore, FleetRequestError> {
        let directory = self.0.as_ref().ok().map(|settings| settings.ddls.as_path());
        Ok(DataDdlStore::load(directory)?)
    }
}
