//! Tests of the CA service with an authority in memory, and of the agent with a scripted command line.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use muster_api::system::real::RealSystem;
use muster_api::testing::TestNode;
use muster_api::wire::status::{ReplyReason, ReplyStatus};
use muster_api::{ActionError, Agent};

use crate::certificate::CertificateRequest;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequest, DistinguishedName, DnType,
    IsCa, Issuer, KeyPair, SerialNumber,
};
use serde_json::{Map, Value, json};

use crate::puppetca::authority::{CaError, CertAuthority, CertEntry, CertState};
use crate::puppetca::ca_service::{CaService, SigningSpec};
use crate::puppetca::name::CertName;
use crate::puppetca::{CaBackend, Options, build_agent};

/// The state of a certificate name in the simulated authority.
struct Held {
    state: CertState,
    request: Option<String>,
    certificate: Option<String>,
}

/// A simulated authority in memory.
struct Memory {
    issuer: Issuer<'static, KeyPair>,
    names: RefCell<BTreeMap<String, Held>>,
    keys: RefCell<BTreeMap<String, KeyPair>>,
    /// Signs a certificate for another key than the one requested.
    is_wicked: bool,
    /// Simulates another client that signs first: the call signs, then returns a conflict.
    is_slow: bool,
}

fn params(name: &str, others: &[&str]) -> CertificateParams {
    let others: Vec<String> = others.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(others).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Memory {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut authority = params("CA", &[]);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self {
            issuer: Issuer::new(authority, key),
            names: RefCell::default(),
            keys: RefCell::default(),
            is_wicked: false,
            is_slow: false,
        }
    }

    /// Adds a request of a node.
    fn ask(&self, name: &str, others: &[&str]) -> CertificateRequest {
        let key = KeyPair::generate().unwrap();
        let csr: CertificateSigningRequest = params(name, others).serialize_request(&key).unwrap();
        let pem = csr.pem().unwrap();
        let held =
            Held { state: CertState::Requested, request: Some(pem.clone()), certificate: None };
        self.names.borrow_mut().insert(name.to_owned(), held);
        self.keys.borrow_mut().insert(name.to_owned(), key);
        CertificateRequest::parse(&pem).unwrap()
    }

    fn signed(&self, name: &str) {
        let mut names = self.names.borrow_mut();
        let held = names.get_mut(name).unwrap();
        let keys = self.keys.borrow();
        let other = KeyPair::generate().unwrap();
        let key = if self.is_wicked { &other } else { &keys[name] };
        let mut params = params(name, &[name]);
        params.serial_number = Some(SerialNumber::from(31_u64));
        let certificate = params.signed_by(key, &self.issuer).unwrap();
        *held =
            Held { state: CertState::Signed, request: None, certificate: Some(certificate.pem()) };
    }
}

impl CertAuthority for Memory {
    fn list_entries(&self, _: Option<CertState>) -> Result<Vec<CertEntry>, CaError> {
        Ok(Vec::new())
    }

    fn find_entry(&self, name: &CertName) -> Result<Option<CertEntry>, CaError> {
        let names = self.names.borrow();
        Ok(names.get(name.as_str()).map(|held| {
            let entry = json!({"name": name.as_str(), "state": held.state.as_str()});
            serde_json::from_value(entry).unwrap()
        }))
    }

    fn read_request(&self, name: &CertName) -> Result<Option<String>, CaError> {
        let names = self.names.borrow();
        Ok(names.get(name.as_str()).and_then(|held| held.request.clone()))
    }

    fn read_certificate(&self, name: &CertName) -> Result<Option<String>, CaError> {
        let names = self.names.borrow();
        Ok(names.get(name.as_str()).and_then(|held| held.certificate.clone()))
    }

    fn sign_request(&self, name: &CertName, _: Option<u64>) -> Result<(), CaError> {
        self.signed(name.as_str());
        if self.is_slow {
            let text = "no certificate request".to_owned();
            return Err(CaError::Conflict { text });
        }
        Ok(())
    }

    fn revoke_certificate(&self, name: &CertName) -> Result<(), CaError> {
        self.names.borrow_mut().get_mut(name.as_str()).unwrap().state = CertState::Revoked;
        Ok(())
    }

    fn delete_entry(&self, name: &CertName) -> Result<(), CaError> {
        self.names.borrow_mut().remove(name.as_str());
        Ok(())
    }
}

