//! Tests of the agent through its handlers, on this machine with scratch files and a scripted Puppet.

use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_api::system::real::RealSystem;
use muster_api::testing::TestNode;
use muster_api::wire::identity::Identity;
use muster_api::wire::status::{ReplyReason, ReplyStatus};
use muster_api::{ActionError, Agent};
use muster_puppet::permits::PermitClient as Permits;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Map, Value, json};

use crate::{DISABLED_FILE, Options, PROVISIONING_FILE, ProvisionShared, build_agent};

/// An agent on this machine whose options point to a scratch directory.
struct Machine {
    directory: tempfile::TempDir,
    agent: Agent,
}

/// A scripted Puppet: prints its settings like Puppet; for other arguments, runs the file `does`.
const PUPPET: &str = r#"#!/bin/sh
dir=@DIR@
echo "$@" >> $dir/calls
if [ "$1" = config ]; then
  echo "certname = web1.acme.net"
  for name in hostcert hostprivkey hostpubkey hostcsr localcacert hostcrl lastrunfile agent_disabled_lockfile agent_catalog_run_lockfile; do
    echo "$name = $dir/$name"
  done
  exit 0
fi
. $dir/does
"#;

impl Machine {
    fn new(does: &str) -> Self {
        Self::with(does, |_| {})
    }

    fn with(does: &str, change: impl FnOnce(&mut Options)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let script = PUPPET.replace("@DIR@", &directory.path().display().to_string());
        std::fs::write(path("puppet"), script).unwrap();
        std::fs::set_permissions(path("puppet"), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(path("does"), format!("{does}\n")).unwrap();
        let mut options = Options {
            command: vec![path("puppet").display().to_string()],
            hosts: path("hosts"),
            ..Options::default()
        };
        change(&mut options);
        let node = Identity::parse("web1.acme.net").unwrap();
        let shared = ProvisionShared::without_daemon(Permits::new(node));
        let agent = build_agent(options, path("state"), shared).unwrap();
        Self { directory, agent }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::fs::write(self.path(name), text).unwrap();
    }

    fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("calls")).unwrap_or_default();
        text.lines().filter(|line| !line.starts_with("config ")).map(str::to_owned).collect()
    }

    async fn ask(&self, action: &str, input: Value) -> Result<Map<String, Value>, ActionError> {
        let declared = self.agent.ddl().find_action(action).unwrap();
        let input = declared.validate_input(input.as_object().unwrap()).unwrap();
        let node = TestNode::named("web1.acme.net").unwrap();
        let system = Arc::new(RealSystem::new("/".into()));
        let cx = node.context("provision", action, system).unwrap();
        let output = self.agent.find_handler(action).unwrap().call(&cx, input).await?;
        Ok(declared.validate_output(&output).unwrap())
    }
}

/// A script that writes a run summary like Puppet with these counts, and exits with this code.
fn run(changed: u64, failed: u64, code: i32) -> String {
    format!(
        "printf 'version:\\n  config: 7\\napplication:\\n  converged_environment: production\\nresources:\\n  changed: {changed}\\n  failed: {failed}\\n  total: 9\\nevents:\\n  failure: {failed}\\n' > $dir/new\n\
         mv $dir/new $dir/lastrunfile; echo 'Notice: Applied catalog'; exit {code}"
    )
}

#[tokio::test]
async fn run_reports_class_exit_code_and_resource_counts() {
    for (changed, failed, code, class) in
        [(0, 0, 0, "clean"), (3, 0, 2, "changed"), (0, 2, 4, "failed"), (1, 1, 6, "failed+changed")]
    {
        let machine = Machine::new(&run(changed, failed, code));
        let answer = machine.ask("run_puppet", json!({})).await;
        let data = match answer {
            Ok(data) if failed == 0 => data,
            Err(error) if failed > 0 => {
                assert_eq!(error.status, ReplyStatus::Failed, "{class}");
                error.data
            }
            other => panic!("{class}: {other:?}"),
        };
        assert_eq!(data["class"], json!(class));
        assert_eq!(data["exitcode"], json!(code));
        assert_eq!(data["config_version"], json!("7"));
        assert_eq!(data["environment"], json!("production"));
        assert_eq!(data["resources"]["changed"], json!(changed));
        assert_eq!(data["output"], json!("Notice: Applied catalog\n"));
    }
}

