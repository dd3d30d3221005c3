//! SSH user certificates through a real daemon, its socket and OpenSSH's `ssh-keygen`; without sshd, which `machines/ssh_certificates.rs` has.

#![expect(clippy::disallowed_types, reason = "runs ssh-keygen and rpcd")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use muster_sshcert::{
    CertificateKeyId, CertificateSpec, GrantedFeatures, SshUserKey, authority_line,
    issue_certificate,
};
use muster_tests::command::{RpcCommand, describe_output, find_program};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::sign::Signer;
use muster_wire::token::{KeyKind, KeyPair, ServiceRight};
use serde_json::Value;
use uuid::Uuid;

/// How long a test waits for something that takes a moment.
const PATIENCE: Duration = Duration::from_mins(2);

const SSH_POLICY: &str = "policy default deny\nallow\trip\tlogin\t*\t*\tinput:user=deploy,www\n";
const CA_POLICY: &str =
    "policy default deny\nallow\trip\tsign\t*\t*\nallow\tservice=backup\tsign\t*\t*\n";

/// A broker, and a node that signs certificates and decides logins.
pub(crate) struct CertificateFleet {
    pub(crate) organisation: Organisation,
    pub(crate) server: NatsServer,
    pub(crate) daemon: Rpcd,
    authority: KeyPair,
    pub(crate) rip: Signer,
    pub(crate) rpc: RpcCommand,
}

impl CertificateFleet {
    pub(crate) async fn start() -> Self {
        let mut organisation = Organisation::new(&["muster"]);
        let authority = organisation.add_ssh_authority();
        let server = organisation.start_broker().await;
        let section = "[plugins.ssh]\nlogins = true\nsocket = \"@HOME@/logins.sock\"\n\
            [plugins.ssh_ca]\nkey = \"@HOME@/ssh-ca.nk\"\nlifetime_seconds = 3600\n";
        let home = DaemonHome::new(&organisation, &organisation.node("n1"), &server.url(), "");
        let section = section.replace("@HOME@", home.path("").to_str().unwrap());
        home.write("conf.d/ssh.toml", &section, 0o644);
        home.write("ssh-ca.nk", &authority.seed_text(), 0o600);
        home.write("policies/ssh.policy", SSH_POLICY, 0o644);
        home.write("policies/ssh_ca.policy", CA_POLICY, 0o644);
        let daemon = home.start();
        let rip = organisation.caller("rip");
        let rpc = RpcCommand::new(&server, &organisation, &rip, "");
        let fleet = Self { organisation, server, daemon, authority, rip, rpc };
        poll_until_ok("the node is ready", PATIENCE, async || {
            let found = fleet.rpc.run(&["find", "-A", "ssh_ca"]).await;
            let names = String::from_utf8_lossy(&found.stdout).into_owned();
            if names.trim() == "n1" { Ok(()) } else { Err(names + &fleet.daemon.log()) }
        })
        .await;
        fleet
    }

    fn path(&self, name: &str) -> PathBuf {
        self.daemon.home().path(name)
    }

    /// Asks for a certificate as `rpc ssh` does; returns the files of the key and the certificate.
    async fn certificate(&self) -> (PathBuf, PathBuf) {
        let words = ["ssh", "-I", "n1", "--certificate", "--own-host-keys", "--print"];
        let output = self.rpc.run(&words).await;
        assert!(output.status.success(), "{}", describe_output(&output));
        let line = String::from_utf8_lossy(&output.stdout).into_owned();
        let option = |name: &str| {
            let mut words = line.split_whitespace();
            PathBuf::from(words.find_map(|word| word.strip_prefix(name)).unwrap())
        };
        assert!(line.contains("IdentitiesOnly=yes"), "{line}");
        (option("IdentityFile="), option("CertificateFile="))
    }