fn desk(options: Options) -> (tempfile::TempDir, CaService) {
    let directory = tempfile::tempdir().unwrap();
    let desk = CaService::new(options, directory.path().join("puppetca"));
    (directory, desk)
}

fn ask(name: &str, fingerprint: Option<&str>, public_key: Option<&str>) -> SigningSpec {
    SigningSpec {
        name: CertName::parse(name).unwrap(),
        fingerprint: fingerprint.map(str::to_owned),
        public_key: public_key.map(str::to_owned),
        ttl: None,
        is_noop: false,
    }
}

/// A9.3: a request that was replaced by a third party is not signed.
#[test]
fn only_a_request_with_the_expected_fingerprint_and_key_is_signed() {
    let (_directory, desk) = desk(Options::default());
    let ca = Memory::new();
    let meant = ca.ask("web1", &[]);
    let swapped = ca.ask("web1", &[]);
    for wrong in [
        ask("web1", Some(&meant.fingerprint), None),
        ask("web1", None, Some(&meant.public_key)),
        ask("web1", Some(&swapped.fingerprint), Some(&meant.public_key)),
    ] {
        let refused = desk.sign_verified_request(&ca, &wrong).unwrap_err();
        assert!(matches!(refused, CaError::Mismatch { .. }), "{refused}");
    }
    let unproven = desk.sign_verified_request(&ca, &ask("web1", None, None)).unwrap_err();
    assert!(matches!(unproven, CaError::Unproven { .. }), "{unproven}");
    assert_eq!(ca.names.borrow()["web1"].state, CertState::Requested);
    let good = ask(
        "web1",
        Some(&swapped.fingerprint.to_lowercase().replace(':', "")),
        Some(&swapped.public_key),
    );
    let (changed, known) = desk.sign_verified_request(&ca, &good).unwrap();
    assert!(changed);
    assert_eq!(known.serial, "1F");
    assert_eq!(known.public_key, swapped.public_key);
}

#[test]
fn signing_is_idempotent_and_refuses_another_request() {
    let (_directory, desk) = desk(Options::default());
    let ca = Memory::new();
    let request = ca.ask("web1", &[]);
    let by_fingerprint = ask("web1", Some(&request.fingerprint), None);
    assert!(desk.sign_verified_request(&ca, &by_fingerprint).unwrap().0);
    for same in [by_fingerprint, ask("web1", None, Some(&request.public_key))] {
        assert!(!desk.sign_verified_request(&ca, &same).unwrap().0);
    }
    let other = Memory::new().ask("web1", &[]);
    for wrong in
        [ask("web1", Some(&other.fingerprint), None), ask("web1", None, Some(&other.public_key))]
    {
        let refused = desk.sign_verified_request(&ca, &wrong).unwrap_err();
        assert!(matches!(refused, CaError::OtherSigned { .. }), "{refused}");
    }
    // A certificate that was signed elsewhere can be matched by its key, but not by the fingerprint of a request.
    let request = ca.ask("web2", &[]);
    ca.signed("web2");
    assert!(
        desk.sign_verified_request(&ca, &ask("web2", Some(&request.fingerprint), None)).is_err()
    );
    assert!(
        !desk.sign_verified_request(&ca, &ask("web2", None, Some(&request.public_key))).unwrap().0
    );
}

#[test]
fn conflict_is_ignored_if_the_same_request_was_signed() {
    let (_directory, desk) = desk(Options::default());
    let ca = Memory { is_slow: true, ..Memory::new() };
    let request = ca.ask("web1", &[]);
    let (changed, known) =
        desk.sign_verified_request(&ca, &ask("web1", Some(&request.fingerprint), None)).unwrap();
    assert!(!changed);
    assert_eq!(known.public_key, request.public_key);
}

#[test]
fn certificate_for_another_key_is_revoked() {
    let (_directory, desk) = desk(Options::default());
    let ca = Memory { is_wicked: true, ..Memory::new() };
    let request = ca.ask("web1", &[]);
    let error = desk
        .sign_verified_request(&ca, &ask("web1", Some(&request.fingerprint), None))
        .unwrap_err();
    assert!(matches!(error, CaError::RequestReplaced { .. }), "{error}");
    assert_eq!(ca.names.borrow()["web1"].state, CertState::Revoked);
}

