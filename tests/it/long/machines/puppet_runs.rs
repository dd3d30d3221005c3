//! Runs of the real `puppet agent` on ten machines against a real Puppet Server on this host, limited by permits; a service that
//! restarts when the machine is idle; and runs that an administrator starts on the machine.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use muster_tests::command::describe_output;
use muster_tests::poll_until_ok;
use muster_tests::puppetserver::PuppetServer;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::{again_runs, scheduled_runs};
use crate::machines::RECOVERY_TIMEOUT;
use crate::machines::fleet::MachineFleet;
use crate::machines::nodes::{MachineNodes, NodeOptions, node_name};

pub(super) const MACHINES: usize = 10;
const LIMIT: usize = 4;
/// The port that agents expect.
const SERVER_PORT: u16 = 8140;
/// Machines whose Puppet starts at the same time for its certificate.
const CONCURRENT: usize = 3;

/// Each run records when its work began and ended; machines share the clock of this host. The work begins its 6 seconds when `/var/hold`
/// does not exist.
const MANIFEST: &str = r#"
file { '/etc/motd': content => "from puppet\n" }
exec { 'work':
  command => '/bin/sh -c "echo begin $(date +%s%N) >>/var/runs; while test -e /var/hold; do sleep 0.2; done; sleep 6; echo end $(date +%s%N) >>/var/runs"',
}
"#;

/// Passes connections to the machines' port of this host on to the server, which listens on loopback.
async fn relay(host: &str, server_port: u16) -> JoinHandle<()> {
    let listener = TcpListener::bind((host, SERVER_PORT)).await.unwrap();
    tokio::spawn(async move {
        while let Ok((mut agent, _)) = listener.accept().await {
            tokio::spawn(async move {
                if let Ok(mut server) = TcpStream::connect(("127.0.0.1", server_port)).await {
                    let _ = tokio::io::copy_bidirectional(&mut agent, &mut server).await;
                }
            });
        }
    })
}

/// Gives a machine a signed certificate of the server.
async fn request_certificate(machines: &MachineFleet, server: &PuppetServer, machine: &str) {
    let (host, name) = (&machines.host, node_name(machine));
    let configuration = format!(
        "echo '{host} puppet.example.net' >>/etc/hosts; printf '[main]\\nserver = puppet.example.net\\ncertname = {name}\\nkeylength = 2048\\n' \
         >/etc/puppet/puppet.conf"
    );
    machines.sh(machine, &configuration).await;
    machines.run(machine, "puppet ssl submit_request").await;
    server.sign_request(&name).await;
    machines.sh(machine, "puppet ssl download_cert").await;
}

/// The largest number of runs at the same time, and the number of runs of each machine.
async fn measure_runs(machines: &MachineFleet) -> (usize, Vec<usize>) {
    let mut moments = Vec::new();
    let mut counts = Vec::new();
    for machine in machines.names() {
        let text = machines.sh(machine, "cat /var/runs").await;
        counts.push(text.lines().filter(|line| line.starts_with("begin")).count());
        for line in text.lines() {
            let (word, time) = line.split_once(' ').unwrap();
            moments.push((time.parse::<u64>().unwrap(), word == "begin"));
        }
    }
    moments.sort_unstable();
    let (mut running, mut highest) = (0_usize, 0);
    for (_, is_begin) in moments {
        running = if is_begin { running + 1 } else { running - 1 };
        highest = highest.max(running);
    }
    (highest, counts)
}

/// Ten machines with certificates of the server, and the relay of their connections to it.
async fn start_machines(server: &PuppetServer) -> Option<(MachineNodes, JoinHandle<()>)> {
    let options = NodeOptions {
        puppet: true,
        configuration: again_runs::CONFIGURATION,
        ..NodeOptions::default()
    };
    let nodes = MachineNodes::start(MACHINES, options).await?;
    let machines = &nodes.machines;
    let relay = relay(&machines.host, server.port()).await;
    server.write_manifest(MANIFEST);
    let names = machines.names();
    stream::iter(&names)
        .for_each_concurrent(CONCURRENT, async |machine| {
            request_certificate(machines, server, machine).await;
        })
        .await;
    Some((nodes, relay))
}

/// `rpcd restart-when-idle`, started with systemd-run during a run, restarts the service after that run.
async fn restart_waits_for_the_run(nodes: &MachineNodes) {
    let machines = &nodes.machines;
    machines
        .sh(
            "m1",
            "printf '[Service]\\nExecStart=/bin/sleep infinity\\n' >/etc/systemd/system/stub.service && systemctl daemon-reload && \
             systemctl start stub && rm /var/runs",
        )
        .await;
    let pid = machines.sh("m1", "systemctl show -P MainPID stub").await;
    let run = nodes.operator.run_json(&["puppet", "runonce", "--force", "-I", "m1.example.net"]);
    let restart = async {
        machines.await_script("m1", "grep -q begin /var/runs").await;
        machines
            .sh("m1", "systemd-run --quiet --collect rpcd restart-when-idle stub.service")
            .await;
        poll_until_ok("the service has restarted", RECOVERY_TIMEOUT, async || {
            let now = machines.sh("m1", "systemctl show -P MainPID stub").await;
            if now == pid || now == "0" { Err(now) } else { Ok(()) }
        })
        .await;
        machines.sh("m1", "grep -q end /var/runs").await;
    };
    let ((document, code), ()) = tokio::join!(run, restart);
    assert_eq!(code, 0, "{document:#}");
    assert_eq!(document["nodes"].as_array().map(Vec::len), Some(1), "{document:#}");
}

