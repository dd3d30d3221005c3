//! The bootstrap account: its creation, the permissions of its users at the broker, and the files for bootstrapping nodes.

#![expect(clippy::disallowed_types, reason = "runs the first-boot script")]

use std::fs;

use muster_bus::{Bus, BusEvent, Bytes};
use muster_wire::enrol::TokenGrant;
use muster_wire::token::{AccountTrust, KeyPair, PublicKey, UserCredentials, UserRole};

use super::broker::{Broker, nats_server};
use super::world::{World, mode, pair, talk};

/// Removes the bootstrap account, as in an organisation from before it existed.
fn as_before(world: &World) {
    let profile = world.org().join("organisation.toml");
    let text = fs::read_to_string(&profile).unwrap();
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.starts_with("newcomers_account")).collect();
    fs::write(&profile, lines.join("\n")).unwrap();
    for file in
        ["newcomers.jwt", "keys/newcomers.nk", "keys/role-newcomer.nk", "keys/role-enroller.nk"]
    {
        fs::remove_file(world.org().join(file)).unwrap();
    }
}

fn tags(path: &str) -> Vec<String> {
    let creds = UserCredentials::parse(&fs::read_to_string(path.trim()).unwrap()).unwrap();
    creds.claims().nats.tags.clone()
}

#[test]
fn bootstrap_token_limits_names_uses_and_lifetime() {
    let world = World::new(&["--port", "1"]);
    let made = world.ok(&[
        "provision",
        "token",
        "--names",
        "web-*.acme.net",
        "--names",
        "ci-*.acme.net",
        "--uses",
        "20",
        "--expires",
        "2h",
        "--facts",
        "role=web",
        "--name",
        "shop",
    ]);
    assert_eq!(mode(made.trim().as_ref()), 0o600);
    let ticket = TokenGrant::from_tags(&tags(&made)).unwrap();
    assert_eq!(ticket.uses, Some(20));
    assert!(ticket.allows_name(&"web-1.acme.net".parse().unwrap()));
    assert!(!ticket.allows_name(&"db-1.acme.net".parse().unwrap()));
    assert_eq!(ticket.facts["role"], "web");
    let list = world.json(&["org", "list", "-j"]);
    let row = &list["parties"][0];
    assert_eq!(row["kind"], "newcomer");
    let life = row["expires"].as_u64().unwrap() - row["issued_at"].as_u64().unwrap();
    assert_eq!(life, 2 * 60 * 60);

    let again = world.rpc(&["provision", "token", "--names", "*", "--name", "shop"]);
    assert_eq!(again.status.code(), Some(1), "{}", talk(&again));
    let other = world.ok(&["provision", "token", "--names", "*"]);
    assert!(other.contains("creds/newcomers/bootstrap-"), "{other}");
    for wrong in ["", "a b", "web-[0-9]", "a**"] {
        let refused = world.rpc(&["provision", "token", "--names", wrong]);
        assert_eq!(refused.status.code(), Some(4), "{wrong}: {}", talk(&refused));
    }
}

#[test]
fn older_organisation_gets_the_bootstrap_account_once() {
    let world = World::new(&["--port", "1"]);
    world.ok(&["org", "add", "user", "rip"]);
    as_before(&world);
    let shown = world.json(&["org", "show", "-j"]);
    assert!(shown["newcomers_account"].is_null());
    assert_eq!(world.states(), [pair("rip", "valid")]);

    // The creation was interrupted after the first key was written.
    fs::create_dir_all(world.org().join("keys")).unwrap();
    let token = world.rpc(&["provision", "token", "--names", "web-*.acme.net", "--name", "b"]);
    assert_eq!(token.status.code(), Some(0), "{}", talk(&token));
    assert!(talk(&token).contains("rpc org push"), "{}", talk(&token));
    let shown = world.json(&["org", "show", "-j"]);
    let account = shown["newcomers_account"].as_str().unwrap().to_owned();
    assert_eq!(shown["newcomer_roles"].as_array().unwrap().len(), 2);
    let preload = fs::read_to_string(world.org().join("broker/accounts.conf")).unwrap();
    assert!(preload.contains(&account), "the preloaded configuration lacks the account");
    world.ok(&["org", "newcomers"]);
    let again = world.json(&["org", "show", "-j"]);
    assert_eq!(again["newcomers_account"], account);
    assert_eq!(world.states(), [pair("rip", "valid"), pair("b", "valid")]);
    for key in ["newcomers", "role-newcomer", "role-enroller"] {
        assert_eq!(mode(&world.org().join(format!("keys/{key}.nk"))), 0o600);
    }
}

