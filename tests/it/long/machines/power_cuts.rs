//! Power failures: machines lose their power at random moments of changes, catalogs, restarts and enrolments, with everything that
//! was not synced to their disks. Booted again: nothing that was promised is lost, nothing runs twice, no file is corrupt. Most cuts are
//! made when the work has begun, and at least a third of all hit it before its end.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use muster_tests::{poll_until_ok, simulate_delay};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::machines::RECOVERY_TIMEOUT;
use crate::machines::fleet::MachineFleet;
use crate::machines::nodes::{MachineNodes, NodeOptions, count_answers, node_name};
use crate::machines::organisation::OperatorHost;

/// Rounds; in each, all machines lose their power once: 4 × 13 = 52.
const ROUNDS: usize = 13;
/// The machines, and what their power cuts interrupt.
const CHANGING: &str = "m1";
const CATALOG: &str = "m2";
const RESTARTING: &str = "m3";
const ENROLLING: &str = "m4";
/// A cut takes some 0.3 s to begin, and a request some 0.1 s to arrive: the request is sent at a random moment until this time after the
/// cut was started, or before it by as much as [`EARLIEST_REQUEST`].
const LATEST_REQUEST: Duration = Duration::from_millis(500);
const EARLIEST_REQUEST: Duration = Duration::from_millis(300);

/// One round in this many makes its cuts at any time around the request; the others make them when the work has begun.
const ROUNDS_AROUND: usize = 6;
/// A cut that waits for the work to begin is started this long before the request.
const WATCH_TIME: Duration = Duration::from_millis(700);
/// The longest time of a cut after the begin of a change, a catalog, a restart, and an enrolment.
const LATEST_CUTS: [Duration; 4] = [
    Duration::from_millis(15),
    Duration::from_millis(600),
    Duration::from_millis(30),
    Duration::from_millis(100),
];
/// The files that say how far the work is: the journal of begun requests, the starts of the service, and the state of an enrolment.
const BEGUN: &str = "/var/lib/muster/begun";
const STUB_STARTS: &str = "/var/stub-starts";
const PROPOSAL: &str = "/var/lib/muster/newcomer.json";
const CREDENTIALS: &str = "/var/lib/muster/node.creds";

const CONFIGURATION: &str = "[plugins.catalog]\nenabled = true\n";

/// A service for restarts; it counts its starts.
const STUB: &str = "[Service]\nExecStartPre=/bin/sh -c 'echo start >>/var/stub-starts; sync -f /var/stub-starts'\n\
    ExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n";

/// The reply to a request that a power cut may have interrupted.
async fn call(operator: &OperatorHost, machine: &str, words: &[&str]) -> Option<Value> {
    let name = node_name(machine);
    let words = [&["do"], words, &["-I", &name, "--timeout", "10"]].concat();
    let (document, _) = operator.run_json(&words).await;
    document["replies"].as_array().and_then(|replies| replies.first()).cloned()
}

fn is_ok(reply: Option<&Value>) -> bool {
    reply.is_some_and(|reply| reply["statuscode"] == 0)
}

/// When the power is cut.
#[derive(Debug, Clone, Copy)]
enum CutMoment {
    /// The request is sent this long after [`EARLIEST_REQUEST`] before the cut is started.
    Around(Duration),
    /// This long after the work has begun.
    AfterBegin(Duration),
}

impl CutMoment {
    /// A random moment; `kind` is the index in [`LATEST_CUTS`].
    fn choose(random: &mut StdRng, round: usize, kind: usize) -> Self {
        if round.is_multiple_of(ROUNDS_AROUND) {
            Self::Around(random.random_range(Duration::ZERO..EARLIEST_REQUEST + LATEST_REQUEST))
        } else {
            Self::AfterBegin(random.random_range(Duration::ZERO..LATEST_CUTS[kind]))
        }
    }
}

/// What a power cut interrupted.
#[derive(Debug, Default, Clone, Copy)]
struct CutOutcome {
    /// Whether the request was answered.
    is_answered: bool,
    /// Whether the work had begun and not ended, as the machine's files said at the cut.
    is_hit: bool,
}

/// The content of the machine's files at the cut; empty if that was not read.
#[derive(Debug, Default)]
struct CutState(BTreeMap<String, Option<String>>);