    /// What sshd calls.
    fn principals(&self, user: &str, certificate: &str, more: &[&str]) -> Output {
        let mut command = Command::new(find_program("rpcd"));
        command.arg("ssh-principals").args(more).arg("--socket").arg(self.path("logins.sock"));
        command.args(["--", user, certificate]).output().unwrap()
    }

    fn assert_refused(&self, user: &str, certificate: &str, reason: &str) {
        let output = self.principals(user, certificate, &[]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && output.stdout.is_empty(), "{user:?}: {errors}");
        assert!(errors.contains(reason), "{user:?}: {errors}");
    }

    /// The records of logins in a file of the audit log, when it has this number of them. The daemon writes refusals a moment after its answer.
    async fn logins(&self, file: &str, count: usize) -> Vec<Value> {
        poll_until_ok("the logins are recorded", PATIENCE, async || {
            let text = std::fs::read_to_string(self.path(file)).unwrap_or_default();
            let records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let is_login = |record: &Value| record["agent"] == "ssh" && record["action"] == "login";
            let found: Vec<Value> = records.filter(is_login).collect();
            if found.len() == count { Ok(found) } else { Err(text) }
        })
        .await
    }

    /// A certificate of this authority for the key of rip, valid for this time around now.
    fn forge(&self, authority: &KeyPair, caller: &str, (from, until): (i64, i64)) -> String {
        let now = muster_tests::now() / 1000;
        let key_id = CertificateKeyId {
            caller: caller.parse().unwrap(),
            key: self.rip.public_key(),
            token_issued_at: now - 60,
            request: Uuid::now_v7(),
        };
        let spec = CertificateSpec {
            subject: SshUserKey::generate("x").unwrap().subject(),
            key_id,
            issued_at: now.saturating_add_signed(from),
            expires: now.saturating_add_signed(until),
            features: GrantedFeatures::default(),
        };
        blob(&issue_certificate(authority, spec).unwrap().text)
    }
}

/// The base64 of a certificate's line, which sshd passes as `%k`.
fn blob(line: &str) -> String {
    line.split_whitespace().nth(1).unwrap().to_owned()
}

fn read_blob(certificate: &Path) -> String {
    blob(&std::fs::read_to_string(certificate).unwrap())
}

