//! A schedule of Puppet runs on ten machines with a real Puppet Server: it spreads the runs, yields to a person's run, and catches up after it was down.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::time::Duration;

use futures_util::future::join_all;
use muster_tests::command::describe_output;
use muster_tests::puppetserver::PuppetServer;
use muster_tests::{now, poll_until_ok, simulate_delay};
use serde_json::Value;

use super::puppet_runs::MACHINES;
use crate::machines::RECOVERY_TIMEOUT;
use crate::machines::nodes::{MachineNodes, node_name};

/// The scheduler of this fleet runs here.
const SCHEDULER: &str = "m1";
/// The machine on which a person runs Puppet.
const PERSON: &str = "m2";
/// Two processors execute ten runs in little more than a minute.
const INTERVAL: Duration = Duration::from_mins(2);
/// Shorter than half an interval.
const OUTAGE: Duration = Duration::from_secs(50);
/// A run begins with its catalog, for which machines queue at the server.
const TOLERANCE: Duration = Duration::from_secs(30);

/// Each run records when its work began.
const MANIFEST: &str = r#"
exec { 'scheduled work':
  command => '/bin/sh -c "echo begin $(date +%s%N) >>/var/scheduled; while test -e /var/hold; do sleep 0.2; done; sleep 1"',
}
"#;

/// Starts the scheduler, with a policy that permits the operator everything.
async fn start_scheduler(nodes: &MachineNodes) {
    let operator = &nodes.operator;
    operator
        .run_successfully(&["org", "add", "service", "scheduler1", "--serve", "schedule"])
        .await;
    let creds = operator.path("acme/creds/services/scheduler1.creds");
    nodes.machines.copy(SCHEDULER, &creds, "/etc/muster/scheduler1.creds").await;
    let policy = "policy default deny\\nallow\\t*\\t*\\t*\\t*\\n";
    let section =
        "[plugins.schedule]\\nenabled = true\\ncredentials = \"/etc/muster/scheduler1.creds\"\\n";
    let script = format!(
        "chmod 600 /etc/muster/scheduler1.creds && printf '{policy}' > /etc/muster/policies/schedule.policy && \
         printf '{section}' > /etc/muster/conf.d/schedule.toml && systemctl restart rpcd"
    );
    nodes.machines.sh(SCHEDULER, &script).await;
}

/// When the work of each machine began, in nanoseconds since the epoch.
async fn read_starts(nodes: &MachineNodes) -> Vec<Vec<u64>> {
    let machines = &nodes.machines;
    let names = machines.names();
    let texts = join_all(
        names.iter().map(|machine| machines.sh(machine, "cat /var/scheduled 2>/dev/null || true")),
    )
    .await;
    let parse = |text: &String| {
        text.lines().filter_map(|line| line.strip_prefix("begin ")?.parse().ok()).collect()
    };
    texts.iter().map(parse).collect()
}

/// Waits until each machine has its number of runs.
async fn await_runs(nodes: &MachineNodes, counts: &[usize]) -> Vec<Vec<u64>> {
    poll_until_ok("the scheduled runs", INTERVAL * 4, async || {
        let starts = read_starts(nodes).await;
        let is_enough = starts.iter().zip(counts).all(|(own, count)| own.len() >= *count);
        if is_enough { Ok(starts) } else { Err(starts) }
    })
    .await
}

/// Most starts in any window of three average distances.
fn most_starts_in_window(starts: &[Vec<u64>], interval: Duration) -> usize {
    let machines = u64::try_from(starts.len()).unwrap();
    let window = u64::try_from(interval.as_nanos()).unwrap() * 3 / machines;
    let mut all: Vec<u64> = starts.iter().flatten().copied().collect();
    all.sort_unstable();
    let in_window =
        |from: &u64| all.iter().filter(|at| (*from..from + window).contains(*at)).count();
    all.iter().map(in_window).max().unwrap_or(0)
}