impl CutState {
    fn text(&self, path: &str) -> Option<&str> {
        self.0.get(path)?.as_deref()
    }

    /// Whether a request had begun and not ended.
    fn has_unfinished_request(&self) -> bool {
        let lines = self.text(BEGUN).unwrap_or_default();
        let count = |word| lines.lines().filter(|line| line.contains(word)).count();
        count("\"begun\"") > count("\"ended\"")
    }
}

/// Starts a request, cuts the power of its machine, boots it, and returns the reply, if there was one.
async fn interrupt(
    nodes: &MachineNodes,
    machine: &str,
    moment: CutMoment,
    words: &[&str],
) -> (Option<Value>, CutState) {
    let machines = &nodes.machines;
    let request = async |wait| {
        simulate_delay(wait).await;
        call(&nodes.operator, machine, words).await
    };
    match moment {
        CutMoment::Around(after) => {
            let cut = async {
                simulate_delay(EARLIEST_REQUEST).await;
                machines.cut_power(&[machine]).await;
                machines.power_on(&[machine]).await;
            };
            (tokio::join!(request(after), cut).0, CutState::default())
        }
        CutMoment::AfterBegin(delay) => {
            let cut = async {
                let shown = [BEGUN, STUB_STARTS];
                let state = machines.cut_power_after(machine, BEGUN, delay, &shown).await;
                machines.power_on(&[machine]).await;
                CutState(state)
            };
            tokio::join!(request(WATCH_TIME), cut)
        }
    }
}

/// Whether the state files and user databases of a machine are whole, and its audit log is consistent.
async fn check_machine(machines: &MachineFleet, machine: &str) {
    machines.sh(machine, "pwck -rq && grpck -r").await;
    machines.sh(machine, "systemctl is-active rpcd").await;
    // A file that was not complete when the power failed must have its temporary name.
    machines.sh(machine, "for f in $(find /var/lib/muster -name '*.json'); do test -s $f || { echo empty: $f; exit 1; }; done").await;
}

/// A file of 64 KiB, a user and a host entry: each is as before or as after, and as after if the reply said so.
async fn cut_during_changes(nodes: &MachineNodes, round: usize, moment: CutMoment) -> CutOutcome {
    let machines = &nodes.machines;
    let content = format!("{round:04}\n").repeat(13_000);
    let file = ["puppetral", "do", "type=file", "name=/etc/changed", &format!("content={content}")];
    let uid = format!("uid={}", 3000 + round);
    let user = ["puppetral", "do", "type=user", &format!("name=user{round}"), &uid];
    let host = ["puppetral", "do", "type=host", &format!("name=host{round}"), "ip=10.9.9.9"];
    let words: &[&str] = match round % 3 {
        0 => &file,
        1 => &user,
        _ => &host,
    };
    let (reply, state) = interrupt(nodes, CHANGING, moment, words).await;
    let is_answered = is_ok(reply.as_ref());
    check_machine(machines, CHANGING).await;
    let is_applied = match round % 3 {
        0 => {
            let found = machines
                .sh(CHANGING, "sort -u /etc/changed 2>&- ; wc -c </etc/changed 2>&- || true")
                .await;
            let expected = format!("{round:04}\n{}", content.len());
            let lines: Vec<&str> = found.lines().collect();
            assert!(
                lines.is_empty() || lines.len() == 2 && lines[1] == content.len().to_string(),
                "round {round}: mixed or cut: {found}"
            );
            found == expected
        }
        1 => !machines.sh(CHANGING, &format!("getent passwd user{round} || true")).await.is_empty(),
        _ => {
            !machines.sh(CHANGING, &format!("grep host{round} /etc/hosts || true")).await.is_empty()
        }
    };
    assert!(is_applied || !is_answered, "round {round}: reported, and lost: {}", words[3]);
    // Entries that were there before any round are still there.
    machines.sh(CHANGING, "grep -q m99.example.net /etc/hosts").await;
    // A node that lost its journal of seen requests refuses those that were issued before it started: "send it again".
    poll_until_ok(
        &format!("round {round}: the change is repeated"),
        RECOVERY_TIMEOUT,
        async || {
            let reply = call(&nodes.operator, CHANGING, words).await;
            if is_ok(reply.as_ref()) { Ok(()) } else { Err(reply) }
        },
    )
    .await;
    CutOutcome { is_answered, is_hit: state.has_unfinished_request() }
}

