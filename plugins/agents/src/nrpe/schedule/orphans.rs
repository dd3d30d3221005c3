//! Ends checks that a daemon has left running when it was killed: their results go nowhere, and the next daemon runs the checks again.

use muster_api::system::System;
use muster_api::system::process::{ProcessId, Signal};

/// Names the daemon in the environment of its scheduled checks: the value is the file of states.
pub(crate) const OWNER_VARIABLE: &str = "MUSTER_CHECK_OWNER";

const MAX_ENVIRONMENT_BYTES: u64 = 1024 * 1024;

/// Ends the process groups whose leaders have this owner. Returns how many. Blocks.
pub(crate) fn end_orphans(system: &dyn System, owner: &str) -> usize {
    let Ok(pids) = system.list_processes() else { return 0 };
    let is_orphan = |pid: &u32| {
        let environment = system.read_process_file(*pid, "environ", MAX_ENVIRONMENT_BYTES);
        environment.is_ok_and(|environment| is_owned(&environment, owner))
    };
    let orphans: Vec<ProcessId> =
        pids.into_iter().filter(is_orphan).filter_map(ProcessId::from_pid).collect();
    let end = |process: &&ProcessId| {
        // Only the leader of a group can be signalled as a group; its children end with it.
        let group = system.signal_process(process, Signal::SIGKILL, true);
        let alone = system.signal_process(process, Signal::SIGKILL, false);
        group.unwrap_or(false) | alone.unwrap_or(false)
    };
    orphans.iter().filter(end).count()
}

/// Whether an environment, as in `/proc/PID/environ`, has this owner.
fn is_owned(environment: &[u8], owner: &str) -> bool {
    environment.split(|byte| *byte == 0).any(|entry| {
        entry
            .strip_prefix(OWNER_VARIABLE.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"="))
            .is_some_and(|value| value == owner.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::is_owned;

    #[test]
    fn owner_is_a_whole_entry() {
        assert!(is_owned(b"A=1\0MUSTER_CHECK_OWNER=/s\0", "/s"));
        for other in [
            &b""[..],
            b"MUSTER_CHECK_OWNER=/s2\0",
            b"XMUSTER_CHECK_OWNER=/s\0",
            b"A=MUSTER_CHECK_OWNER=/s",
        ] {
            assert!(!is_owned(other, "/s"), "{other:?}");
        }
    }
}
