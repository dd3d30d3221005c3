//! What Puppet's agent is doing, and how its last run went, from the files that it leaves.
//!
//! A lock counts only while a live Puppet holds it, as Puppet itself sees it. Paths are the node's own.

use std::path::Path;

use muster_api::system::{System, SystemError};
use serde::Deserialize;

use super::report::{self, Report};
use super::summary::{self, Summary};
use crate::places::Places;

/// Largest lock or number file, in bytes.
const SMALL: u64 = 16 * 1024;

/// What a lock of Puppet's says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// There is no lock.
    Nobody,
    /// Nobody holds it: Puppet would take it.
    Stale(Option<u32>),
    /// A process that Puppet takes for itself.
    Process(u32),
}

impl Holder {
    pub(crate) fn pid(self) -> Option<u32> {
        match self {
            Self::Nobody => None,
            Self::Stale(pid) => pid,
            Self::Process(pid) => Some(pid),
        }
    }

    pub(crate) fn is_held(self) -> bool {
        matches!(self, Self::Process(_))
    }
}

/// What Puppet is doing.
#[derive(Debug, Clone)]
pub(crate) struct Doing {
    pub(crate) disabled: Option<String>,
    pub(crate) run: Holder,
    pub(crate) daemon_present: bool,
    pub(crate) summary: Option<Summary>,
}

impl Doing {
    /// Of a machine without a Puppet.
    pub(crate) fn nothing() -> Self {
        Self {
            disabled: None,
            run: Holder::Nobody,
            daemon_present: false,
            summary: None,
        }
    }

    pub(crate) fn idling(&self) -> bool {
        self.daemon_present && !self.run.is_held()
    }

    /// In the field's words; the first that is true.
    pub(crate) fn status(&self) -> &'static str {
        match (&self.disabled, self.run.is_held(), self.daemon_present) {
            (Some(_), ..) => "disabled",
            (None, true, _) => "applying a catalog",
            (None, false, true) => "idling",
            (None, false, false) => "stopped",
        }
    }
}

/// Looks at everything.
pub(crate) fn look(system: &dyn System, places: &Places) -> Result<Doing, SystemError> {
    let mut daemon_present = false;
    for directory in &places.rundirs {
        daemon_present |= holder(system, &directory.join("agent.pid"))?.is_held();
    }
    Ok(Doing {
        disabled: disabled(system, places)?,
        run: holder(system, &places.run_lock())?,
        daemon_present,
        summary: summary(system, places)?,
    })
}

/// Why runs are disabled. An empty or garbled lock disables without a reason.
pub(crate) fn disabled(
    system: &dyn System,
    places: &Places,
) -> Result<Option<String>, SystemError> {
    #[derive(Deserialize)]
    struct Lock {
        disabled_message: String,
    }
    let lock = bounded(system, &places.disabled_lock(), SMALL)?;
    Ok(lock.map(|lock| {
        serde_json::from_str(&lock).map_or_else(
            |_| "reason not specified".to_owned(),
            |Lock { disabled_message }| disabled_message,
        )
    }))
}

/// Who holds a lock that carries a process number.
pub(crate) fn holder(system: &dyn System, path: &Path) -> Result<Holder, SystemError> {
    let Some(text) = bounded(system, path, SMALL)? else {
        return Ok(Holder::Nobody);
    };
    let Ok(number) = text.trim().parse::<u32>() else {
        return Ok(Holder::Stale(None));
    };
    let proc = |file: &str| bounded(system, format!("/proc/{number}/{file}").as_ref(), SMALL);
    let name = proc("comm")?.unwrap_or_default();
    let name = name.trim_end();
    let is_puppet = name.ends_with("puppet")
        || name.contains("puppet-")
        || (name.contains("ruby")
            && proc("cmdline")?.is_some_and(|words| words.contains("puppet")));
    Ok(if is_puppet {
        Holder::Process(number)
    } else {
        Holder::Stale(Some(number))
    })
}

/// The newest summary of a run that can be understood. One that is being written is none.
pub(crate) fn summary(
    system: &dyn System,
    places: &Places,
) -> Result<Option<Summary>, SystemError> {
    for path in places.summaries() {
        if let Some(text) = bounded(system, &path, summary::BYTES)? {
            return Ok(Summary::parse(&text));
        }
    }
    Ok(None)
}

/// The report of the last run; one that is being written is none.
pub(crate) fn report(system: &dyn System, places: &Places) -> Result<Option<Report>, SystemError> {
    let text = bounded(system, &places.report(), report::BYTES)?;
    Ok(text.as_deref().and_then(Report::parse))
}

/// A file's text; nothing, where no file is, or where it went while we looked.
fn bounded(system: &dyn System, path: &Path, limit: u64) -> Result<Option<String>, SystemError> {
    match system.read(path, limit) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if system.metadata(path)?.is_some() => Err(error),
        Err(_) => Ok(None),
    }
}
