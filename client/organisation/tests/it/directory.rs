//! An organisation through the library's public functions: creation, credentials, revocation, the broker's configuration and bundles.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use muster_organisation::{
    AccountRealm, CredentialSpec, CredentialState, NatsServerConfig, Organisation,
    OrganisationError, OrganisationKey, OrganisationSpec, PrincipalKind, RecordIndex, bundle,
    create_organisation,
};

pub(crate) const NOW: u64 = 1_800_000_000_000;

pub(crate) fn spec(directory: &Path) -> OrganisationSpec {
    OrganisationSpec {
        directory: directory.join("acme"),
        name: None,
        collectives: vec!["muster".parse().unwrap()],
        hosts: vec!["broker.acme.net".to_owned()],
        port: 4222,
        tls: true,
    }
}

fn credentials(kind: PrincipalKind, name: &str) -> CredentialSpec {
    let name = name.parse().unwrap();
    CredentialSpec { kind, name, tags: Vec::new(), expires: None, renew: false, out: None }
}

#[test]
fn created_organisation_opens_and_its_secrets_are_private() {
    let scratch = tempfile::tempdir().unwrap();
    let created = create_organisation(spec(scratch.path()), NOW).unwrap();
    let opened = Organisation::open(created.layout().directory()).unwrap();
    assert_eq!(opened.profile().name, "acme");
    assert_eq!(opened.profile().broker.urls, ["tls://broker.acme.net:4222"]);
    assert_eq!(opened.fleet_trust().unwrap().account_key(), opened.profile().account);
    assert!(opened.realm_trust(AccountRealm::Newcomers).is_ok());
    let keys = fs::read_dir(opened.layout().keys_directory()).unwrap();
    let modes: Vec<u32> =
        keys.map(|key| key.unwrap().metadata().unwrap().permissions().mode() & 0o777).collect();
    assert_eq!(modes, [0o600; 13]);
    assert!(opened.load_key(OrganisationKey::Operator).is_ok());
    let again = create_organisation(spec(scratch.path()), NOW).unwrap_err();
    assert!(matches!(again, OrganisationError::NotEmpty(_)), "{again}");
    let elsewhere = Organisation::open(scratch.path()).unwrap_err();
    assert!(matches!(elsewhere, OrganisationError::NotAnOrganisation(_)), "{elsewhere}");
}

#[test]
fn credentials_are_recorded_refused_as_duplicates_and_revoked() {
    let scratch = tempfile::tempdir().unwrap();
    let organisation = create_organisation(spec(scratch.path()), NOW).unwrap();
    let lock = organisation.lock().unwrap();
    let order = credentials(PrincipalKind::User, "rip");
    let issued = organisation.issue_credentials(&lock, &order, NOW).unwrap();
    assert!(issued.path.ends_with("creds/users/rip.creds"));
    let twice = organisation.issue_credentials(&lock, &order, NOW).unwrap_err();
    assert!(matches!(twice, OrganisationError::Duplicate { .. }), "{twice}");
    let other = credentials(PrincipalKind::Service, "rip");
    let other = organisation.issue_credentials(&lock, &other, NOW).unwrap_err();
    assert!(matches!(other, OrganisationError::NameOfOther { .. }), "{other}");
    let records = organisation.read_records().unwrap();
    let found = RecordIndex::new(&records).find_records("rip", None).unwrap();
    assert_eq!(found[0].key, issued.record.key);
    let keys = [(issued.record.key, issued.record.issued_at)];
    organisation.revoke_keys(&lock, AccountRealm::Fleet, &keys, NOW).unwrap();
    let trusts = organisation.account_trusts().unwrap();
    assert_eq!(trusts.credential_state(found[0], NOW / 1000), CredentialState::Revoked);
    assert!(organisation.issue_credentials(&lock, &order, NOW).is_ok());
}

#[test]
fn broker_configuration_has_the_tokens_and_the_certificate() {
    let scratch = tempfile::tempdir().unwrap();
    let organisation = create_organisation(spec(scratch.path()), NOW).unwrap();
    let mut conf = NatsServerConfig::for_organisation(&organisation);
    assert_eq!(
        format!("{}\ninclude \"local.conf\"\n", conf.render_text()),
        fs::read_to_string(organisation.layout().broker_config()).unwrap()
    );
    conf.jetstream = None;
    conf.ports_directory = Some("/run/ports".into());
    let text = conf.with_embedded_accounts().unwrap().render_text();
    let place = format!("{}/", organisation.layout().directory().display());
    let mut text = text.replace(&place, "");
    for (realm, file) in [
        (AccountRealm::Fleet, "account.jwt"),
        (AccountRealm::Storage, "storage.jwt"),
        (AccountRealm::Newcomers, "newcomers.jwt"),
    ] {
        let trust = organisation.realm_trust(realm).unwrap();
        text = text.replace(trust.account_token(), file);
        text = text.replace(&trust.account_key().to_string(), "ACCOUNT");
    }
    let system = fs::read_to_string(organisation.layout().system_token()).unwrap();
    text = text.replace(system.trim(), "system.jwt");
    text = text.replace(&organisation.profile().system_account.to_string(), "SYSTEM");
    insta::assert_snapshot!(text);
}

#[test]
fn node_bundle_is_complete_and_replaces_no_files() {
    let scratch = tempfile::tempdir().unwrap();
    let organisation = create_organisation(spec(scratch.path()), NOW).unwrap();
    let lock = organisation.lock().unwrap();
    let order = credentials(PrincipalKind::Node, "db1.acme.net");
    let issued = organisation.issue_credentials(&lock, &order, NOW).unwrap();
    let directory = scratch.path().join("bundle");
    bundle::require_free(&directory, PrincipalKind::Node).unwrap();
    organisation
        .bundle_node(&directory, &issued.creds, &order.name, bundle::NoExtraConfig {})
        .unwrap();
    for file in [
        bundle::name::NODE_CONFIG,
        bundle::name::NODE_CREDS,
        bundle::name::ACCOUNT,
        bundle::name::AUTHORITY,
    ] {
        assert!(directory.join(file).is_file(), "{file}");
    }
    let taken = bundle::require_free(&directory, PrincipalKind::Node).unwrap_err();
    assert!(matches!(taken, OrganisationError::Configured(_)), "{taken}");
}