/// An incomplete creation of the account has no effect and is completed by the next command.
#[test]
fn interrupted_creation_continues_with_the_same_keys() {
    let world = World::new(&["--port", "1"]);
    let key = world.org().join("keys/newcomers.nk");
    let before = fs::read(&key).unwrap();
    let profile = world.org().join("organisation.toml");
    let text = fs::read_to_string(&profile).unwrap();
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.starts_with("newcomers_account")).collect();
    fs::write(&profile, lines.join("\n")).unwrap();
    world.ok(&["org", "newcomers"]);
    assert_eq!(fs::read(&key).unwrap(), before);
    assert!(fs::read_to_string(&profile).unwrap().contains("newcomers_account"));
}

/// Asserts that the broker refuses what the future sends.
pub(crate) async fn assert_refused(bus: &Bus, what: impl Future<Output = ()>) {
    let mut events = bus.subscribe_events();
    what.await;
    bus.flush().await.unwrap();
    let said = async {
        loop {
            if let BusEvent::Refused(why) = events.recv().await.unwrap() {
                return why;
            }
        }
    };
    let why = tokio::time::timeout(std::time::Duration::from_secs(20), said).await.unwrap();
    assert!(why.to_lowercase().contains("permissions violation"), "{why}");
}

/// The public key of a bootstrap token that was made for `name`.
fn newcomer_key(world: &World, name: &str) -> String {
    let path = world.org().join(format!("creds/newcomers/{name}.creds"));
    let creds = UserCredentials::parse(&fs::read_to_string(path).unwrap()).unwrap();
    creds.key_pair().public_key().to_string()
}

#[tokio::test]
async fn bootstrap_token_permits_enrolment_requests_only() {
    let program = nats_server();
    let world = World::new(&["--no-tls", "--port", "1"]);
    world.ok(&["org", "add", "service", "provisioner", "--serve", "provision"]);
    world.ok(&["org", "add", "node", "web1.acme.net"]);
    world.ok(&["org", "add", "enroller", "provisioner"]);
    for name in ["one", "two"] {
        let args = ["provision", "token", "--names", "web-*.acme.net", "--name", name];
        world.ok(&args);
    }
    let broker = Broker::start(&program, &world, false).await;
    let connect = |creds: &'static str| broker.connect(&world, creds);
    let newcomer = connect("creds/newcomers/one.creds").await.unwrap();
    let enroller = connect("creds/enrollers/provisioner.creds").await.unwrap();
    let (own, other) = (newcomer_key(&world, "one"), newcomer_key(&world, "two"));

    // The only permitted request, and its reply.
    let mut requests = enroller.subscribe_all(&["newcomers.enrol".to_owned()]).await.unwrap();
    let asked = format!("_R.{own}.x.ALL");
    let answering = async {
        let request = requests[0].next().await.unwrap();
        assert_eq!(request.reply_to(), Some(&*asked));
        let to = format!("_R.{own}.x.provisioner");
        enroller.publish(&to, Bytes::from_static(b"no")).await.unwrap();
    };
    let asking = async {
        let mut answers = newcomer.subscribe(&format!("_R.{own}.>")).await.unwrap();
        let hello = Bytes::from_static(b"hello");
        let sent = newcomer.publish_with_reply("newcomers.enrol", &asked, hello).await;
        sent.unwrap();
        answers.next().await.unwrap()
    };
    let (answer, ()) = tokio::join!(asking, answering);
    assert_eq!(answer.payload(), b"no".as_slice());

    // All other subjects are refused.
    for subject in [
        "muster.rpcutil.ping.all",
        "muster.trust.account",
        "newcomers.trust",
        "newcomers.other",
        "$JS.API.INFO",
        "$SYS.REQ.SERVER.PING",
        &format!("_INBOX.{other}.x"),
        &format!("_INBOX.{own}.x"),
    ] {
        let publish = async {
            newcomer.publish(subject, Bytes::from_static(b"x")).await.unwrap();
        };
        assert_refused(&newcomer, publish).await;
    }
    for subject in [
        ">",
        "newcomers.enrol",
        "newcomers.>",
        "muster.>",
        "_INBOX.>",
        &format!("_INBOX.{other}.>"),
        "$SYS.>",
    ] {
        let subscribe = async { drop(newcomer.subscribe(subject).await.unwrap()) };
        assert_refused(&newcomer, subscribe).await;
    }
    // An enroller may publish replies to requests only.
    for subject in ["muster.rpcutil.ping.all", &format!("_INBOX.{own}.x")] {
        let publish = async {
            enroller.publish(subject, Bytes::from_static(b"x")).await.unwrap();
        };
        assert_refused(&enroller, publish).await;
    }

    // A revocation disconnects the client and refuses its next connection.
    let lost = newcomer.wait_disconnected();
    world.ok(&["org", "revoke", "one", "--yes"]);
    lost.await;
    let again = connect("creds/newcomers/one.creds").await.unwrap_err().to_string();
    assert!(again.to_lowercase().contains("authorization"), "{again}");
    drop(connect("creds/newcomers/two.creds").await.unwrap());
    assert!(world.states().contains(&pair("one", "revoked")));
}

