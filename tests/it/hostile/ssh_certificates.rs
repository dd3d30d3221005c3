//! What a caller that may have certificates gets from the agent that signs them: options, names, weak and foreign keys in
//! the public key, and lifetimes out of bounds. `ssh-keygen` reads each certificate.

use std::collections::BTreeSet;

use data_encoding::BASE64;
use muster_sshcert::SshUserKey;
use serde_json::{Value, json};

use crate::node_fixture::{TestCaller, to_object};
use crate::ssh_certificates::{CertificateFleet, keygen};

/// Requests at once.
const MANY: usize = 24;

/// Points of small order: anyone can make a signature that fits.
const WEAK_POINTS: [[u8; 32]; 3] = [
    [0; 32],
    {
        let mut point = [0; 32];
        point[0] = 1;
        point
    },
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67,
        0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac,
        0x03, 0x7a,
    ],
];

/// A field with its length before it.
fn field(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
    [&length, bytes].concat()
}

/// The line of a key of this type with these fields.
fn key_line(kind: &str, fields: &[&[u8]]) -> String {
    let mut blob = field(kind.as_bytes());
    blob.extend(fields.iter().flat_map(|bytes| field(bytes)));
    format!("{kind} {}", BASE64.encode(&blob))
}

struct Attack {
    fleet: CertificateFleet,
    caller: TestCaller,
    own: String,
}

impl Attack {
    async fn start() -> Self {
        let fleet = Box::pin(CertificateFleet::start()).await;
        let caller =
            TestCaller::connect(&fleet.organisation, &fleet.server, fleet.rip.clone()).await;
        let own = SshUserKey::generate("rip").unwrap().public_text().unwrap();
        Self { fleet, caller, own: own.trim().to_owned() }
    }

    /// Certificate, or the reason why there is none. The request is not checked before it is sent.
    async fn sign(&self, public_key: &str, more: Value) -> Result<String, String> {
        let mut inputs = json!({ "public_key": public_key });
        inputs.as_object_mut().unwrap().extend(to_object(more));
        let reply = self.caller.call_action("n1", "ssh_ca", "sign", inputs).await.reply;
        let certificate = reply.data.get("certificate").and_then(Value::as_str);
        certificate.map(str::to_owned).ok_or(reply.statusmsg.raw().to_owned())
    }

