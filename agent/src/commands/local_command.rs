//! What the commands of `rpcd` for manifests and operators on the node share: the daemon's configuration, its state directory, and output.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use muster_base::error_chain;
use muster_node::config::Config;

const DEFAULT_STATE_DIR: &str = "/var/lib/muster";

/// The daemon's configuration, if it exists. An invalid one is ignored, because it must not prevent the restart of a service.
pub(crate) fn load_config(file: &Path) -> Option<Config> {
    if !file.exists() {
        return None;
    }
    match Config::load(file) {
        Ok(config) => Some(config),
        Err(error) => {
            let problem = error_chain(&error);
            print_warning(&format!("rpcd: the configuration is ignored: {problem}"));
            None
        }
    }
}

/// The state directory as an absolute path, because the worker runs in another working directory.
pub(crate) fn state_directory(state_dir: Option<&PathBuf>, config: Option<&Config>) -> PathBuf {
    let state = match (state_dir, config) {
        (Some(state_dir), _) => state_dir.clone(),
        (None, Some(config)) => config.paths.state.clone(),
        (None, None) => DEFAULT_STATE_DIR.into(),
    };
    std::path::absolute(&state).unwrap_or(state)
}

/// A closed standard output is not an error.
pub(crate) fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn print_warning(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
