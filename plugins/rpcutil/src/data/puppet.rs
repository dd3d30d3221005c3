//! `puppet()`: what Puppet's agent is doing, and how its last run went, from the files that it leaves.
//!
//! Read are the places of Puppet's own packages and of Debian's, the first that is there. A machine without any has no
//! Puppet, and nothing is known of it. A lock counts only while a live Puppet holds it, as Puppet itself sees it.

mod summary;

use std::path::Path;
use std::time::UNIX_EPOCH;

use muster_api::system::{System, SystemError};
use muster_api::{ActionError, Context, DataSource};
use serde::{Deserialize, Serialize};
use summary::Summary;

/// Where the state is: locks.
const STATE: [&str; 3] = [
    "/opt/puppetlabs/puppet/cache/state",
    "/var/cache/puppet/state",
    "/var/lib/puppet/state",
];
/// Where the summary of the last run is. Before Puppet 7 it was with the state.
const PUBLIC: [&str; 2] = ["/opt/puppetlabs/puppet/public", "/var/cache/puppet/public"];
/// Where the daemon's number is.
const RUN: [&str; 3] = ["/var/run/puppetlabs", "/run/puppetlabs", "/run/puppet"];
/// Largest lock or number file, in bytes.
const SMALL: u64 = 16 * 1024;

pub(crate) struct Puppet;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "MCollective's outputs, each of which is filtered by"
)]
pub(crate) struct Output {
    enabled: bool,
    disable_message: Option<String>,
    applying: bool,
    daemon_present: bool,
    idling: bool,
    status: String,
    lastrun: Option<u64>,
    since_lastrun: Option<u64>,
    failed: Option<bool>,
    total_resources: Option<u64>,
    failed_resources: Option<u64>,
    changed_resources: Option<u64>,
    out_of_sync_resources: Option<u64>,
    corrected_resources: Option<u64>,
    config_version: Option<String>,
    total_time: Option<f64>,
}

impl DataSource for Puppet {
    const NAME: &'static str = "puppet";
    type Output = Output;

    async fn query(&self, cx: &Context, _: Option<&str>) -> Result<Output, ActionError> {
        let system = cx.system.clone();
        cx.blocking(move |_| look(&*system)).await?
    }
}

/// The lock of `puppet agent --disable`.
#[derive(Debug, Deserialize)]
struct Disabled {
    disabled_message: String,
}

fn look(system: &dyn System) -> Result<Output, ActionError> {
    let failed = |error: SystemError| ActionError::failed(error.to_string());
    let Some(state) = first(system, &STATE).map_err(failed)? else {
        return Err(ActionError::failed(format!(
            "there is no Puppet: looked for {}",
            STATE.join(", ")
        )));
    };
    let disabled = text(system, &format!("{state}/agent_disabled.lock")).map_err(failed)?;
    let applying = held(system, &format!("{state}/agent_catalog_run.lock")).map_err(failed)?;
    let mut daemon_present = false;
    for directory in RUN {
        daemon_present |= held(system, &format!("{directory}/agent.pid")).map_err(failed)?;
    }
    let summary = summary(system, state).map_err(failed)?;
    let idling = daemon_present && !applying;
    let status = match (&disabled, applying, idling) {
        (Some(_), ..) => "disabled",
        (None, true, _) => "applying a catalog",
        (None, false, true) => "idling",
        (None, false, false) => "stopped",
    };
    let now = system.now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let lastrun = summary.as_ref().and_then(Summary::last_run);
    let counted = |name: &str| summary.as_ref().and_then(|summary| summary.resources(name));
    Ok(Output {
        enabled: disabled.is_none(),
        disable_message: disabled.map(|text| reason(&text)),
        applying,
        daemon_present,
        idling,
        status: status.to_owned(),
        lastrun,
        since_lastrun: lastrun.map(|then| now.as_secs().saturating_sub(then)),
        failed: summary.as_ref().map(Summary::failed),
        total_resources: counted("total"),
        failed_resources: counted("failed"),
        changed_resources: counted("changed"),
        out_of_sync_resources: counted("out_of_sync"),
        corrected_resources: counted("corrective_change"),
        config_version: summary.as_ref().and_then(Summary::config_version),
        total_time: summary.as_ref().and_then(Summary::total_time),
    })
}

/// The newest summary of a run that can be understood. One that is being written is none.
fn summary(system: &dyn System, state: &str) -> Result<Option<Summary>, SystemError> {
    for directory in PUBLIC.into_iter().chain([state]) {
        let path = format!("{directory}/last_run_summary.yaml");
        if let Some(text) = bounded(system, &path, summary::BYTES)? {
            return Ok(Summary::parse(&text));
        }
    }
    Ok(None)
}

/// What was said to `puppet agent --disable`. An empty or garbled lock disables without a reason.
fn reason(lock: &str) -> String {
    serde_json::from_str(lock).map_or_else(
        |_| "reason not specified".to_owned(),
        |Disabled { disabled_message }| disabled_message,
    )
}

/// Whether a file holds the number of a live process that Puppet would take for itself.
fn held(system: &dyn System, path: &str) -> Result<bool, SystemError> {
    let Some(number) = text(system, path)?.and_then(|text| text.trim().parse::<u32>().ok()) else {
        return Ok(false);
    };
    let Some(name) = text(system, &format!("/proc/{number}/comm"))? else {
        return Ok(false);
    };
    let name = name.trim_end();
    if name == "ruby" {
        let words = text(system, &format!("/proc/{number}/cmdline"))?;
        return Ok(words.is_some_and(|words| words.contains("puppet")));
    }
    Ok(name.starts_with("puppet-") || name.ends_with("puppet"))
}

fn text(system: &dyn System, path: &str) -> Result<Option<String>, SystemError> {
    bounded(system, path, SMALL)
}

/// A file's text; nothing, where no file is, or where it went while we looked.
fn bounded(system: &dyn System, path: &str, limit: u64) -> Result<Option<String>, SystemError> {
    match system.read(Path::new(path), limit) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if system.metadata(Path::new(path))?.is_some() => Err(error),
        Err(_) => Ok(None),
    }
}

fn first(system: &dyn System, paths: &[&'static str]) -> Result<Option<&'static str>, SystemError> {
    for path in paths {
        if system.metadata(Path::new(path))?.is_some() {
            return Ok(Some(path));
        }
    }
    Ok(None)
}
