//! `daemon_stats`: returns the daemon's counters since its start, and its resource usage.
//!
//! Threads, memory and processor time are those of the daemon's process, from `/proc/self`. They are null if the kernel does not
//! provide them.

use std::fs;
use std::process;

use muster_api::{ActionError, AgentAction, CallContext, CounterSnapshot};
use muster_contract::rpcutil::{CpuTimes, RpcutilDaemonStatsOutput};

use super::EmptyInput;

/// Clock ticks per second in `/proc`. Part of the kernel's interface and equal on every architecture that Rust's standard library supports
/// (see `times(2)` and `proc_pid_stat(5)`).
const TICKS_PER_SECOND: f64 = 100.0;

pub(crate) struct RpcutilDaemonStatsAction;

impl AgentAction for RpcutilDaemonStatsAction {
    const NAME: &'static str = "daemon_stats";
    type Input = EmptyInput;
    type Output = RpcutilDaemonStatsOutput;

    async fn run(
        &self,
        cx: &CallContext,
        _: EmptyInput,
    ) -> Result<RpcutilDaemonStatsOutput, ActionError> {
        let (stat, memory) = cx
            .run_blocking(|_| {
                let text = |path| fs::read_to_string(path).unwrap_or_default();
                (text("/proc/self/stat"), text("/proc/self/smaps_rollup"))
            })
            .await?;
        let usage = parse_usage(&stat);
        let CounterSnapshot {
            total,
            validated,
            unvalidated,
            passed,
            filtered,
            ttlexpired,
            replayed,
            denied,
            replies,
            starttime,
        } = cx.node.counter_snapshot();
        Ok(RpcutilDaemonStatsOutput {
            threads: usage.map(|(_, threads)| threads),
            agents: super::agent_names(cx),
            pid: Some(process::id()),
            times: usage.map(|(times, _)| times),
            validated: Some(validated),
            unvalidated: Some(unvalidated),
            passed: Some(passed),
            filtered: Some(filtered),
            starttime: Some(starttime),
            total: Some(total),
            replies: Some(replies),
            configfile: Some(cx.node.config_file().display().to_string()),
            version: Some(super::VERSION.to_owned()),
            ttlexpired: Some(ttlexpired),
            replayed: Some(replayed),
            denied: Some(denied),
            memory_bytes: proportional_set(&memory),
        })
    }
}

/// Processor time and number of threads, from `/proc/PID/stat`. The second field is the program's name in parentheses, which may itself
/// contain blanks and parentheses.
fn parse_usage(stat: &str) -> Option<(CpuTimes, u64)> {
    let (_, fields) = stat.rsplit_once(')')?;
    // The fields after the name start with field 3.
    let field = |number: usize| fields.split_ascii_whitespace().nth(number - 3);
    let seconds = |number| field(number)?.parse::<u32>().ok().map(f64::from);
    let times =
        CpuTimes { user: seconds(14)? / TICKS_PER_SECOND, system: seconds(15)? / TICKS_PER_SECOND };
    Some((times, field(20)?.parse().ok()?))
}

/// The proportional set size in bytes, from `/proc/PID/smaps_rollup`: shared memory counts in proportion to its number of users.
fn proportional_set(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{CpuTimes, parse_usage, proportional_set};

    #[test]
    fn the_kernels_files_are_understood() {
        let stat = "4711 (a) b)) S 1 2 3 4 5 6 7 8 9 10 250 31 14 15 16 17 9 19 20\n";
        assert_eq!(parse_usage(stat), Some((CpuTimes { user: 2.5, system: 0.31 }, 9)));
        let rollup = "5500-7ffc ---p 00000000 00:00 0 [rollup]\nRss:    9000 kB\nPss:    4321 kB\nPss_Anon: 7 kB\n";
        assert_eq!(proportional_set(rollup), Some(4321 * 1024));
    }

    proptest! {
        #[test]
        fn any_other_text_is_no_answer(text in "[^)]{0,200}") {
            prop_assert_eq!(parse_usage(&text), None);
            prop_assert_eq!(proportional_set(&text.replace("Pss:", "")), None);
        }
    }
}