#[tokio::test]
async fn exit_code_1_is_a_failure_with_its_cause() {
    let machine =
        Machine::new("echo 'Error: Could not retrieve catalog from remote server'; exit 1");
    let error = machine.ask("run_puppet", json!({})).await.unwrap_err();
    assert_eq!(error.data["class"], json!("not_applied"));
    assert!(error.message.contains("Could not retrieve catalog"), "{error}");

    machine.write("agent_disabled_lockfile", r#"{"disabled_message":"hand hacking"}"#);
    let error = machine.ask("run_puppet", json!({})).await.unwrap_err();
    assert_eq!(error.data["class"], json!("disabled"));
    assert!(error.message.contains("hand hacking"), "{error}");

    // A summary from before the run does not count as the result of this run.
    let machine = Machine::new("exit 0");
    machine.write("lastrunfile", "version:\n  config: 7\nresources:\n  total: 9\n");
    let error = machine.ask("run_puppet", json!({})).await.unwrap_err();
    assert_eq!(error.data["class"], json!("stopped"), "{error}");
}

#[tokio::test]
async fn puppet_gets_separate_arguments() {
    let machine = Machine::with(&run(0, 0, 0), |options| {
        options.arguments = ["--confdir", "/a dir"].map(str::to_owned).to_vec();
    });
    let input = json!({"server": "puppet.acme.net", "port": 8141});
    machine.ask("bootstrap_puppet", input).await.unwrap();
    let flags = "agent --onetime --no-daemonize --no-usecacheonfailure --no-splay --verbose --detailed-exitcodes --color=false --waitforcert=0";
    assert_eq!(
        machine.calls(),
        [format!(
            "{flags} --server puppet.acme.net --serverport 8141 --ca_port 8141 --environment bootstrap --confdir /a dir"
        )]
    );
    // Values that Puppet could read as options are refused.
    let declared = machine.agent.ddl().find_action("run_puppet").unwrap();
    for (name, value) in [
        ("server", json!("--noop")),
        ("server", json!("a b")),
        ("server", json!("x;reboot")),
        ("environment", json!("--x")),
        ("environment", json!("../x")),
    ] {
        let input = Map::from_iter([(name.to_owned(), value)]);
        assert!(declared.validate_input(&input).is_err(), "{input:?}");
    }
    let error = machine.ask("run_puppet", json!({"port": 70000})).await;
    assert_eq!(error.unwrap_err().status, ReplyStatus::InvalidData);
}

#[tokio::test]
async fn second_run_is_refused_while_one_is_in_progress() {
    let machine = Machine::new("while [ ! -e $dir/go ]; do sleep 0.01; done; touch $dir/ran");
    let first = machine.ask("run_puppet", json!({}));
    let second = async {
        while machine.calls().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let second = machine.ask("run_puppet", json!({})).await;
        machine.write("go", "");
        second
    };
    let (_, second) = tokio::join!(first, second);
    assert_eq!(second.unwrap_err().data["class"], json!("locked"));
    assert_eq!(machine.calls().len(), 1);
}

#[tokio::test]
async fn run_is_stopped_at_its_timeout() {
    let machine = Machine::with("exec sleep 1000", |options| options.run_timeout = 1);
    let error = machine.ask("run_puppet", json!({})).await.unwrap_err();
    assert_eq!(error.data["class"], json!("timeout"));
    assert!(matches!(error.reason, Some(ReplyReason::Timeout { .. })));
}

#[tokio::test]
async fn run_without_a_permit_is_refused() {
    let machine = Machine::with(&run(0, 0, 0), |options| options.limit = NonZeroU32::new(1));
    let error = machine.ask("run_puppet", json!({})).await.unwrap_err();
    assert_eq!(error.data["class"], json!("no_permit"), "{error:?}");
    assert_eq!(machine.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn lock_fences_every_step() {
    let machine = Machine::new(&run(0, 0, 0));
    let take = json!({"owner": "one", "lease": 60});
    let lock = machine.ask("lock", take.clone()).await.unwrap();
    assert_eq!(lock["fence"], json!(1));
    let other = machine.ask("lock", json!({"owner": "two"})).await.unwrap_err();
    assert_eq!(other.data["owner"], json!("one"));
    assert!(matches!(other.reason, Some(ReplyReason::Busy { .. })));
    for (action, input) in [
        ("run_puppet", json!({})),
        ("bootstrap_puppet", json!({})),
        ("request_certificate", json!({})),
        ("daemonize_puppet", json!({})),
        ("set_puppet_host", json!({"ipaddress": "192.0.2.1"})),
        ("disable", json!({})),
        ("release", json!({})),
        ("unlock", json!({})),
    ] {
        // Without a fence number, and with an outdated one.
        let error = machine.ask(action, input.clone()).await.unwrap_err();
        assert!(matches!(error.reason, Some(ReplyReason::Busy { .. })), "{action}: {error:?}");
        let mut old = input;
        old["fence"] = json!(0);
        let error = machine.ask(action, old).await.unwrap_err();
        assert!(matches!(error.reason, Some(ReplyReason::Denied { .. })), "{action}: {error:?}");
    }
    assert_eq!(machine.calls(), Vec::<String>::new());
    machine.ask("run_puppet", json!({"fence": 1})).await.unwrap();
    let unlocked = machine.ask("unlock", json!({"fence": 1})).await.unwrap();
    assert_eq!(unlocked["unlocked"], json!(true));
    let unlocked = machine.ask("unlock", json!({"fence": 1})).await.unwrap();
    assert_eq!(unlocked["unlocked"], json!(false));
    assert_eq!(machine.ask("is_locked", json!({})).await.unwrap()["locked"], json!(false));
}

#[tokio::test]
async fn released_node_refuses_every_step_until_reprovisioned() {
    let machine = Machine::new(&run(0, 0, 0));
    machine.write("state/provisioning", "");
    assert!(Options::default().is_enabled(&machine.path("state")));
    let marks = machine.ask("is_disabled", json!({})).await.unwrap();
    assert_eq!(Value::Object(marks), json!({"disabled": false, "provisioning": true}));
    machine.ask("lock", json!({"owner": "one"})).await.unwrap();
    for changed in [true, false] {
        let done = machine.ask("release", json!({"fence": 1})).await.unwrap();
        assert_eq!(done["changed"], json!(changed));
    }
    assert!(!machine.path("state").join(PROVISIONING_FILE).exists());
    assert!(machine.path("state").join(DISABLED_FILE).exists());
    for (action, input) in [
        ("run_puppet", json!({"fence": 1})),
        ("request_certificate", json!({})),
        ("set_puppet_host", json!({"ipaddress": "192.0.2.1"})),
        ("lock", json!({"owner": "two"})),
    ] {
        let error = machine.ask(action, input).await.unwrap_err();
        let expected = Some(ReplyReason::Denied { rule: DISABLED_FILE.to_owned() });
        assert_eq!(error.reason, expected, "{action}");
    }
    assert_eq!(machine.calls(), Vec::<String>::new());
    machine.write("hostprivkey", "secret");
    let planned = machine.ask("reprovision", json!({"wipe": true, "noop": true})).await.unwrap();
    assert_eq!(planned["changed"], json!(true));
    assert!(machine.path("hostprivkey").exists());
    assert!(machine.path("state").join(DISABLED_FILE).exists());
    let begun = machine.ask("reprovision", json!({})).await.unwrap();
    assert_eq!(Value::Object(begun), json!({"changed": true, "wiped": []}));
    assert!(machine.path("hostprivkey").exists());
    let wiped = machine.ask("reprovision", json!({"wipe": true})).await.unwrap();
    let key = machine.path("hostprivkey").display().to_string();
    assert_eq!(wiped["wiped"], json!([key]));
    assert!(!machine.path("hostprivkey").exists());
    assert_eq!(machine.ask("lock", json!({"owner": "two"})).await.unwrap()["fence"], json!(2));
}

#[tokio::test]
async fn a9_8_hosts_file_keeps_its_other_lines_and_mode() {
    let machine = Machine::new("");
    machine.write("hosts", "127.0.0.1 localhost\n");
    std::fs::set_permissions(machine.path("hosts"), PermissionsExt::from_mode(0o640)).unwrap();
    let input = json!({"ipaddress": "192.0.2.10", "ipaddress6": "2001:db8::a"});
    let mut noop = input.clone();
    noop["noop"] = json!(true);
    assert_eq!(machine.ask("set_puppet_host", noop).await.unwrap()["changed"], json!(true));
    let text = std::fs::read_to_string(machine.path("hosts")).unwrap();
    assert_eq!(text, "127.0.0.1 localhost\n");
    for changed in [true, false] {
        let answer = machine.ask("set_puppet_host", input.clone()).await.unwrap();
        assert_eq!(answer["changed"], json!(changed));
        assert_eq!(answer["lines"].as_array().unwrap().len(), 2);
    }
    let text = std::fs::read_to_string(machine.path("hosts")).unwrap();
    assert_eq!(
        text,
        "127.0.0.1 localhost\n192.0.2.10\tpuppet\t# managed by rpc provision\n2001:db8::a\tpuppet\t# managed by rpc provision\n"
    );
    let mode = std::fs::metadata(machine.path("hosts")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[tokio::test]
async fn daemonize_runs_the_configured_command() {
    let machine = Machine::with("", |options| {
        options.daemon_command = ["/bin/echo", "started"].map(str::to_owned).to_vec();
    });
    let answer = machine.ask("daemonize_puppet", json!({})).await.unwrap();
    assert_eq!(Value::Object(answer), json!({"changed": true, "output": "started\n"}));
    let machine = Machine::with("", |options| {
        options.daemon_command = ["/bin/false"].map(str::to_owned).to_vec();
    });
    let planned = machine.ask("daemonize_puppet", json!({"noop": true})).await.unwrap();
    let would_run = json!({"changed": true, "output": "would run `/bin/false`"});
    assert_eq!(Value::Object(planned), would_run);
    let error = machine.ask("daemonize_puppet", json!({})).await.unwrap_err();
    assert!(error.message.contains("`/bin/false` exited with code 1"), "{error}");
}

/// A certificate request for this name, and its key.
fn request(name: &str) -> (String, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    (params.serialize_request(&key).unwrap().pem().unwrap(), key)
}

#[tokio::test]
async fn certificate_request_is_returned_with_fingerprint_and_public_key() {
    let (csr, key) = request("web1.acme.net");
    let submitted = "cp $dir/csr $dir/hostcsr; echo Submitted";
    let machine = Machine::new(submitted);
    machine.write("csr", &csr);
    let answer = machine.ask("request_certificate", json!({})).await.unwrap();
    let read = crate::certificate::CertificateRequest::parse(&csr).unwrap();
    assert_eq!(answer["state"], json!("submitted"));
    assert_eq!(answer["fingerprint"], json!(read.fingerprint));
    assert_eq!(answer["public_key"], json!(read.public_key));
    assert_eq!(answer["csr"], json!(csr));
    assert_eq!(machine.calls(), ["ssl submit_request --color=false"]);

    // The CA already has the request: the file on the disk is the request that was sent.
    let conflict = "echo 'Error: Could not submit certificate request for web1 to https://x due to a conflict on the server'; exit 1";
    machine.write("does", conflict);
    machine.write("hostprivkey", &key.serialize_pem());
    for fresh in [false, true] {
        let again = machine.ask("request_certificate", json!({ "fresh": fresh })).await.unwrap();
        assert_eq!(again["state"], json!("pending"));
        assert_eq!(again["fingerprint"], answer["fingerprint"]);
    }

    // The CA has a request with another key than the key on this machine.
    machine.write("hostprivkey", &request("web1.acme.net").1.serialize_pem());
    let error = machine.ask("request_certificate", json!({})).await.unwrap_err();
    assert!(error.message.contains("clean the name"), "{error}");

    // A request for another name is refused.
    let (other, _) = request("web2.acme.net");
    machine.write("csr", &other);
    machine.write("does", submitted);
    let error = machine.ask("request_certificate", json!({})).await.unwrap_err();
    assert!(error.message.contains("web2.acme.net"), "{error}");
    machine.write("does", "echo 'Error: Failed to open TCP connection to puppet:8140'; exit 1");
    let error = machine.ask("request_certificate", json!({})).await.unwrap_err();
    assert!(error.message.contains("Failed to open TCP connection"), "{error}");
}

#[tokio::test]
async fn certificate_is_valid_only_with_matching_name_key_and_ca() {
    let machine = Machine::new("");
    let authority_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(params, authority_key);
    let sign = |name: &str, key: &KeyPair| {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.signed_by(key, &issuer).unwrap().pem()
    };
    let key = KeyPair::generate().unwrap();
    let problem = async |expected: &str| {
        let found = machine.ask("has_cert", json!({})).await.unwrap();
        assert_eq!(found["has_cert"], json!(expected.is_empty()), "{found:?}");
        let problem = found["problem"].as_str().unwrap();
        assert!(
            problem.contains(expected) && problem.is_empty() == expected.is_empty(),
            "{problem}"
        );
        found
    };
    problem("there is no certificate in").await;
    machine.write("hostcert", "garbage");
    problem("cannot parse the certificate").await;
    machine.write("hostcert", &sign("web2.acme.net", &key));
    problem("web2.acme.net").await;
    machine.write("hostcert", &sign("web1.acme.net", &key));
    problem("there is no private key").await;
    machine.write("hostprivkey", &KeyPair::generate().unwrap().serialize_pem());
    problem("there is no CA certificate").await;
    machine.write("localcacert", &authority);
    problem("does not match the private key").await;
    machine.write("hostprivkey", &key.serialize_pem());
    let found = problem("").await;
    assert!(!found["serial"].as_str().unwrap().is_empty());
    assert!(found["not_after"].as_i64().unwrap() > 0);
    // The CA was replaced.
    let other = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    machine.write("localcacert", &params.self_signed(&other).unwrap().pem());
    problem("verification against the CA certificate").await;
}

#[test]
fn agent_is_enabled_by_a_marker_or_by_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let (state, options) = (directory.path(), Options::default());
    assert!(!options.is_enabled(state));
    let wanted = Options { enabled: Some(true), ..Options::default() };
    assert!(wanted.is_enabled(Path::new("/nowhere")));
    std::fs::write(state.join(DISABLED_FILE), "").unwrap();
    assert!(options.is_enabled(state));
    let unwanted = Options { enabled: Some(false), ..Options::default() };
    assert!(!unwanted.is_enabled(state));
}