#[test]
fn alternative_names_are_refused_unless_allowed() {
    let ca = Memory::new();
    let greedy = ca.ask("web1", &["web1", "puppet"]);
    let asked = ask("web1", Some(&greedy.fingerprint), None);
    let (_directory, strict) = desk(Options::default());
    let refused = strict.sign_verified_request(&ca, &asked).unwrap_err();
    assert!(matches!(refused, CaError::Disallowed { .. }), "{refused}");
    let error = ActionError::from(refused);
    assert!(error.message.contains("DNS:puppet"), "{error}");
    assert!(matches!(error.reason, Some(ReplyReason::Denied { .. })));
    let (_directory, lax) = desk(Options { allow_alt_names: true, ..Options::default() });
    assert!(lax.sign_verified_request(&ca, &asked).unwrap().0);
    // An alternative name equal to the certificate name is allowed.
    let own = ca.ask("web2", &["web2"]);
    assert!(
        strict.sign_verified_request(&ca, &ask("web2", Some(&own.fingerprint), None)).unwrap().0
    );
}

#[test]
fn cleaning_revokes_and_is_idempotent() {
    let (_directory, desk) = desk(Options::default());
    let ca = Memory::new();
    let name = CertName::parse("web1").unwrap();
    assert!(!desk.clean_certificate(&ca, &name, false).unwrap().found);
    let request = ca.ask("web1", &[]);
    desk.sign_verified_request(&ca, &ask("web1", Some(&request.fingerprint), None)).unwrap();
    let cleaned = desk.clean_certificate(&ca, &name, false).unwrap();
    assert!(cleaned.found && cleaned.revoked);
    assert_eq!(cleaned.serial, "1F");
    assert!(!desk.clean_certificate(&ca, &name, false).unwrap().found);
    ca.ask("web1", &[]);
    let cleaned = desk.clean_certificate(&ca, &name, false).unwrap();
    assert!(cleaned.found && !cleaned.revoked);
    assert!(ca.names.borrow().is_empty());
}

#[test]
fn revoking_is_idempotent_and_needs_a_certificate() {
    let (_directory, desk) = desk(Options::default());
    let ca = Memory::new();
    let name = CertName::parse("web1").unwrap();
    assert!(CaService::revoke_certificate(&ca, &name, false).is_err());
    let request = ca.ask("web1", &[]);
    assert!(CaService::revoke_certificate(&ca, &name, false).is_err());
    desk.sign_verified_request(&ca, &ask("web1", Some(&request.fingerprint), None)).unwrap();
    assert_eq!(CaService::revoke_certificate(&ca, &name, false).unwrap(), (true, "1F".to_owned()));
    assert_eq!(CaService::revoke_certificate(&ca, &name, false).unwrap(), (false, "1F".to_owned()));
    let again = desk.sign_verified_request(&ca, &ask("web1", Some(&request.fingerprint), None));
    assert!(matches!(again, Err(CaError::Revoked { .. })));
}

/// A scripted `puppetserver ca`: keeps its certificates in a directory and prints JSON.
const CA: &str = r#"#!/bin/sh
dir=@DIR@
echo "$@" >> $dir/calls
case "$1" in
  list)
    requested=; signed=
    [ -e $dir/cadir/requests/web1.pem ] && requested='{"name":"web1","state":"requested","fingerprints":{}}'
    [ -e $dir/cadir/signed/web1.pem ] && signed='{"name":"web1","state":"signed","serial_number":31,"not_after":"2030-01-01T00:00:00UTC"}'
    echo "{\"requested\":[$requested],\"signed\":[$signed],\"revoked\":[]}" ;;
  sign) cp $dir/certificate $dir/cadir/signed/web1.pem; rm $dir/cadir/requests/web1.pem ;;
  *) echo "Error: no such thing" >&2; exit 1 ;;
esac
"#;

async fn call(
    agent: &Agent,
    action: &str,
    input: Value,
) -> Result<Map<String, Value>, ActionError> {
    let declared = agent.ddl().find_action(action).unwrap();
    let input = declared.validate_input(input.as_object().unwrap()).unwrap();
    let node = TestNode::named("puppet.acme.net").unwrap();
    let system = Arc::new(RealSystem::new("/".into()));
    let cx = node.context("puppetca", action, system).unwrap();
    let output = agent.find_handler(action).unwrap().call(&cx, input).await?;
    Ok(declared.validate_output(&output).unwrap())
}