/// The words of `/var/runs` in the order of their times.
async fn read_moments(machines: &MachineFleet, machine: &str) -> Vec<String> {
    let text = machines.sh(machine, "sort -k 2 -n /var/runs").await;
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// `puppet agent --test`, as an administrator types it on the machine, while a run is requested: the status shows the active run, the
/// requested one waits for its end, and both are made.
async fn interactive_run_and_requested_run_do_not_overlap(nodes: &MachineNodes, machine: &str) {
    let (machines, name) = (&nodes.machines, node_name(machine));
    machines.sh(machine, "rm /var/runs; echo x >/etc/motd; touch /var/hold").await;
    let interactive = machines.run(machine, "puppet agent --test --color=false");
    let requested = async {
        machines.await_script(machine, "grep -q begin /var/runs").await;
        let status = nodes.call(machine, &["puppet", "status"]).await;
        assert_eq!(status["data"]["applying"], true, "{status:#}");
        machines.sh(machine, "rm /var/hold").await;
        let words = ["puppet", "runonce", "--force", "-I", name.as_str()];
        nodes.operator.run_json(&words).await
    };
    let (output, (document, code)) = tokio::join!(interactive, requested);
    // With `--test`, 2 means that the run has changed something.
    let text = describe_output(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("Exec[work]/returns: executed successfully"), "{text}");
    assert_eq!(code, 0, "{document:#}");
    assert_eq!(document["nodes"].as_array().map(Vec::len), Some(1), "{document:#}");
    assert_eq!(read_moments(machines, machine).await, ["begin", "end", "begin", "end"]);
    assert_eq!(machines.sh(machine, "cat /etc/motd").await, "from puppet");
}

/// An administrator who starts a run during a requested one gets Puppet's own notice, and the requested run ends undisturbed.
async fn requested_run_refuses_an_interactive_run(nodes: &MachineNodes, machine: &str) {
    let (machines, name) = (&nodes.machines, node_name(machine));
    machines.sh(machine, "rm /var/runs; touch /var/hold").await;
    let words = ["puppet", "runonce", "--force", "-I", name.as_str()];
    let requested = nodes.operator.run_json(&words);
    let interactive = async {
        machines.await_script(machine, "grep -q begin /var/runs").await;
        machines
            .run(machine, "puppet agent --test --color=false; code=$?; rm /var/hold; exit $code")
            .await
    };
    let ((document, code), output) = tokio::join!(requested, interactive);
    let text = describe_output(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("Run of Puppet configuration client already in progress"), "{text}");
    assert_eq!(code, 0, "{document:#}");
    assert_eq!(read_moments(machines, machine).await, ["begin", "end"]);
}

/// Run by `make slow`.
mod slow {
    use super::{
        LIMIT, MACHINES, PuppetServer, again_runs,
        interactive_run_and_requested_run_do_not_overlap, join_all, measure_runs,
        requested_run_refuses_an_interactive_run, restart_waits_for_the_run, scheduled_runs,
        start_machines,
    };

    #[tokio::test(flavor = "multi_thread")]
    async fn puppetserver_runs_on_ten_machines_keep_the_limit() {
        let Some(server) = PuppetServer::start().await else { return };
        let Some((nodes, relay)) = start_machines(&server).await else { return };
        let machines = &nodes.machines;
        let names = machines.names();

        let limit = LIMIT.to_string();
        let (document, code) =
            nodes.operator.run_json(&["puppet", "runall", &limit, "--yes", "--force"]).await;
        assert_eq!(code, 0, "{document:#}");
        let contents =
            join_all(names.iter().map(|machine| machines.sh(machine, "cat /etc/motd"))).await;
        assert!(contents.iter().all(|content| content == "from puppet"), "{contents:?}");
        let (highest, counts) = measure_runs(machines).await;
        println!("{MACHINES} runs, at most {highest} at the same time");
        assert!(highest <= LIMIT, "{highest} runs at the same time, the limit is {LIMIT}");
        // The server compiles one catalog at a time, so the work of concurrent runs need not overlap; their locks do.
        assert_eq!(document["proof"]["highest_concurrency"], LIMIT, "{document:#}");
        assert!(counts.iter().all(|count| *count == 1), "runs of each machine: {counts:?}");

        restart_waits_for_the_run(&nodes).await;
        interactive_run_and_requested_run_do_not_overlap(&nodes, "m2").await;
        requested_run_refuses_an_interactive_run(&nodes, "m3").await;
        again_runs::machines_get_the_runs_that_they_need(&nodes, &server).await;
        again_runs::loop_is_stopped_and_named(&nodes, &server).await;
        relay.abort();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn puppetserver_runs_of_a_schedule_are_spread_yield_and_catch_up() {
        let Some(server) = PuppetServer::start().await else { return };
        let Some((nodes, relay)) = start_machines(&server).await else { return };
        scheduled_runs::schedule_spreads_runs_yields_and_catches_up(&nodes, &server).await;
        relay.abort();
    }
}
