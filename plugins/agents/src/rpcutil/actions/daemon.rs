//! `ping`, `daemon_stats`, `diagnose` and `get_config_item`: the daemon itself.
//!
//! Threads, memory and processor time are those of the daemon's process, from `/proc/self`. They are null if the kernel does not
//! provide them.

use std::fs;
use std::process;
use std::sync::Arc;

use muster_api::base::since_epoch;
use muster_api::ddl::AgentDdl;
use muster_api::{CallContext, EmptyInput, HealthFinding, NoState};
use muster_contract::rpcutil::{
    CpuTimes, DiagnoseFindingRow, RpcutilDaemonStatsOutput, RpcutilDiagnoseOutput,
    RpcutilGetConfigItemInput, RpcutilGetConfigItemOutput, RpcutilPingOutput,
};

use super::inventory::agent_names;
use crate::rpcutil::secret;

/// Clock ticks per second in `/proc`. Part of the kernel's interface and equal on every architecture that Rust's standard library supports
/// (see `times(2)` and `proc_pid_stat(5)`).
const TICKS_PER_SECOND: f64 = 100.0;

/// Replies to show that the node is reachable. A clock that is set to a time before 1970 counts as 0.
pub(crate) fn answer_ping(_: &NoState, cx: &CallContext, _: EmptyInput) -> RpcutilPingOutput {
    RpcutilPingOutput { pong: since_epoch(cx.system.now()).as_secs() }
}

/// Returns one value of the daemon's configuration with secrets redacted.
pub(crate) fn get_config_item(
    _: &NoState,
    cx: &CallContext,
    RpcutilGetConfigItemInput { item }: RpcutilGetConfigItemInput,
) -> RpcutilGetConfigItemOutput {
    let value = cx.node.config_item(&item).map(|value| secret::redact_item(&item, value));
    RpcutilGetConfigItemOutput { item, value: value.unwrap_or_default() }
}

/// Reports problems of the daemon and its environment, and lists its agents. Repairs nothing. Blocks.
pub(crate) fn diagnose_node(cx: &CallContext) -> RpcutilDiagnoseOutput {
    let row = |finding: HealthFinding| DiagnoseFindingRow {
        check: finding.check.to_owned(),
        level: finding.level.as_str().to_owned(),
        message: finding.message,
    };
    let findings: Vec<_> = cx.node.collect_findings().into_iter().map(row).collect();
    let ddls = cx.node.agent_ddls();
    let version = |ddl: &Arc<AgentDdl>| (ddl.name().to_owned(), ddl.metadata().version.clone());
    RpcutilDiagnoseOutput {
        problems: findings.len() as u64,
        findings,
        agents: ddls.iter().map(version).collect(),
        sandbox: cx.node.describe_sandboxes(),
        version: Some(super::VERSION.to_owned()),
    }
}

/// Returns the daemon's counters since its start, and its resource usage. Blocks.
pub(crate) fn measure_daemon(cx: &CallContext) -> RpcutilDaemonStatsOutput {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let usage = parse_usage(&text("/proc/self/stat"));
    let counters = cx.node.counter_snapshot();
    RpcutilDaemonStatsOutput {
        threads: usage.map(|(_, threads)| threads),
        agents: agent_names(cx),
        pid: Some(process::id()),
        times: usage.map(|(times, _)| times),
        validated: Some(counters.validated),
        unvalidated: Some(counters.unvalidated),
        passed: Some(counters.passed),
        filtered: Some(counters.filtered),
        starttime: Some(counters.starttime),
        total: Some(counters.total),
        replies: Some(counters.replies),
        configfile: Some(cx.node.config_file().display().to_string()),
        version: Some(super::VERSION.to_owned()),
        ttlexpired: Some(counters.ttlexpired),
        replayed: Some(counters.replayed),
        denied: Some(counters.denied),
        memory_bytes: proportional_set(&text("/proc/self/smaps_rollup")),
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
    fn parses_files_of_proc() {
        let stat = "4711 (a) b)) S 1 2 3 4 5 6 7 8 9 10 250 31 14 15 16 17 9 19 20\n";
        assert_eq!(parse_usage(stat), Some((CpuTimes { user: 2.5, system: 0.31 }, 9)));
        let rollup = "5500-7ffc ---p 00000000 00:00 0 [rollup]\nRss:    9000 kB\nPss:    4321 kB\nPss_Anon: 7 kB\n";
        assert_eq!(proportional_set(rollup), Some(4321 * 1024));
    }

    proptest! {
        #[test]
        fn other_text_is_not_parsed(text in "[^)]{0,200}") {
            prop_assert_eq!(parse_usage(&text), None);
            prop_assert_eq!(proportional_set(&text.replace("Pss:", "")), None);
        }
    }
}