/// A file that notifies a command: after the next complete run the command has run for every content that the file had.
async fn cut_during_catalog(nodes: &MachineNodes, round: usize, moment: CutMoment) -> CutOutcome {
    let machines = &nodes.machines;
    let catalog = json!([
        {"type": "file", "title": "/etc/trigger", "content": format!("{round}\n"), "notify": "Exec[refresh]"},
        {"type": "exec", "title": "pause", "command": ["/bin/sleep", "1"], "require": "File[/etc/trigger]", "before": "Exec[refresh]"},
        {"type": "exec", "title": "refresh", "refreshonly": true,
         "command": ["/bin/sh", "-c", "cat /etc/trigger >>/var/refreshed && sync -f /var/refreshed"]},
    ]);
    let input = format!("catalog={catalog}");
    let words = ["catalog", "apply", input.as_str()];
    let (reply, state) = interrupt(nodes, CATALOG, moment, &words).await;
    let is_answered = is_ok(reply.as_ref());
    check_machine(machines, CATALOG).await;
    let refreshed = format!("grep -cx {round} /var/refreshed || true");
    if is_answered {
        assert_ne!(
            machines.sh(CATALOG, &refreshed).await,
            "0",
            "round {round}: reported, and lost"
        );
    }
    let reply = poll_until_ok("the catalog is applied", RECOVERY_TIMEOUT, async || {
        let reply = call(&nodes.operator, CATALOG, &words).await;
        if is_ok(reply.as_ref()) { Ok(reply) } else { Err(reply) }
    })
    .await;
    assert_eq!(machines.sh(CATALOG, "cat /etc/trigger").await, round.to_string());
    let count = machines.sh(CATALOG, &refreshed).await;
    assert_ne!(count, "0", "round {round}: the refresh is lost: {reply:#?}");
    CutOutcome { is_answered, is_hit: state.has_unfinished_request() }
}

/// A restart that was accepted is carried out; the service runs.
async fn cut_during_restart(nodes: &MachineNodes, round: usize, moment: CutMoment) -> CutOutcome {
    let machines = &nodes.machines;
    let starts = machines.sh(RESTARTING, &format!("cat {STUB_STARTS}")).await;
    let words = ["restart", "request", "unit=stub.service"];
    let (reply, state) = interrupt(nodes, RESTARTING, moment, &words).await;
    // The service has not been started again.
    let is_hit = state.text(STUB_STARTS).is_some_and(|found| found.trim_end() == starts);
    let is_answered = is_ok(reply.as_ref());
    check_machine(machines, RESTARTING).await;
    machines.await_script(RESTARTING, "systemctl is-active stub").await;
    if is_answered {
        poll_until_ok("the restart ends", RECOVERY_TIMEOUT, async || {
            let status =
                call(&nodes.operator, RESTARTING, &["restart", "status", "unit=stub.service"])
                    .await;
            match &status {
                Some(found) if found["data"]["state"] == "ok" => Ok(()),
                _ => Err(format!("round {round}: {status:#?}")),
            }
        })
        .await;
    }
    CutOutcome { is_answered, is_hit: is_hit || state.has_unfinished_request() }
}

