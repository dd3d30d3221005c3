//! One file for each action, and what they have in common: which processes are meant.

mod kill;
mod list;
mod summary;

pub(crate) use kill::ProcessKillAction;
pub(crate) use list::ProcessListAction;
pub(crate) use summary::ProcessSummaryAction;

use std::collections::BTreeMap;
use std::path::Path;

use muster_api::ActionError;
use muster_api::system::System;
use muster_api::system::command::CancelFlag;
use muster_api::system::process::ProcessStat;
use muster_api::wire::filter::FilterPattern;

use crate::table::{self, ProcessEntry};

/// Clock ticks per second in `/proc`: part of the kernel's interface, the same on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;
/// Largest passwd file that is read for names.
const MAX_PASSWD_BYTES: u64 = 16 * 1024 * 1024;
/// Longest `stat` and `status` of a process.
const MAX_PROC_FILE_BYTES: u64 = 16 * 1024;

/// A process with all that is told of it.
pub(crate) struct ProcessDetails {
    pub(crate) process: ProcessEntry,
    pub(crate) user: String,
    pub(crate) stat: ProcessStat,
    /// Bytes of memory that are its own or shared, and present.
    pub(crate) memory: u64,
}

impl ProcessDetails {
    fn cpu_seconds(&self) -> f64 {
        u32::try_from(self.stat.ticks).map_or(f64::from(u32::MAX), f64::from) / TICKS_PER_SECOND
    }

    /// Its words, or the name of a part of the kernel in brackets.
    fn command_line(&self) -> String {
        if self.process.arguments.is_empty() {
            format!("[{}]", self.process.name)
        } else {
            self.process.arguments.join(" ")
        }
    }
}

/// Which processes are meant; all, when nothing is given.
#[derive(Debug, Default)]
pub(crate) struct ProcessFilter {
    pub(crate) pattern: Option<FilterPattern>,
    pub(crate) user: Option<String>,
    pub(crate) pid: Option<u32>,
}

impl ProcessFilter {
    pub(crate) fn parse_inputs(
        pattern: Option<&str>,
        user: Option<String>,
        pid: Option<u32>,
    ) -> Result<Self, ActionError> {
        let pattern = pattern.map(FilterPattern::parse).transpose();
        Ok(Self {
            pattern: pattern.map_err(|error| ActionError::invalid_input(error.to_string()))?,
            user,
            pid,
        })
    }

    /// Those of the machine's processes. One that ends while it is looked at is left out. Blocks.
    pub(crate) fn find_processes(
        &self,
        system: &dyn System,
        cancel: &CancelFlag,
    ) -> Result<Vec<ProcessDetails>, ActionError> {
        let all = table::read_processes(system, cancel)
            .map_err(|error| ActionError::failed(error.to_string()))?;
        let users = read_user_names(system);
        let seen = all.into_iter().filter_map(|process| {
            let meant = self.matches_process(&process);
            meant
                .then(|| read_details(system, &users, &process))
                .flatten()
        });
        // What is known of it was read before its words were read again, so both are of one process.
        let seen = seen.filter(|seen| self.matches_process(&seen.process));
        let of_user =
            |seen: &ProcessDetails| self.user.as_ref().is_none_or(|user| *user == seen.user);
        Ok(seen.filter(of_user).collect())
    }

    fn matches_process(&self, process: &ProcessEntry) -> bool {
        self.pid.is_none_or(|pid| pid == process.pid)
            && self
                .pattern
                .as_ref()
                .is_none_or(|pattern| process.matches_pattern(pattern))
    }
}

/// All that is told of a process. Its words are read once more, after what tells it from others of its number.
fn read_details(
    system: &dyn System,
    users: &BTreeMap<u32, String>,
    process: &ProcessEntry,
) -> Option<ProcessDetails> {
    let stat = read_stat(system, process.pid)?;
    let status = read_proc_file(system, process.pid, "status")?;
    let owner = find_status_field(&status, "Uid:")?
        .split_ascii_whitespace()
        .nth(1)?;
    let owner: u32 = owner.parse().ok()?;
    Some(ProcessDetails {
        stat,
        memory: resident_bytes(&status).unwrap_or_default(),
        user: users
            .get(&owner)
            .cloned()
            .unwrap_or_else(|| owner.to_string()),
        process: table::read_process(system, process.pid)?,
    })
}

fn read_stat(system: &dyn System, pid: u32) -> Option<ProcessStat> {
    ProcessStat::parse(&read_proc_file(system, pid, "stat")?)
}

fn read_proc_file(system: &dyn System, pid: u32, file: &str) -> Option<String> {
    let path = format!("/proc/{pid}/{file}");
    let bytes = system
        .read_file(Path::new(&path), MAX_PROC_FILE_BYTES)
        .ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A line of `/proc/PID/status`. Of its users the second is the one that it acts as.
fn find_status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = status.lines();
    lines
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

/// Resident memory in bytes, from `/proc/PID/status`; a part of the kernel has none.
fn resident_bytes(status: &str) -> Option<u64> {
    let size = find_status_field(status, "VmRSS:")?;
    let kibibytes: u64 = size.strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Names of users by their numbers; a user without one goes by the number.
fn read_user_names(system: &dyn System) -> BTreeMap<u32, String> {
    let passwd = system
        .read_file(Path::new("/etc/passwd"), MAX_PASSWD_BYTES)
        .unwrap_or_default();
    let passwd = String::from_utf8_lossy(&passwd);
    let entries = passwd.lines().rev().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        Some((fields.nth(1)?.parse().ok()?, name))
    });
    entries.collect()
}
