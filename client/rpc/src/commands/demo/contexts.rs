//! The contexts of a demonstration, `demo` and `demo-guest`, below the user's configuration directory. The selected context is not changed.
//!
//! Contexts are a convenience: a demonstration without them works, so errors are reported as details.

use std::path::{Path, PathBuf};

use muster_client::{ContextError, ContextName, ContextStore};
use muster_display::printer::OutputPrinter;
use muster_organisation::bundle::name::USER_CONFIG;

use crate::session::environment::ProcessEnvironment;

const DEMO_CONTEXT: &str = "demo";
/// The context of the user who may only read.
pub const GUEST_CONTEXT: &str = "demo-guest";

/// Subdirectory of the configuration of the second user.
pub const GUEST_DIRECTORY: &str = "guest";

fn demo_contexts(directory: &Path) -> [(&'static str, PathBuf); 2] {
    [(DEMO_CONTEXT, directory.to_owned()), (GUEST_CONTEXT, directory.join(GUEST_DIRECTORY))]
}

/// A context of another fleet, or of another running demonstration, is kept.
pub fn add_contexts(directory: &Path, environment: &ProcessEnvironment, printer: &OutputPrinter) {
    for (name, target) in demo_contexts(directory) {
        if let Err(error) = add_context(name, &target, environment) {
            printer.print_detail(format_args!("no context {name} for this demonstration: {error}"));
        }
    }
}

fn add_context(
    name: &str,
    target: &Path,
    environment: &ProcessEnvironment,
) -> Result<(), ContextError> {
    let store = ContextStore::new(environment.config_home.as_deref())?;
    let name = ContextName::parse(name)?;
    // A demonstration whose directory was removed without `rpc demo down` leaves a link to nothing.
    if store.find(&name).is_ok_and(|found| !found.file.exists()) {
        store.remove(&name)?;
    }
    store.add(&name, target)
}

pub fn has_context(name: &str, directory: &Path, environment: &ProcessEnvironment) -> bool {
    let Ok(store) = ContextStore::new(environment.config_home.as_deref()) else {
        return false;
    };
    let found = ContextName::parse(name).and_then(|name| store.find(&name));
    let expected = demo_contexts(directory).into_iter().find(|(known, _)| *known == name);
    let expected = expected.and_then(|(_, path)| path.join(USER_CONFIG).canonicalize().ok());
    found.ok().map(|found| found.file) == expected && expected.is_some()
}

pub fn remove_contexts(
    directory: &Path,
    environment: &ProcessEnvironment,
    printer: &OutputPrinter,
) {
    for (name, _) in demo_contexts(directory) {
        if !has_context(name, directory, environment) {
            continue;
        }
        let removed = remove_context(name, environment, printer);
        if let Err(error) = removed {
            printer.print_warning(format_args!("the context {name} was not removed: {error}"));
        }
    }
}

fn remove_context(
    name: &str,
    environment: &ProcessEnvironment,
    printer: &OutputPrinter,
) -> Result<(), ContextError> {
    let store = ContextStore::new(environment.config_home.as_deref())?;
    let name = ContextName::parse(name)?;
    if store.selected()?.as_ref() == Some(&name) {
        printer.print_message(format_args!("the context {name} was selected; now none is"));
    }
    store.remove(&name)
}