pub(crate) fn keygen(arguments: &[&str], file: &Path) -> String {
    let output = Command::new("ssh-keygen").args(arguments).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", describe_output(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_is_signed_kept_and_permits_only_the_users_of_the_policy() {
    let mut fleet = CertificateFleet::start().await;
    let trusted = poll_until_ok("the authorities are written", PATIENCE, async || {
        std::fs::read_to_string(fleet.path("state/ssh/user-ca.pub"))
    })
    .await;
    let line = authority_line(&fleet.authority.public_key()).unwrap();
    assert_eq!(trusted.lines().filter(|text| !text.starts_with('#')).collect::<Vec<_>>(), [&line]);
    assert_eq!(mode(&fleet.path("state/ssh/user-ca.pub")), 0o644);
    assert_eq!(mode(&fleet.path("logins.sock")), 0o600);

    let (key, certificate) = fleet.certificate().await;
    assert_eq!((mode(&key), mode(&certificate)), (0o600, 0o600));
    let shown = keygen(&["-L", "-f"], &certificate);
    let user_key = fleet.rip.public_key();
    assert!(shown.contains(&format!("Key ID: \"muster1:rip:{user_key}:")), "{shown}");
    assert!(shown.contains("Type: ssh-ed25519-cert-v01@openssh.com user certificate"), "{shown}");
    let listed: Vec<&str> = shown.split("Principals:").nth(1).unwrap().split_whitespace().collect();
    assert_eq!(listed, ["rip", "Critical", "Options:", "(none)", "Extensions:", "permit-pty"]);
    let fingerprint = keygen(&["-l", "-f"], &fleet.path("state/ssh/user-ca.pub"));
    let fingerprint = fingerprint.split_whitespace().nth(1).unwrap();
    assert!(shown.contains(&format!("Signing CA: ED25519 {fingerprint}")), "{shown}");
    let private = keygen(&["-y", "-f"], &key);
    assert!(private.starts_with("ssh-ed25519 "), "{private}");
    let first = read_blob(&certificate);
    fleet.certificate().await;
    assert_eq!(read_blob(&certificate), first, "the certificate is used again");

    let connection = "192.0.2.7 50000 192.0.2.1 22";
    let output = fleet.principals("deploy", &first, &["--connection", connection]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "rip\n", "{}", describe_output(&output));
    assert!(output.status.success());
    fleet.assert_refused("root", &first, "denied by ssh.policy:1 (default)");
    let accepted = fleet.logins("audit.log", 1).await;
    let [record] = accepted.as_slice() else { panic!("{accepted:?}") };
    let key_id = record["data"]["key_id"].as_str().unwrap();
    assert_eq!(record["verdict"], "executed");
    assert_eq!((&record["caller"], &record["data"]["user"]), (&"rip".into(), &"deploy".into()));
    assert_eq!(record["caller_key"], user_key.to_string());
    assert_eq!(record["data"]["source"], "192.0.2.7");
    assert_eq!(record["rule"], "ssh.policy:2");
    assert!(key_id.ends_with(record["request"].as_str().unwrap()), "{record}");
    // The signature has the same request, and its record the same key id and serial number.
    let text = std::fs::read_to_string(fleet.path("audit.log")).unwrap();
    let signed: Vec<Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["agent"] == "ssh_ca" && line["verdict"] == "ended")
        .collect();
    let [signature] = signed.as_slice() else { panic!("{signed:?}") };
    for field in ["key_id", "serial"] {
        assert_eq!(signature["data"][field], record["data"][field], "{field}");
    }
    let denied = fleet.logins("audit-refusals.log", 1).await;
    assert_eq!(denied[0]["verdict"], "denied");
    assert_eq!(denied[0]["data"]["user"], "root");

    // The same decision by a request, for people.
    let (document, code) = fleet.rpc.run_json(&["do", "ssh", "login", "user=deploy"]).await;
    assert_eq!((code, &document["replies"][0]["data"]["principal"]), (0, &"rip".into()));
    let output = fleet.rpc.run(&["do", "ssh", "login", "user=root"]).await;
    assert_eq!(output.status.code(), Some(2), "{}", describe_output(&output));

    fleet.daemon.kill_and_wait();
    fleet.assert_refused("deploy", &first, "cannot ask the daemon");
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_and_malformed_certificates_are_refused() {
    let fleet = CertificateFleet::start().await;
    let good = fleet.forge(&fleet.authority, "rip", (0, 60));
    assert!(fleet.principals("deploy", &good, &[]).status.success());
    let other = KeyPair::generate(KeyKind::Account).unwrap();
    let foreign = fleet.forge(&other, "rip", (0, 60));
    fleet.assert_refused("deploy", &foreign, "not signed by an SSH authority");
    let expired = fleet.forge(&fleet.authority, "rip", (-120, -60));
    fleet.assert_refused("deploy", &expired, "the certificate is valid from");
    let early = fleet.forge(&fleet.authority, "rip", (600, 1200));
    fleet.assert_refused("deploy", &early, "the certificate is valid from");
    for user in ["deploy\n", "deploy root", "../deploy", "", "-l", &"d".repeat(33)] {
        fleet.assert_refused(user, &good, "is not a user name");
    }
    for text in ["", "AAAA", "\n", "not base64", &"A".repeat(8193), &format!("{good}AAAA")] {
        fleet.assert_refused("deploy", text, "certificate");
    }
    // A certificate that ssh-keygen signed with another key id, such as one with line breaks.
    let key = fleet.rpc.path("other");
    keygen(&["-q", "-t", "ed25519", "-N", "", "-f"], &key);
    let ca = fleet.rpc.path("ca");
    keygen(&["-q", "-t", "ed25519", "-N", "", "-f"], &ca);
    let id = format!("muster1:rip:{}:1:x\nroot", fleet.rip.public_key());
    let public = fleet.rpc.path("other.pub");
    keygen(&["-q", "-s", ca.to_str().unwrap(), "-I", &id, "-n", "rip", "-V", "+1h"], &public);
    let forged = read_blob(&fleet.rpc.path("other-cert.pub"));
    fleet.assert_refused("deploy", &forged, "key id");
    fleet.logins("audit.log", 1).await;
    // A connection that sends nothing, or too much, delays no other.
    let idle = std::os::unix::net::UnixStream::connect(fleet.path("logins.sock")).unwrap();
    assert!(fleet.principals("deploy", &good, &[]).status.success());
    drop(idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_caller_is_refused_and_only_callers_of_the_policy_get_certificates() {
    let mut fleet = CertificateFleet::start().await;
    let (_, certificate) = fleet.certificate().await;
    let blob = read_blob(&certificate);
    assert!(fleet.principals("www", &blob, &[]).status.success());

    let anna = fleet.organisation.caller("anna");
    let anna =
        RpcCommand::new(&fleet.server, &fleet.organisation, &anna, "[ssh]\ncertificates = true\n");
    let output = anna.run(&["ssh", "-I", "n1", "--own-host-keys", "--print"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", describe_output(&output));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("n1 signs no certificate for this caller"), "{errors}");
    assert!(errors.contains("ssh_ca.policy"), "{errors}");
    let words = ["ssh", "-I", "n1", "--own-host-keys", "--own-keys", "--print"];
    let output = anna.run(&words).await;
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "ssh -- n1\n",
        "{}",
        describe_output(&output)
    );

    // A service that the policy permits, and a node with a stolen key.
    let public = SshUserKey::generate("x").unwrap().public_text().unwrap();
    let words = ["do", "ssh_ca", "sign", &format!("public_key={public}"), "-I", "n1", "--yes"];
    for user in [
        fleet.organisation.service(ServiceRight::Directory, "backup"),
        fleet.organisation.node("n2"),
    ] {
        let rpc = RpcCommand::new(&fleet.server, &fleet.organisation, &user, "");
        let output = rpc.run(&words).await;
        assert!(!output.status.success(), "{}", describe_output(&output));
        assert!(!String::from_utf8_lossy(&output.stdout).contains("cert-v01"));
    }
    let text = std::fs::read_to_string(fleet.path("audit.log")).unwrap();
    assert_eq!(text.matches("\"reason\":\"signed\"").count(), 1, "{text}");

    let rip = fleet.rip.clone();
    let token = fleet.organisation.revoke_user(&rip);
    fleet.daemon.home().write("account.jwt", &token, 0o644);
    restart(&mut fleet).await;
    fleet.assert_refused("www", &blob, "the key of the caller is revoked");
    let refused = fleet.logins("audit-refusals.log", 1).await;
    assert_eq!(
        (&refused[0]["verdict"], &refused[0]["reason"]),
        (&"refused".into(), &"revoked".into())
    );
}

/// Starts the daemon again with the account token in its file.
async fn restart(fleet: &mut CertificateFleet) {
    fleet.daemon.kill_and_wait();
    let home = fleet.daemon.home().clone();
    fleet.daemon = home.start();
    let socket = fleet.path("logins.sock");
    poll_until_ok("the daemon answers", PATIENCE, async || {
        std::os::unix::net::UnixStream::connect(&socket)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_without_an_authority_says_what_is_missing() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
    let output = rpc.run(&["ssh", "-I", "n1", "--certificate", "--own-host-keys", "--print"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", describe_output(&output));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("this fleet has no SSH authority"), "{errors}");
    assert!(errors.contains("rpc org ssh-ca create"), "{errors}");
}
