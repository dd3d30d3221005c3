//! Applies a provisioner's delivery to the files of this daemon: checks the whole result, replaces the files that differ, and requests a restart.
//!
//! `plugins/provision` decides what is accepted. Nothing is written unless the daemon could start with the result. All new files are on disk before
//! the first one is renamed; a crash between two renames leaves files that are each valid, and the repeated delivery replaces the others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use muster_agents::config::{
    DeployedFiles, FileChange, FileChangeError, FileContent, LinkedFiles, compare_files,
    replace_files,
};
use muster_base::error_chain;
use muster_contract::config::{DeployedKind, DeployedName};
use muster_node::config::{Config, SettingOrigin};
use muster_node::trust::policy;
use muster_provision::{
    DeliveredSettings, DeliveryError, DeliveryReport, DeliveryTarget, NodeDelivery, SETTINGS_FILE,
};
use tokio::sync::Notify;

use crate::daemon::check;

/// The files of this daemon that a delivery replaces.
#[derive(Debug)]
pub(crate) struct DaemonFiles {
    /// Absolute; `None` if the configuration was not read from a file.
    config_file: Option<PathBuf>,
    restart_requested: Arc<Notify>,
    /// Whether a file was replaced since the daemon started.
    is_outdated: AtomicBool,
}

impl DaemonFiles {
    pub(crate) fn new(config: &Config, restart_requested: Arc<Notify>) -> Self {
        Self {
            config_file: config.files().first().cloned(),
            restart_requested,
            is_outdated: AtomicBool::new(false),
        }
    }
}

impl DeliveryTarget for DaemonFiles {
    fn apply_delivery(
        &self,
        delivery: &NodeDelivery,
        noop: bool,
    ) -> Result<DeliveryReport, DeliveryError> {
        let config_file = self.config_file.as_deref().ok_or_else(|| {
            DeliveryError::Unusable("the daemon has no configuration file".to_owned())
        })?;
        let config = check_settings(config_file, delivery.settings.as_ref())?;
        check_policies(&config, delivery)?;
        let changes = compare_with_disk(config_file, &config, delivery).map_err(file_error)?;
        if !noop && !changes.is_empty() {
            // Before the first file changes.
            self.is_outdated.store(true, Ordering::Release);
            replace_files(&changes).map_err(file_error)?;
        }
        let restarting = !noop && self.is_outdated.load(Ordering::Acquire);
        if restarting {
            self.restart_requested.notify_one();
        }
        let files = changes.into_iter().map(|change| change.path).collect();
        Ok(DeliveryReport { files, restarting })
    }
}

/// The configuration with the delivered settings, if the daemon could start with it and all of them would be in force.
fn check_settings(
    config_file: &Path,
    settings: Option<&DeliveredSettings>,
) -> Result<Config, DeliveryError> {
    let unusable = |error: &dyn std::error::Error| {
        let problem = error_chain(error);
        DeliveryError::Unusable(format!("the configuration would not be valid: {problem}"))
    };
    let replaced = settings.map(|settings| (SETTINGS_FILE.to_owned(), settings.text.clone()));
    let replaced = replaced.into_iter().collect();
    let config =
        Config::load_replacing(config_file, &replaced).map_err(|error| unusable(&error))?;
    let path = settings_path(config_file);
    for key in settings.iter().flat_map(|settings| &settings.keys) {
        check_in_force(&config, key, &path)?;
    }
    check::check_setup(&config).map_err(|error| unusable(&error))?;
    Ok(config)
}

/// Checks that no later file replaces the setting, and that the daemon knows it.
fn check_in_force(config: &Config, key: &str, path: &Path) -> Result<(), DeliveryError> {
    let problem = match config.origin(key) {
        Some(SettingOrigin::File { path: found, .. }) if found == path => return Ok(()),
        Some(origin) => {
            format!("`{key}` would have no effect: it is set in {origin}, which is read later")
        }
        None => match config.warnings().iter().find(|warning| warning.key == key) {
            Some(warning) => warning.to_string(),
            None => format!("`{key}` would have no effect: another setting replaces it"),
        },
    };
    Err(DeliveryError::Unusable(problem))
}

/// Checks the delivered policies together with the node's groups and other policies. Delivered settings can name another directory of policies, which
/// must be readable: without it, everything is denied, the next delivery included.
fn check_policies(config: &Config, delivery: &NodeDelivery) -> Result<(), DeliveryError> {
    if delivery.policies.is_empty() && delivery.settings.is_none() {
        return Ok(());
    }
    let directory = &config.paths.policies;
    let replaced: BTreeMap<_, _> =
        delivery.policies.iter().map(|(name, text)| (name.clone(), Some(text.clone()))).collect();
    let (_, problems) =
        policy::load_policies_replacing(directory, config.policy.default, &replaced);
    // Faults of other files existed before; the daemon reports them itself.
    let concerns_delivery = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        path == directory || name.is_some_and(|name| delivery.policies.contains_key(name))
    };
    match problems.iter().find(|problem| concerns_delivery(&problem.path)) {
        Some(problem) => {
            let problem = error_chain(problem);
            Err(DeliveryError::Unusable(format!("the policy would not be usable: {problem}")))
        }
        None => Ok(()),
    }
}

fn compare_with_disk(
    config_file: &Path,
    config: &Config,
    delivery: &NodeDelivery,
) -> Result<Vec<FileChange>, FileChangeError> {
    let name = |text: String| DeployedName::parse(&text).map_err(FileChangeError::from);
    let mut files = DeployedFiles::new();
    for (file, text) in &delivery.policies {
        files.insert(name(format!("policies/{file}"))?, FileContent::text(text.as_str()));
    }
    let mut settings = None;
    if let Some(delivered) = &delivery.settings {
        let file = name(format!("conf.d/{SETTINGS_FILE}"))?;
        let text = delivered.text.as_deref().map(FileContent::text);
        files.extend(text.map(|text| (file.clone(), text)));
        settings = Some(file);
    }
    let locate = |name: &DeployedName| match name.kind() {
        DeployedKind::Policy => config.paths.policies.join(name.file_name()),
        _ => settings_path(config_file),
    };
    compare_files(&files, &settings, locate, LinkedFiles::Replace)
}

/// The path of the settings file; absolute, as in the origins of settings.
fn settings_path(config_file: &Path) -> PathBuf {
    config_file.with_file_name("conf.d").join(SETTINGS_FILE)
}

fn file_error(error: FileChangeError) -> DeliveryError {
    match error {
        FileChangeError::Io { path, source } => DeliveryError::File { path, source },
        other => DeliveryError::Unusable(other.to_string()),
    }
}
