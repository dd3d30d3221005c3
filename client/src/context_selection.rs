//! Selects the client configuration: from a flag, a variable, the selected context or the default files, in this order.

use std::path::{Path, PathBuf};

use crate::contexts::{ContextError, ContextName, ContextStore};
use crate::settings::{RpcSettings, RpcSettingsError};

/// What can select the configuration.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConfigSelection<'a> {
    /// The file of `--config`.
    pub config: Option<&'a Path>,
    /// The name of `--context`.
    pub context: Option<&'a str>,
    /// The file of `RPC_CONFIG`.
    pub config_variable: Option<&'a Path>,
    /// The name of `RPC_CONTEXT`.
    pub context_variable: Option<&'a str>,
    /// The user's configuration directory.
    pub config_home: Option<&'a Path>,
}

/// A selected configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedConfig {
    /// The file.
    pub file: PathBuf,
    /// The context that names it; `None` for a file and for the default.
    pub context: Option<ContextName>,
    /// What selected it, for messages.
    pub origin: &'static str,
}

impl ConfigSelection<'_> {
    /// Selects the configuration. A variable does not apply if a flag is given; two variables at once are an error, because it is not clear which
    /// fleet is meant.
    pub fn select(&self) -> Result<SelectedConfig, RpcSettingsError> {
        if let Some(file) = self.config {
            return Ok(of_file(file, "--config"));
        }
        if let Some(name) = self.context {
            return self.find_context(name, "--context");
        }
        match (self.config_variable, self.context_variable) {
            (Some(_), Some(_)) => return Err(ContextError::TwoVariables.into()),
            (Some(file), None) => return Ok(of_file(file, "RPC_CONFIG")),
            (None, Some(name)) => return self.find_context(name, "RPC_CONTEXT"),
            (None, None) => {}
        }
        let store = ContextStore::new(self.config_home).ok();
        let selected = store.map(|store| store.selected()).transpose()?.flatten();
        match selected {
            Some(name) => self.find_context(name.as_str(), "rpc context use"),
            None => self.find_default("the default"),
        }
    }

    fn find_context(
        &self,
        name: &str,
        origin: &'static str,
    ) -> Result<SelectedConfig, RpcSettingsError> {
        let name = ContextName::parse(name)?;
        if name.is_default() {
            return self.find_default(origin);
        }
        let found = ContextStore::new(self.config_home)?.find(&name)?;
        Ok(SelectedConfig { file: found.file, context: Some(name), origin })
    }

    fn find_default(&self, origin: &'static str) -> Result<SelectedConfig, RpcSettingsError> {
        let file = RpcSettings::find_file(None, self.config_home)?;
        Ok(SelectedConfig { file, context: None, origin })
    }
}

fn of_file(file: &Path, origin: &'static str) -> SelectedConfig {
    SelectedConfig { file: file.to_owned(), context: None, origin }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::ConfigSelection;
    use crate::contexts::{ContextName, ContextStore};

    #[test]
    fn flags_precede_variables_and_these_precede_the_selected_context() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join("muster");
        std::fs::create_dir_all(own.join("contexts")).unwrap();
        let contexts = own.join("contexts").canonicalize().unwrap();
        for file in ["rpc.toml", "contexts/a.toml", "contexts/b.toml"] {
            std::fs::write(own.join(file), "").unwrap();
        }
        let store = ContextStore::new(Some(home.path())).unwrap();
        store.select(&ContextName::parse("a").unwrap()).unwrap();
        let base = ConfigSelection { config_home: Some(home.path()), ..Default::default() };
        let file = Some(Path::new("/x.toml"));
        let cases = [
            (base, "a.toml", "rpc context use"),
            (ConfigSelection { context_variable: Some("b"), ..base }, "b.toml", "RPC_CONTEXT"),
            (ConfigSelection { config_variable: file, ..base }, "x.toml", "RPC_CONFIG"),
            (
                ConfigSelection { context: Some("b"), config_variable: file, ..base },
                "b.toml",
                "--context",
            ),
            (
                ConfigSelection { config: file, context_variable: Some("b"), ..base },
                "x.toml",
                "--config",
            ),
            (ConfigSelection { context: Some("default"), ..base }, "rpc.toml", "--context"),
        ];
        for (selection, expected, origin) in cases {
            let found = selection.select().unwrap();
            assert_eq!(
                (found.file.file_name().unwrap(), found.origin),
                (expected.as_ref(), origin)
            );
            if expected == "b.toml" {
                assert_eq!(found.file, contexts.join("b.toml"));
            }
        }
        let both = ConfigSelection { config_variable: file, context_variable: Some("b"), ..base };
        assert!(both.select().unwrap_err().to_string().contains("RPC_CONTEXT"));
        let unknown = ConfigSelection { context: Some("c"), ..base };
        assert!(unknown.select().unwrap_err().to_string().contains("no context `c`"));
    }
}
