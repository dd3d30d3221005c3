//! Passive results for the HTTP API of Icinga 2, which a server of the test plays. The real one is in `machines/checks.rs`.

use std::process::Output;
use std::time::{Duration, Instant};

use muster_client::RpcSettings;
use muster_contract::nrpe::CheckState;
use muster_operations::check::{IcingaApi, PassiveResult};
use muster_tests::await_state;
use muster_tests::command::{RpcCommand, describe_output};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::ChildStderr;

use super::icinga_server::{
    AUTHORIZATION, IcingaReply, IcingaServer, PASSWORD, configure_icinga, write_secret,
};
use super::passive::HOSTILE;
use super::schedule_fixture::{NODE, ScheduleFleet, entry};

/// Runs `rpc check check_x --icinga-api`; returns its output and its exit code. No output has the password.
async fn run_check(rpc: &RpcCommand, more: &[&str]) -> (String, i32) {
    let output: Output = rpc.run(&[&["check", "check_x", "--icinga-api"], more].concat()).await;
    let text = describe_output(&output);
    assert!(!text.contains(PASSWORD) && !text.contains(AUTHORIZATION), "{text}");
    (text, output.status.code().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_delivers_results_and_names_services_that_icinga_does_not_take() {
    let fleet = ScheduleFleet::start("").await;
    let (server, rpc) = (IcingaServer::start().await, &fleet.fleet.rpc);
    configure_icinga(rpc, &server.settings());
    fleet.set_result("echo 'LOAD; high | load1=9;5;8;0; junk'; echo 'second | x=1'; exit 2");
    let (text, exit) = run_check(rpc, &["--icinga-ttl", "600"]).await;
    assert!(text.contains("CRITICAL: 1") && exit == 2, "{text}");
    let [request] = server.take_requests().try_into().unwrap();
    assert_eq!(
        request.body,
        json!({
            "service": format!("{NODE}!check_x"), "exit_status": 2, "plugin_output": "LOAD; high\nsecond",
            "performance_data": ["load1=9;5;8;0", "x=1"], "check_source": NODE, "ttl": 600, "verbose": true,
        })
    );
    assert_eq!(request.authorization.as_deref(), Some(AUTHORIZATION));
    for hostile in HOSTILE {
        fleet.node.write("plugins/output", hostile);
        fleet.set_result("cat $dir/output; exit 1");
        assert_eq!(run_check(rpc, &[]).await.1, 1);
        let [request] = server.take_requests().try_into().unwrap();
        let output = request.body["plugin_output"].as_str().unwrap();
        assert!(
            !output.contains(|c: char| c != '\n' && (c.is_control() || c == '\u{202e}')),
            "{output:?}"
        );
        assert_eq!(
            (&request.body["service"], &request.body["exit_status"]),
            (&json!(format!("{NODE}!check_x")), &json!(1))
        );
    }
    let missing = "Error: Missing permission: actions/process-check-result";
    let disabled = "Passive checks are disabled for object 'x'.";
    let disabled_reply = json!({"results": [{"code": 403.0, "status": disabled}]}).to_string();
    let forbidden = "denies the user muster the permission actions/process-check-result";
    let unavailable = || IcingaReply::error(503, "Icinga is reloading.", "");
    // A request is sent again only after an error of the server, twice at most.
    for (replies, count, expected) in [
        (
            vec![IcingaReply::unknown()],
            1,
            "Icinga does not know 1 of 1 services: web1.example.net!check_x",
        ),
        (vec![IcingaReply::Status(403, disabled_reply)], 1, disabled),
        (
            vec![IcingaReply::error(401, "Unauthorized.", "")],
            1,
            "does not accept the user muster: wrong name, password or certificate",
        ),
        (vec![IcingaReply::error(404, "No objects found.", missing)], 1, forbidden),
        (vec![IcingaReply::error(403, missing, "")], 1, forbidden),
        (
            vec![IcingaReply::Status(302, "{}".to_owned())],
            1,
            "is not one of Icinga 2's API: status 302",
        ),
        (
            vec![IcingaReply::Status(200, "x".repeat(2 * 1024 * 1024))],
            1,
            "the response has more than 1048576 bytes",
        ),
        (vec![IcingaReply::Silence], 1, "is not available: no response within the time limit"),
        (
            vec![unavailable(), unavailable(), unavailable()],
            3,
            "is not available: status 503: Icinga is reloading.",
        ),
    ] {
        server.reply_next(replies.clone());
        let start = Instant::now();
        let (text, exit) = run_check(rpc, &[]).await;
        assert!(
            text.contains("check_x: UNKNOWN: ") && text.contains(expected) && exit == 3,
            "{replies:?}: {text}"
        );
        assert_eq!(server.take_requests().len(), count, "{replies:?}");
        assert!(start.elapsed() < Duration::from_secs(20), "{replies:?}");
    }
    server.reply_next([unavailable(), unavailable()]);
    assert_eq!(run_check(rpc, &[]).await.1, 1);
    assert_eq!(server.take_requests().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_trusted_server_gets_the_secret_of_a_private_file() {
    let fleet = ScheduleFleet::start("").await;
    let (server, rpc) = (IcingaServer::start().await, &fleet.fleet.rpc);
    let settings = server.settings();
    let (ca, url) = (server.path("ca.pem"), server.url());
    let with_password = format!("https://muster:{PASSWORD}@localhost");
    let certificate = |ca: &str| {
        let [chain, key] = ["pem", "key"].map(|end| server.path(&format!("{ca}-client.{end}")));
        format!("certificate = \"{chain}\"\nkey = \"{key}\"\n")
    };
    let with_certificate =
        |ca_file: &str, more: &str| format!("[icinga]\nca = \"{ca_file}\"\n{more}");
    for (section, options, expected) in [
        (settings.replace(&ca, &server.path("other.pem")), vec![], "no trusted TLS connection"),
        (settings.replace("localhost", "127.0.0.1"), vec![], "no trusted TLS connection"),
        (
            settings.replace(&format!("ca = \"{ca}\"\n"), ""),
            vec![],
            "needs the certificate of Icinga's CA; set `icinga.ca` in ",
        ),
        (
            settings.replace("https:", "http:").replace("localhost", "icinga.example.net"),
            vec![],
            "is not an address of Icinga 2's API",
        ),
        (settings.clone(), vec!["http://192.0.2.1:5665"], "is not an address of Icinga 2's API"),
        (settings.clone(), vec![&with_password], "is not an address of Icinga 2's API"),
        (String::new(), vec![], "needs an address; set `icinga.url` in "),
        (with_certificate(&ca, ""), vec![&url], "set `icinga.user` in "),
        // A server that refuses the certificate closes the connection; the refusal or the closed connection is seen first.
        (with_certificate(&ca, &certificate("other")), vec![&url], "Icinga at https://localhost:"),
    ] {
        configure_icinga(rpc, &section);
        let (text, exit) = run_check(rpc, &options).await;
        assert!(text.contains(expected) && exit == 3, "{section} {options:?}: {text}");
        assert!(server.take_requests().is_empty(), "{section} {options:?}");
    }
    configure_icinga(rpc, &settings);
    for mode in [0o640, 0o604] {
        write_secret(server.path("password").into(), PASSWORD, mode);
        let (text, exit) = run_check(rpc, &[]).await;
        assert!(text.contains("run `chmod 600 ") && exit == 3, "{text}");
    }
    write_secret(server.path("password").into(), "\n", 0o600);
    assert!(run_check(rpc, &[]).await.0.contains("has no password on its only line"));
    assert!(server.take_requests().is_empty());
    // A certificate instead of a password, and an address on the command line.
    configure_icinga(rpc, &with_certificate(&ca, &certificate("ca")));
    assert_eq!(run_check(rpc, &[&url]).await.1, 0);
    let [request] = server.take_requests().try_into().unwrap();
    assert!(request.has_certificate && request.authorization.is_none());
    let (text, exit) = run_check(rpc, &["--command-file", "/x"]).await;
    assert!(text.contains("cannot be used with") && exit == 4, "{text}");
    for arguments in [
        &["checks", "--icinga-api"][..],
        &["checks", "--follow"],
        &["checks", "--follow", "--icinga-api", "--command-file", "/x"],
    ] {
        assert_eq!(rpc.run(arguments).await.status.code(), Some(4), "{arguments:?}");
    }
}

/// Reads messages of a follower until one has a text; returns all of them.
async fn await_message(errors: &mut BufReader<ChildStderr>, expected: &str) -> Vec<String> {
    let read = async {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(
                errors.read_line(&mut line).await.unwrap() > 0,
                "the follower ended: {lines:?}"
            );
            let is_expected = line.contains(expected);
            lines.push(line);
            if is_expected {
                return lines;
            }
        }
    };
    let lines = tokio::time::timeout(Duration::from_mins(1), read).await;
    lines.unwrap_or_else(|_| panic!("no message with {expected:?}"))
}

/// State and output of the last result.
fn last_result(server: &IcingaServer) -> Option<(Value, Value)> {
    let body = server.requests().pop()?.body;
    Some((body["exit_status"].clone(), body["plugin_output"].clone()))
}

async fn await_result(server: &IcingaServer, code: u8) {
    let expected = Some((json!(code), json!(format!("state {code}"))));
    await_state("the newest state arrives", || last_result(server) == expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn follower_sends_all_states_again_after_icinga_or_the_broker_was_away() {
    let mut fleet =
        ScheduleFleet::start(&entry("x", "max_attempts = 1\nflap_detection = false")).await;
    let mut server = IcingaServer::start().await;
    configure_icinga(&fleet.fleet.rpc, &server.settings());
    fleet.trigger(1).await;
    let arguments = ["checks", "--follow", "--icinga-api"];
    let mut follower = fleet.fleet.rpc.prepare_command(&arguments).spawn().unwrap();
    let mut errors = BufReader::new(follower.stderr.take().unwrap());
    await_message(&mut errors, "Wrote 1 state;").await;
    await_result(&server, 1).await;
    assert_eq!(server.take_requests()[0].body["service"], json!(format!("{NODE}!x")));
    fleet.trigger(2).await;
    await_result(&server, 2).await;
    // A service that Icinga does not know is named once.
    server.reply_next([IcingaReply::unknown()]);
    fleet.trigger(0).await;
    await_message(&mut errors, &format!("Icinga does not know 1 of 1 services: {NODE}!x")).await;
    // Icinga ends: one warning, whatever happens meanwhile, and all states afterwards.
    server.close().await;
    server.take_requests();
    fleet.trigger(1).await;
    let lines = await_message(&mut errors, "waiting until it answers").await;
    assert!(lines.len() == 1 && lines[0].contains("is not available: "), "{lines:?}");
    for code in [0, 1, 2] {
        fleet.trigger(code).await;
    }
    server.reply_next([IcingaReply::error(503, "reloading", "")].into_iter().cycle().take(3));
    server.listen().await;
    let lines = await_message(&mut errors, "Wrote 1 state;").await;
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("The monitoring system answers again."), "{lines:?}");
    await_result(&server, 2).await;
    // A change while the connection to the broker is lost.
    fleet.change_while_disconnected(&follower, 0).await;
    await_message(&mut errors, "writing all states again").await;
    await_message(&mut errors, "Wrote 1 state;").await;
    await_result(&server, 0).await;
    // A wrong password does not get better by waiting.
    server.reply_always(IcingaReply::error(401, "Unauthorized.", ""));
    fleet.trigger(1).await;
    await_message(&mut errors, "does not accept the user muster").await;
    let status = tokio::time::timeout(Duration::from_mins(1), follower.wait()).await.unwrap();
    assert!(!status.unwrap().success());
}

/// Measured on a machine with two cores: 1,000 results over 8 connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_results_use_few_connections_and_one_that_fails_stops_none() {
    let server = IcingaServer::start().await;
    let operator =
        muster_wire::token::KeyPair::from_raw(muster_wire::token::KeyKind::Operator, &[7; 32]);
    let text = format!(
        "broker.urls = [\"tls://localhost\"]\ntrust.operator = \"{}\"\n{}",
        operator.public_key(),
        server.settings().replace("timeout_seconds = 3\n", "")
    );
    let settings = RpcSettings::parse("/e/rpc.toml".as_ref(), &text).unwrap().icinga;
    let api = IcingaApi::open(&settings, None, None).unwrap();
    let results = |output: &str| -> Vec<PassiveResult> {
        let result = |number| PassiveResult {
            time: 0,
            host: format!("node{number}.example.net"),
            service: "load".to_owned(),
            state: CheckState::Ok,
            output: output.to_owned(),
            perfdata: "load1=0.5;1;2;0; load5=0.4;1;2;0;".to_owned(),
            long_output: String::new(),
        };
        (0..1000).map(result).collect()
    };
    server.reply_next([IcingaReply::unknown(), IcingaReply::Accept, IcingaReply::unknown()]);
    let start = Instant::now();
    let report = api.deliver(results("fine")).await.unwrap();
    let took = start.elapsed();
    let connections = server.connection_count();
    eprintln!("1000 results in {} ms over {connections} connections", took.as_millis());
    assert_eq!((report.accepted, report.refused.len()), (998, 2));
    assert!(connections <= 8, "{connections}");
    assert!(took < Duration::from_secs(20), "{took:?}");
    let mut services: Vec<_> =
        server.take_requests().into_iter().map(|one| one.body["service"].clone()).collect();
    services.sort_by_key(Value::to_string);
    services.dedup();
    assert_eq!(services.len(), 1000);
    // A server that does not answer ends the delivery early.
    server.reply_always(IcingaReply::error(500, "x", ""));
    let error = api.deliver(results("fine")).await.unwrap_err();
    assert!(error.is_temporary() && server.take_requests().len() <= 24, "{error}");
}