    /// A certificate is that of a caller, whatever was asked for: one principal, no option, and a bounded time.
    fn assert_plain(&self, certificate: &str, what: &str) {
        assert_eq!(certificate.lines().count(), 1, "{what}: {certificate}");
        self.fleet.rpc.write("signed-cert.pub", &format!("{certificate}\n"));
        let shown = keygen(&["-L", "-f"], &self.fleet.rpc.path("signed-cert.pub"));
        let listed = shown.split("Principals:").nth(1).unwrap();
        let listed: Vec<&str> = listed.split_whitespace().collect();
        let expected = ["rip", "Critical", "Options:", "(none)", "Extensions:", "permit-pty"];
        assert_eq!(listed, expected, "{what}: {shown}");
        assert!(shown.contains("user certificate") && shown.contains("Key ID: \"muster1:rip:"));
        assert!(!shown.contains("forever"), "{what}: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificate_has_no_option_name_or_time_that_the_caller_chose() {
    let attack = Attack::start().await;
    let own = attack.own.clone();
    let key: Vec<&str> = own.split_whitespace().take(2).collect();
    let [kind, blob] = key.as_slice() else { panic!("{own}") };
    for (what, text) in [
        ("options before the key", format!("command=\"id\",from=\"*\" {kind} {blob} x")),
        ("an authority", format!("cert-authority {kind} {blob} x")),
        ("principals", format!("principals=\"root\" {kind} {blob} x")),
        ("two keys", format!("{kind} {blob} x\n{kind} {blob} root")),
        ("a comment with a line break", format!("{kind} {blob} x\nroot,deploy")),
        ("a comment with commas", format!("{kind} {blob} root,deploy")),
        ("a comment with an escape sequence", format!("{kind} {blob} \u{1b}[2J")),
        ("a comment that is long", format!("{kind} {blob} {}", "x".repeat(1500))),
        ("carriage returns", format!("{kind} {blob}\r\nroot")),
    ] {
        match attack.sign(&text, json!({})).await {
            Ok(certificate) => attack.assert_plain(&certificate, what),
            Err(refusal) => assert!(refusal.contains("public_key"), "{what}: {refusal}"),
        }
    }
    for lifetime in
        [json!(0), json!(59), json!(86_401), json!(u64::MAX), json!(-1), json!(1e9), json!("60")]
    {
        let refused = attack.sign(&own, json!({ "lifetime": lifetime })).await;
        assert!(refused.is_err(), "{lifetime}: {refused:?}");
    }
    for more in ["principals", "key_id", "serial", "critical_options", "caller"] {
        let refused = attack.sign(&own, json!({ more: "root" })).await;
        assert!(refused.is_err(), "{more}: {refused:?}");
    }
    let certificate = attack.sign(&own, json!({ "lifetime": 60 })).await.unwrap();
    attack.assert_plain(&certificate, "the shortest lifetime");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weak_keys_and_keys_of_other_types_get_no_certificate() {
    let attack = Attack::start().await;
    for point in &WEAK_POINTS {
        for line in [
            key_line("ssh-ed25519", &[point]),
            key_line("sk-ssh-ed25519@openssh.com", &[point, b"ssh:"]),
        ] {
            let refused = attack.sign(&line, json!({})).await.unwrap_err();
            assert!(refused.contains("weak"), "{line}: {refused}");
        }
    }
    // No point of the curve.
    let mut invalid = [0; 32];
    invalid[0] = 2;
    assert!(attack.sign(&key_line("ssh-ed25519", &[&invalid]), json!({})).await.is_err());
    for (number, arguments) in [
        &["-t", "rsa", "-b", "1024"][..],
        &["-t", "rsa", "-b", "2048"],
        &["-t", "ecdsa", "-b", "256"],
    ]
    .iter()
    .enumerate()
    {
        let file = attack.fleet.rpc.path(&format!("key{number}"));
        keygen(&[&["-q", "-N", ""], *arguments, &["-f"]].concat(), &file);
        let public = std::fs::read_to_string(file.with_extension("pub")).unwrap();
        let refused = attack.sign(public.trim(), json!({})).await;
        assert!(refused.is_err(), "{arguments:?}: {refused:?}");
    }
    let certificate = attack.sign(&attack.own, json!({})).await.unwrap();
    let blob = attack.own.split_whitespace().nth(1).unwrap();
    for (what, line) in [
        ("a certificate", certificate.clone()),
        ("another type before the key", format!("ssh-rsa {blob}")),
        ("a cut key", format!("ssh-ed25519 {}", &blob[..blob.len() - 4])),
        ("a longer key", format!("ssh-ed25519 {blob}AAAA")),
        ("a point of 31 bytes", key_line("ssh-ed25519", &[&[7; 31]])),
        ("a field with a false length", format!("ssh-ed25519 {}", BASE64.encode(&[255; 64]))),
        ("a private key", "-----BEGIN OPENSSH PRIVATE KEY-----".to_owned()),
        ("nothing", String::new()),
    ] {
        let refused = attack.sign(&line, json!({})).await;
        assert!(refused.is_err(), "{what}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_requests_get_certificates_with_serial_numbers_of_their_own() {
    let attack = Attack::start().await;
    let asking = (0..MANY).map(|_| attack.sign(&attack.own, json!({})));
    let signed = futures_util::future::join_all(asking).await;
    let mut serials = BTreeSet::new();
    for certificate in signed.iter().filter_map(|signed| signed.as_ref().ok()) {
        attack.fleet.rpc.write("many-cert.pub", &format!("{certificate}\n"));
        let shown = keygen(&["-L", "-f"], &attack.fleet.rpc.path("many-cert.pub"));
        let serial = shown.lines().find_map(|line| line.trim().strip_prefix("Serial: "));
        assert!(serials.insert(serial.unwrap().to_owned()), "{shown}");
    }
    assert_eq!(serials.len(), MANY, "{signed:?}");
    // Each signature is recorded.
    let log = attack.fleet.daemon.home().path("audit.log");
    muster_tests::await_state("the signatures are recorded", || {
        let text = std::fs::read_to_string(&log).unwrap();
        text.matches("\"reason\":\"signed\"").count() == MANY
    })
    .await;
}