#[tokio::test]
async fn running_broker_receives_the_account_and_revocations_of_provisioned_keys() {
    let program = nats_server();
    let world = World::new(&["--no-tls", "--port", "1"]);
    as_before(&world);
    world.ok(&["org", "add", "node", "web1.acme.net"]);
    let broker = Broker::start(&program, &world, false).await;
    world.ok(&["provision", "token", "--names", "*", "--name", "one"]);
    drop(broker.connect(&world, "creds/newcomers/one.creds").await.unwrap());

    // A node that the organisation's ledger does not contain.
    let node = broker.connect(&world, "creds/nodes/web1.acme.net.creds").await.unwrap();
    let path = world.org().join("creds/nodes/web1.acme.net.creds");
    let creds = UserCredentials::parse(&fs::read_to_string(path).unwrap()).unwrap();
    let key = creds.key_pair().public_key().to_string();
    fs::remove_file(world.org().join("issued.jsonl")).unwrap();
    let lost = node.wait_disconnected();
    let revoked = world.rpc(&["org", "revoke", &key, "--yes"]);
    assert_eq!(revoked.status.code(), Some(0), "{}", talk(&revoked));
    assert!(talk(&revoked).contains("was issued neither here"), "{}", talk(&revoked));
    lost.await;
}

#[test]
fn provisioner_host_files_are_complete_and_secrets_are_private() {
    let world = World::new(&["--port", "1"]);
    let directory = world.scratch.path().join("provisioner");
    let out = directory.to_str().unwrap();
    let made = world.rpc(&["provision", "host", "provisioner", "--out", out]);
    assert_eq!(made.status.code(), Some(0), "{}", talk(&made));
    assert!(talk(&made).contains("can add nodes"), "{}", talk(&made));
    for (file, expected) in [
        ("service.creds", 0o600),
        ("newcomers.creds", 0o600),
        ("node-signing.nk", 0o600),
        ("newcomers.jwt", 0o644),
        ("account.jwt", 0o644),
        ("ca.pem", 0o644),
        ("provisioner.toml", 0o644),
    ] {
        assert_eq!(mode(&directory.join(file)), expected, "{file}");
    }
    let read = |file: &str| fs::read_to_string(directory.join(file)).unwrap();
    let key = KeyPair::from_seed(read("node-signing.nk").trim()).unwrap();
    let operator = world.json(&["org", "show", "-j"])["operator"].as_str().unwrap().to_owned();
    let operator = PublicKey::parse(&operator).unwrap();
    let fleet = AccountTrust::new(operator, read("account.jwt").trim()).unwrap();
    assert_eq!(fleet.role_of_key(&key.public_key()), Some(UserRole::Node));
    let newcomers = AccountTrust::new(operator, read("newcomers.jwt").trim()).unwrap();
    let now = 1_000 * std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    for (file, trust) in [("service.creds", &fleet), ("newcomers.creds", &newcomers)] {
        let creds = UserCredentials::parse(&read(file)).unwrap();
        assert_eq!(trust.verify_user(creds.jwt(), now).unwrap().role, UserRole::Service);
    }
    let config: toml::Table = toml::from_str(&read("provisioner.toml")).unwrap();
    let section = &config["plugins"]["provisioner"]["newcomers"];
    assert_eq!(section["node_key"].as_str(), Some("/etc/muster/provisioner/node-signing.nk"));
    let again = world.rpc(&["provision", "host", "provisioner", "--out", out]);
    assert_eq!(again.status.code(), Some(1), "{}", talk(&again));
    world.ok(&["provision", "host", "provisioner", "--out", out, "--renew"]);
}

fn user_data(world: &World, more: &[&str]) -> (String, serde_json::Value) {
    let args = ["provision", "token", "--names", "web-*.acme.net", "--name", "web"];
    if !world.org().join("creds/newcomers/web.creds").exists() {
        world.ok(&args);
    }
    let token = world.org().join("creds/newcomers/web.creds");
    let args = ["provision", "user-data", "--token", token.to_str().unwrap()];
    let text = world.ok(&[&args, more].concat());
    let document = serde_saphyr::from_str(&text).unwrap();
    (text, document)
}