pub(super) async fn schedule_spreads_runs_yields_and_catches_up(
    nodes: &MachineNodes,
    server: &PuppetServer,
) {
    server.write_manifest(MANIFEST);
    start_scheduler(nodes).await;
    let interval = format!("{}s", INTERVAL.as_secs());
    poll_until_ok("the schedule is added", RECOVERY_TIMEOUT, async || {
        let words = [
            "schedule",
            "add",
            "puppet",
            "puppet",
            "runonce",
            "force=true",
            "--every",
            &interval,
            "--concurrency",
            "4",
            "--replace",
            "--yes",
        ];
        let output = nodes.operator.run(&words).await;
        if output.status.success() { Ok(()) } else { Err(describe_output(&output)) }
    })
    .await;

    let starts = await_runs(nodes, &[2; MACHINES]).await;
    let highest = most_starts_in_window(&starts, INTERVAL);
    assert!(highest <= 5, "{highest} starts in a window for three: {starts:?}");

    yields_to_a_person(nodes).await;

    // The other machines run again after the outage, none later than one and a half intervals after its last run.
    let before = read_starts(nodes).await;
    nodes.machines.sh(SCHEDULER, "systemctl stop rpcd").await;
    simulate_delay(OUTAGE).await;
    nodes.machines.sh(SCHEDULER, "systemctl start rpcd").await;
    let counts: Vec<usize> = before.iter().map(|own| own.len() + 1).collect();
    let after = await_runs(nodes, &counts).await;
    for (machine, starts) in nodes.machines.names().iter().zip(&after) {
        // The scheduler's own node was down, and the person's run delayed the other.
        if [SCHEDULER, PERSON].contains(machine) {
            continue;
        }
        let gaps = starts.windows(2).map(|pair| Duration::from_nanos(pair[1] - pair[0]));
        let longest = gaps.max().unwrap();
        assert!(longest <= INTERVAL * 3 / 2 + TOLERANCE, "{machine}: {longest:?}: {starts:?}");
    }
    nodes.operator.run_successfully(&["schedule", "pause", "--all", "--reason", "end"]).await;
    let (list, code) = nodes.operator.run_json(&["schedule", "list"]).await;
    assert_eq!((code, &list["schedules"][0]["state"]), (0, &Value::from("paused")), "{list:#}");
    nodes.operator.run_successfully(&["schedule", "remove", "puppet"]).await;
}

/// The last entry in the history of a node.
async fn newest_entry(nodes: &MachineNodes, name: &str) -> Value {
    let words = ["schedule", "history", "puppet", "--node", name, "--count", "1"];
    let (mut history, _) = nodes.operator.run_json(&words).await;
    history["entries"][0].take()
}

/// While a person runs `puppet agent --test`, the scheduled run of the machine waits or is skipped: the two do not overlap.
async fn yields_to_a_person(nodes: &MachineNodes) {
    let (machines, name) = (&nodes.machines, node_name(PERSON));
    // Just after a scheduled run, so that the person's run is the next one.
    poll_until_ok("a scheduled run has ended", INTERVAL * 3, async || {
        let newest = newest_entry(nodes, &name).await;
        let age = now().saturating_sub(newest["at"].as_u64().unwrap_or_default());
        if newest["outcome"] == "succeeded" && age < 10_000 { Ok(()) } else { Err(newest) }
    })
    .await;
    machines.sh(PERSON, "rm /var/scheduled; touch /var/hold").await;
    let interactive = machines.run(PERSON, "puppet agent --test --color=false");
    let yields = async {
        machines.await_script(PERSON, "grep -q begin /var/scheduled").await;
        poll_until_ok("the scheduled run yields", INTERVAL * 3, async || {
            let runs = nodes.call(PERSON, &["puppet", "runs", "count=1"]).await;
            let state = &runs["data"]["runs"][0]["state"];
            let newest = newest_entry(nodes, &name).await;
            let is_skipped = newest["reason"] == "already running";
            if state == "waiting_lock" || is_skipped { Ok(()) } else { Err((runs, newest)) }
        })
        .await;
        let begun = machines.sh(PERSON, "grep -c begin /var/scheduled").await;
        assert_eq!(begun.trim(), "1", "a scheduled run began beside that of a person");
        machines.sh(PERSON, "rm /var/hold").await;
    };
    let (output, ()) = tokio::join!(interactive, yields);
    assert_eq!(output.status.code(), Some(2), "{}", describe_output(&output));
}
