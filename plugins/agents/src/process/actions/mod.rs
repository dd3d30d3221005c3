//! The actions of `process`, one module each, and their common process filter.

pub(crate) mod kill;
pub(crate) mod list;
pub(crate) mod summary;

use std::collections::BTreeMap;
use std::path::Path;

use muster_api::ActionError;
use muster_api::filter::FilterPattern;
use muster_api::system::System;
use muster_api::system::command::CancelFlag;
use muster_api::system::process::ProcessStat;

use crate::process::table::{self, ProcessEntry};

/// Clock ticks per second in `/proc`. Part of the kernel's interface and equal on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;
/// Largest passwd file that is read for user names, in bytes.
const MAX_PASSWD_BYTES: u64 = 16 * 1024 * 1024;
/// Largest `stat` or `status` file of a process, in bytes.
const MAX_PROC_FILE_BYTES: u64 = 16 * 1024;

/// A process with all reported details.
pub(crate) struct ProcessDetails {
    pub(crate) process: ProcessEntry,
    pub(crate) user: String,
    pub(crate) stat: ProcessStat,
    /// Resident memory in bytes, private and shared.
    pub(crate) memory: u64,
}

impl ProcessDetails {
    fn cpu_seconds(&self) -> f64 {
        u32::try_from(self.stat.ticks).map_or(f64::from(u32::MAX), f64::from) / TICKS_PER_SECOND
    }

    /// Its arguments, or the name of a kernel thread in brackets.
    fn command_line(&self) -> String {
        if self.process.arguments.is_empty() {
            format!("[{}]", self.process.name)
        } else {
            self.process.arguments.join(" ")
        }
    }
}

/// Selects processes; an empty filter selects all.
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

    /// The matching processes of the machine. Skips processes that exit meanwhile. Blocks.
    pub(crate) fn find_processes(
        &self,
        system: &dyn System,
        cancel: &CancelFlag,
    ) -> Result<Vec<ProcessDetails>, ActionError> {
        let all = table::read_processes(system, cancel)?;
        let users = read_user_names(system);
        let found = all.into_iter().filter_map(|process| {
            let matched = self.matches_process(&process);
            matched.then(|| read_details(system, &users, &process)).flatten()
        });
        // The details were read before the arguments were read again, so both belong to the same process.
        let found = found.filter(|details| self.matches_process(&details.process));
        let of_user =
            |details: &ProcessDetails| self.user.as_ref().is_none_or(|user| *user == details.user);
        Ok(found.filter(of_user).collect())
    }

    fn matches_process(&self, process: &ProcessEntry) -> bool {
        self.pid.is_none_or(|pid| pid == process.pid)
            && self.pattern.as_ref().is_none_or(|pattern| process.matches_pattern(pattern))
    }
}

/// Reads the details of a process. Reads its arguments again after its start time, which tells it from another process with the same PID.
fn read_details(
    system: &dyn System,
    users: &BTreeMap<u32, String>,
    process: &ProcessEntry,
) -> Option<ProcessDetails> {
    let stat = read_stat(system, process.pid)?;
    let status = read_proc_file(system, process.pid, "status")?;
    let owner = find_status_field(&status, "Uid:")?.split_ascii_whitespace().nth(1)?;
    let owner: u32 = owner.parse().ok()?;
    Some(ProcessDetails {
        stat,
        memory: resident_bytes(&status).unwrap_or_default(),
        user: users.get(&owner).cloned().unwrap_or_else(|| owner.to_string()),
        process: table::read_process(system, process.pid)?,
    })
}

fn read_stat(system: &dyn System, pid: u32) -> Option<ProcessStat> {
    ProcessStat::parse(&read_proc_file(system, pid, "stat")?)
}

fn read_proc_file(system: &dyn System, pid: u32, file: &str) -> Option<String> {
    let bytes = system.read_process_file(pid, file, MAX_PROC_FILE_BYTES).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A line of `/proc/PID/status`. The second user ID in the `Uid` line is the effective one.
fn find_status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = status.lines();
    lines.find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Resident memory in bytes, from `/proc/PID/status`. Kernel threads have none.
fn resident_bytes(status: &str) -> Option<u64> {
    let size = find_status_field(status, "VmRSS:")?;
    let kibibytes: u64 = size.strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// User names by user ID. A user without a name is shown by ID.
fn read_user_names(system: &dyn System) -> BTreeMap<u32, String> {
    let passwd = system.read_file(Path::new("/etc/passwd"), MAX_PASSWD_BYTES).unwrap_or_default();
    let passwd = String::from_utf8_lossy(&passwd);
    let entries = passwd.lines().rev().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        Some((fields.nth(1)?.parse().ok()?, name))
    });
    entries.collect()
}