/// A new machine whose power fails while it enrols: it is enrolled in the end, under its name.
async fn cut_during_enrolment(nodes: &MachineNodes, round: usize, moment: CutMoment) -> CutOutcome {
    let (machines, operator) = (&nodes.machines, &nodes.operator);
    let identity = format!("new{round}.example.net");
    let setting = format!("identity={identity}");
    let script = operator
        .run_successfully(&[
            "provision",
            "user-data",
            "--token",
            "new.creds",
            "--shell",
            "--set",
            &setting,
        ])
        .await;
    machines
        .sh(ENROLLING, "systemctl stop rpcd; rm -rf /var/lib/muster /etc/muster; sync -f /etc")
        .await;
    // The configuration is on the disk, as it is on that of a cloud machine; enrolment itself is interrupted.
    let (write, start) = script.split_once("systemctl daemon-reload").unwrap();
    machines.pipe(ENROLLING, &format!("{write}sync -f /etc\n")).await;
    let start = format!("systemctl daemon-reload{start}");
    let state = match moment {
        CutMoment::Around(after) => {
            machines.pipe(ENROLLING, &start).await;
            simulate_delay(after).await;
            machines.cut_power(&[ENROLLING]).await;
            CutState::default()
        }
        CutMoment::AfterBegin(delay) => {
            let shown = [PROPOSAL, CREDENTIALS];
            let cut = machines.cut_power_after(ENROLLING, PROPOSAL, delay, &shown);
            let begin = async {
                simulate_delay(WATCH_TIME).await;
                machines.pipe_until_cut(ENROLLING, &start).await;
            };
            CutState(tokio::join!(cut, begin).0)
        }
    };
    machines.power_on(&[ENROLLING]).await;
    poll_until_ok(&format!("{identity} answers"), RECOVERY_TIMEOUT, async || {
        let output = operator.run(&["ping", "-I", &identity]).await;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.contains("time=") { Ok(()) } else { Err(text) }
    })
    .await;
    check_machine(machines, ENROLLING).await;
    let is_hit = state.text(PROPOSAL).is_some() && state.text(CREDENTIALS).is_none();
    CutOutcome { is_answered: false, is_hit }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_power_cuts_lose_nothing_and_repeat_nothing() {
    let seed: u64 = std::env::var("MUSTER_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(rand::random);
    println!("MUSTER_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let options = NodeOptions { configuration: CONFIGURATION, ..NodeOptions::default() };
    let Some(nodes) = MachineNodes::start(4, options).await else { return };
    prepare(&nodes).await;
    let started = Instant::now();
    let mut outcomes = Vec::new();
    for round in 0..ROUNDS {
        let [change, catalog, restart, enrolment] =
            [0, 1, 2, 3].map(|kind| CutMoment::choose(&mut random, round, kind));
        let found = <[CutOutcome; 4]>::from(tokio::join!(
            cut_during_changes(&nodes, round, change),
            cut_during_catalog(&nodes, round, catalog),
            cut_during_restart(&nodes, round, restart),
            cut_during_enrolment(&nodes, round, enrolment),
        ));
        println!("round {round}: hits {:?}", found.map(|outcome| outcome.is_hit));
        outcomes.push(found);
    }
    count_answers(&nodes.operator, 4).await;
    let cuts = ROUNDS * 4;
    println!("{cuts} power cuts in {:?}", started.elapsed());
    let answered = outcomes.as_flattened().iter().filter(|outcome| outcome.is_answered).count();
    println!("{answered} of {} interrupted requests were answered", ROUNDS * 3);
    let hits: Vec<usize> =
        (0..4).map(|kind| outcomes.iter().filter(|outcome| outcome[kind].is_hit).count()).collect();
    println!("hits of changes, catalogs, restarts, enrolments in {ROUNDS} cuts each: {hits:?}");
    let hit = hits.iter().sum::<usize>();
    // Some 55 % do; the moments are random.
    assert!(hit * 3 >= cuts, "{hit} of {cuts} cuts hit work that had begun and not ended");
    assert!(hits.iter().all(|hits| *hits > 0), "{hits:?}");
}

/// The service that is restarted, and an enroller on the machine whose changes are interrupted.
async fn prepare(nodes: &MachineNodes) {
    let (machines, operator) = (&nodes.machines, &nodes.operator);
    let unit = format!(
        "cat >/etc/systemd/system/stub.service <<'END'\n{STUB}END\nsystemctl enable --now stub; sync -f /etc"
    );
    machines.sh(RESTARTING, &unit).await;
    operator.run_successfully(&["provision", "host", "provisioner", "--out", "provisioner"]).await;
    operator
        .run_successfully(&[
            "provision",
            "token",
            "--names",
            "new*.example.net",
            "--out",
            "new.creds",
        ])
        .await;
    operator.run_successfully(&["org", "push"]).await;
    // On a machine that stays on for longest: enrolment must survive the enroller's power cuts, too.
    machines.copy(CHANGING, &operator.path("provisioner"), "/etc/muster/provisioner").await;
    machines
        .sh(CHANGING, "mv /etc/muster/provisioner/provisioner.toml /etc/muster/conf.d/ && sync -f /etc && systemctl restart rpcd")
        .await;
    join_all(machines.names().iter().map(|machine| machines.sh(machine, "sync -f /var"))).await;
    count_answers(operator, 4).await;
}
