//! Applies a provisioner's delivery to the files of this daemon: checks the whole result, replaces the files that differ, and requests a restart.
//!
//! `plugins/provision` decides what is accepted. Nothing is written unless the daemon could start with the result. All new files are on disk before
//! the first one is renamed; a crash between two renames leaves files that are each valid, and the repeated delivery replaces the others.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use muster_base::{StagedFile, error_chain, sync_parent_directory};
use muster_policy::MAX_POLICY_FILE_BYTES;
use muster_provision::{
    DeliveredSettings, DeliveryError, DeliveryReport, DeliveryTarget, NodeDelivery, SETTINGS_FILE,
};
use tokio::sync::Notify;

use crate::check;
use crate::config::{Config, SettingOrigin};
use crate::files::{allow_missing, read_bytes};
use crate::policy;

/// Permission bits of delivered files: as of the other files in `/etc/muster`, which contain no secrets.
const FILE_MODE: u32 = 0o644;
/// Permission bits of directories that are missing.
const DIRECTORY_MODE: u32 = 0o755;

/// The files of this daemon that a delivery replaces.
#[derive(Debug)]
pub(crate) struct DaemonFiles {
    /// Absolute; `None` if the configuration was not read from a file.
    config_file: Option<PathBuf>,
    restart_requested: Arc<Notify>,
    /// Whether a file was replaced since the daemon started.
    is_outdated: AtomicBool,
}

/// A file that a delivery defines.
#[derive(Debug)]
struct DeliveredFile<'a> {
    path: PathBuf,
    /// `None`: the file is removed.
    content: Option<&'a str>,
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
        let mut files = list_delivered_files(config_file, &config, delivery);
        files.retain(DeliveredFile::differs);
        if !noop && !files.is_empty() {
            replace_files(&files, &self.is_outdated)?;
        }
        let restarting = !noop && self.is_outdated.load(Ordering::Acquire);
        if restarting {
            self.restart_requested.notify_one();
        }
        let files = files.into_iter().map(|file| file.path).collect();
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
    let replaced = settings.map(|settings| (SETTINGS_FILE, settings.text.as_deref()));
    let config = Config::load_replacing(config_file, replaced).map_err(|error| unusable(&error))?;
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
    let (_, problems) =
        policy::load_policies_replacing(directory, config.policy.default, &delivery.policies);
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

/// The files of a delivery in the order of replacement: policies first, so that what the settings enable is restricted from the start.
fn list_delivered_files<'a>(
    config_file: &Path,
    config: &Config,
    delivery: &'a NodeDelivery,
) -> Vec<DeliveredFile<'a>> {
    let policies = delivery.policies.iter().map(|(name, text)| DeliveredFile {
        path: config.paths.policies.join(name),
        content: Some(text),
    });
    let settings = delivery.settings.iter().map(|settings| DeliveredFile {
        path: settings_path(config_file),
        content: settings.text.as_deref(),
    });
    policies.chain(settings).collect()
}

/// The path of the settings file; absolute, as in the origins of settings.
fn settings_path(config_file: &Path) -> PathBuf {
    config_file.with_file_name("conf.d").join(SETTINGS_FILE)
}

impl DeliveredFile<'_> {
    /// Whether the file on disk has another content, or can be changed by other users. A file that cannot be read is replaced.
    fn differs(&self) -> bool {
        let found = allow_missing(read_bytes(&self.path, MAX_POLICY_FILE_BYTES));
        let expected = self.content.map(str::as_bytes);
        let is_unprotected =
            || fs::metadata(&self.path).is_ok_and(|found| found.mode() & 0o022 != 0);
        found.map_or(true, |found| found.as_deref() != expected) || is_unprotected()
    }

    fn file_error(&self) -> impl Fn(io::Error) -> DeliveryError {
        |source| DeliveryError::File { path: self.path.clone(), source }
    }

    /// Writes the new content under a temporary name; `None` if the file is to be removed.
    fn stage(&self) -> io::Result<Option<StagedFile>> {
        let Some(content) = self.content else { return Ok(None) };
        if let Some(directory) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory)?;
        }
        StagedFile::write(&self.path, content.as_bytes(), FILE_MODE).map(Some)
    }
}

/// Replaces the files; a write error, such as a full disk, changes none of them. `is_outdated` is set before the first one changes.
fn replace_files(
    files: &[DeliveredFile<'_>],
    is_outdated: &AtomicBool,
) -> Result<(), DeliveryError> {
    let mut staged = Vec::with_capacity(files.len());
    for file in files {
        staged.push((file, file.stage().map_err(file.file_error())?));
    }
    is_outdated.store(true, Ordering::Release);
    for (file, staged) in staged {
        let replaced = match staged {
            Some(staged) => staged.commit(),
            None => allow_missing(fs::remove_file(&file.path))
                .and_then(|_| sync_parent_directory(&file.path)),
        };
        replaced.map_err(file.file_error())?;
    }
    Ok(())
}