#[test]
fn user_data_writes_the_files_that_the_daemon_reads() {
    let world = World::new(&["--port", "1"]);
    let settings = ["--set", "log.level=debug", "--set", "facts.refresh_seconds=60"];
    let (_, document) = user_data(&world, &settings);
    let root = tempfile::tempdir().unwrap();
    for file in document["write_files"].as_array().unwrap() {
        let path = root.path().join(file["path"].as_str().unwrap().trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let content = file["content"].as_str().unwrap();
        fs::write(&path, content).unwrap();
        let secret = content.contains("USER NKEY SEED");
        let expected = if secret { "0600" } else { "0644" };
        assert_eq!(file["permissions"], expected, "{}", path.display());
    }
    let etc = root.path().join("etc/muster");
    let read = |file: &str| fs::read_to_string(etc.join(file)).unwrap();
    UserCredentials::parse(&read("bootstrap.creds")).unwrap();
    let config: toml::Table = toml::from_str(&read("rpcd.toml")).unwrap();
    assert_eq!(config["provisioning"]["credentials"].as_str(), Some("bootstrap.creds"));
    assert_eq!(config["log"]["level"].as_str(), Some("debug"));
    assert_eq!(config["facts"]["refresh_seconds"].as_integer(), Some(60));
    assert_eq!(config["facts"]["cloud"].as_str(), Some("auto"));
    let operator = PublicKey::parse(config["trust"]["operator"].as_str().unwrap()).unwrap();
    AccountTrust::new(operator, read("newcomers.jwt").trim()).unwrap();
    assert!(read("ca.pem").contains("BEGIN CERTIFICATE"));
    assert!(read("policies/provision.policy").contains("allow\tservice=provisioner\t*"));
}

/// Runs the first-boot script with stubs for the programs that it calls.
#[test]
fn package_with_a_wrong_checksum_is_not_installed_and_rpcd_is_not_started() {
    let world = World::new(&["--port", "1"]);
    let package = b"a package";
    let sum = "1ebd4f87a2ef8eb7bba0a3f3f0bb7d1ee1a1ba8a6b84b09ec1b7ae8f3b6bd63a";
    let machine = tempfile::tempdir().unwrap();
    let bin = machine.path().join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(machine.path().join("package"), package).unwrap();
    let record = "echo \"$(basename \"$0\") $*\" >> \"$MACHINE/ran\"\n";
    let stand_in = |name: &str, body: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        let path = bin.join(name);
        fs::write(&path, format!("#!/bin/sh\n{record}{body}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    stand_in("curl", "while [ \"$1\" != -o ]; do shift; done\ncp \"$MACHINE/package\" \"$2\"\n");
    stand_in("apt-get", "test -s \"$3\"\n");
    stand_in("systemctl", "");
    let boot = |sum: &str| {
        let url = "https://pkg.acme.net/rpcd_0.1.0_amd64.deb";
        let (_, document) = user_data(&world, &["--package-url", url, "--sha256", sum]);
        let command = document["runcmd"][0].as_array().unwrap().clone();
        let words: Vec<&str> = command.iter().map(|word| word.as_str().unwrap()).collect();
        let _ = fs::remove_file(machine.path().join("ran"));
        let path = format!("{}:/usr/bin:/bin", bin.display());
        let status = std::process::Command::new(words[0])
            .args(&words[1..])
            .env("PATH", path)
            .env("MACHINE", machine.path())
            .output()
            .unwrap();
        let ran = fs::read_to_string(machine.path().join("ran")).unwrap();
        (status.status.success(), ran)
    };
    let (passed, ran) = boot(sum);
    assert!(!passed && !ran.contains("apt-get") && !ran.contains("systemctl"), "{ran}");
    let output = std::process::Command::new("sha256sum")
        .arg(machine.path().join("package"))
        .output()
        .unwrap();
    let right = String::from_utf8(output.stdout).unwrap();
    let (passed, ran) = boot(right.split(' ').next().unwrap());
    assert!(passed, "{ran}");
    assert!(ran.contains("apt-get install -y"), "{ran}");
    assert!(ran.ends_with("systemctl restart --no-block rpcd\n"), "{ran}");
}

#[test]
fn user_data_refuses_unusable_arguments() {
    let world = World::new(&["--port", "1"]);
    user_data(&world, &[]);
    let token = world.org().join("creds/newcomers/web.creds");
    let token = token.to_str().unwrap();
    world.ok(&["org", "add", "user", "rip"]);
    let user = world.org().join("creds/users/rip.creds");
    let refused = world.rpc(&["provision", "user-data", "--token", user.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1), "{}", talk(&refused));
    for more in [
        &["--package-url", "https://x/y.deb"][..],
        &["--sha256", "00"],
        &["--apt", "-y"],
        &["--set", "nothing"],
    ] {
        let args = ["provision", "user-data", "--token", token];
        let refused = world.rpc(&[&args, more].concat());
        assert_eq!(refused.status.code(), Some(4), "{more:?}: {}", talk(&refused));
    }
    world.rpc(&["org", "revoke", "web", "--yes"]);
    let refused = world.rpc(&["provision", "user-data", "--token", token]);
    assert!(talk(&refused).contains("revoked"), "{}", talk(&refused));
}