#[tokio::test]
async fn command_backend_lists_reports_and_signs() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let script = CA.replace("@DIR@", &directory.path().display().to_string());
    std::fs::write(path("ca"), script).unwrap();
    std::fs::set_permissions(path("ca"), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::create_dir_all(path("cadir/requests")).unwrap();
    std::fs::create_dir_all(path("cadir/signed")).unwrap();
    let memory = Memory::new();
    let request = memory.ask("web1", &[]);
    let pem = memory.names.borrow()["web1"].request.clone().unwrap();
    std::fs::write(path("cadir/requests/web1.pem"), pem).unwrap();
    memory.signed("web1");
    let pem = memory.names.borrow()["web1"].certificate.clone().unwrap();
    std::fs::write(path("certificate"), pem).unwrap();
    let options = Options {
        enabled: true,
        backend: CaBackend::Command,
        command: vec![path("ca").display().to_string()],
        arguments: ["--config", "/etc/p.conf"].map(str::to_owned).to_vec(),
        cadir: path("cadir"),
        ..Options::default()
    };
    let agent = build_agent(options, path("state")).unwrap();
    let listed = call(&agent, "list", json!({})).await.unwrap();
    assert_eq!(
        Value::Object(listed),
        json!({"requests": ["web1"], "signed": [], "revoked": [], "count": 1})
    );
    let found = call(&agent, "status", json!({"certname": "web1"})).await.unwrap();
    assert_eq!(found["fingerprint"], json!(request.fingerprint));
    let sign = json!({"certname": "web1", "fingerprint": request.fingerprint, "ttl": 3600});
    for message in ["signed", "already signed"] {
        let signed = call(&agent, "sign", sign.clone()).await.unwrap();
        assert_eq!(signed["message"], json!(message));
        assert_eq!(signed["public_key"], json!(request.public_key));
    }
    let error = call(&agent, "revoke", json!({"certname": "web1"})).await.unwrap_err();
    assert_eq!(error.status, ReplyStatus::Failed);
    assert!(error.message.contains("no such thing"), "{error}");
    let calls = std::fs::read_to_string(path("calls")).unwrap();
    assert!(calls.contains("sign --certname web1 --ttl 3600s --config /etc/p.conf\n"), "{calls}");
}

#[tokio::test]
async fn invalid_names_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let agent = build_agent(Options::default(), directory.path().join("state")).unwrap();
    for action in ["status", "sign", "revoke", "clean"] {
        let declared = agent.ddl().find_action(action).unwrap();
        for name in ["", "Web1", "--all", "../x", "a b", "*"] {
            let input = Map::from_iter([("certname".to_owned(), json!(name))]);
            assert!(declared.validate_input(&input).is_err(), "{action} {name}");
        }
        // The expression of the field accepts this name; the service refuses it.
        let error = call(&agent, action, json!({"certname": "a..b"})).await.unwrap_err();
        assert_eq!(error.status, ReplyStatus::InvalidData, "{action}");
    }
}

#[test]
fn noop_checks_and_changes_nothing() {
    let (_directory, desk) = desk(Options::default());
    let ca = Memory::new();
    let name = CertName::parse("web1").unwrap();
    let request = ca.ask("web1", &[]);
    let asked = ask("web1", Some(&request.fingerprint), None);
    let planned = SigningSpec { is_noop: true, ..asked.clone() };
    let wrong = SigningSpec { is_noop: true, ..ask("web1", Some(&"00".repeat(32)), None) };
    assert!(desk.sign_verified_request(&ca, &wrong).is_err());
    let (changed, details) = desk.sign_verified_request(&ca, &planned).unwrap();
    assert_eq!((changed, details.state.as_str()), (true, "requested"));
    assert_eq!(ca.names.borrow()["web1"].state, CertState::Requested);
    desk.sign_verified_request(&ca, &asked).unwrap();
    assert!(!desk.sign_verified_request(&ca, &planned).unwrap().0, "already signed");
    let revoked = CaService::revoke_certificate(&ca, &name, true).unwrap();
    assert_eq!(revoked, (true, "1F".to_owned()));
    let cleaned = desk.clean_certificate(&ca, &name, true).unwrap();
    assert_eq!((cleaned.changed, cleaned.revoked), (true, false));
    assert_eq!(cleaned.message, "would revoke the certificate and remove it");
    assert_eq!(ca.names.borrow()["web1"].state, CertState::Signed);
}
