//! Bundles: a bundle of a permitted signer opens; changed bytes, foreign signers and paths outside the agent's directory are refused.

use std::collections::BTreeMap;

use muster_operations::bundle::{
    BundleArchive, BundleError, BundleFile, BundleFileMode, BundleManifest, BundleSignerTrust,
    OpenBundle, PLUGIN_SIGN_TAG, check_path, pack_bundle,
};
use muster_wire::identity::SubjectName;
use muster_wire::sign::{EnvelopeKind, MessageRefusal, Signer, sign_envelope};
use muster_wire::token::{TokenError, UserRole};
use proptest::prelude::*;

use crate::bundle::world::{ISSUED, NOW, TestOrganisation, name};

const DDL: BundleFile<'_> = BundleFile { mode: BundleFileMode::Data, bytes: b"{}" };
const PROGRAM: BundleFile<'_> = BundleFile { mode: BundleFileMode::Program, bytes: b"#!/bin/sh\n" };

fn files<'a>() -> BTreeMap<&'a str, BundleFile<'a>> {
    [("disk.json", DDL), ("disk", PROGRAM), ("README.md", DDL)].into()
}

fn version() -> semver::Version {
    semver::Version::new(1, 2, 3)
}

fn pack_files(world: &TestOrganisation, signer: &Signer) -> Vec<u8> {
    let account = world.trust.account_token();
    pack_bundle(name("disk"), version(), &files(), signer, account, NOW).unwrap()
}

fn signer(world: &TestOrganisation) -> Signer {
    world.signer_tagged(UserRole::Caller, "alice", 100, &[PLUGIN_SIGN_TAG])
}

fn pinned(world: &TestOrganisation) -> BundleSignerTrust<'_> {
    BundleSignerTrust::Operator {
        operator: world.operator.public_key(),
        account: Some(world.trust.account_token()),
    }
}

fn open<'a>(
    bytes: &'a [u8],
    authority: &BundleSignerTrust<'_>,
) -> Result<OpenBundle<'a>, BundleError> {
    BundleArchive::decode(bytes)?.verify_contents(authority, NOW)
}

#[test]
fn packed_bundle_opens_under_a_pinned_operator_or_key() {
    let world = TestOrganisation::new();
    let signer = signer(&world);
    let bytes = pack_files(&world, &signer);
    assert_eq!(bytes, pack_files(&world, &signer), "the same content produced different bytes");
    let unknown =
        BundleSignerTrust::Operator { operator: world.operator.public_key(), account: None };
    for authority in [pinned(&world), unknown, BundleSignerTrust::Key(signer.public_key())] {
        let opened = open(&bytes, &authority).unwrap();
        assert_eq!(opened.manifest.version, version());
        assert_eq!(opened.manifest.packed_at, NOW);
        assert_eq!(opened.signer.identity.as_str(), "alice");
        assert_eq!(opened.signer.key, signer.public_key());
        let found: BTreeMap<_, _> = opened.files.into_iter().collect();
        assert_eq!(found, files());
    }
}

#[test]
fn foreign_keys_and_users_without_the_permission_are_refused() {
    let world = TestOrganisation::new();
    let other = TestOrganisation::with_seed(50);
    let alice = signer(&world);

    let foreign = pack_files(&other, &signer(&other));
    assert!(matches!(
        open(&foreign, &pinned(&world)),
        Err(BundleError::Account(TokenError::Foreign { .. }))
    ));
    // The signer is of another organisation, but the bundle has this organisation's account token.
    let foreign_signer = other.signer_tagged(UserRole::Caller, "alice", 100, &[PLUGIN_SIGN_TAG]);
    assert!(matches!(
        open(&pack_files(&world, &foreign_signer), &pinned(&world)),
        Err(BundleError::Refused(MessageRefusal::Token(TokenError::UnknownIssuer { .. })))
    ));
    let plain = world.caller();
    assert!(matches!(
        open(&pack_files(&world, &plain), &pinned(&world)),
        Err(BundleError::MayNotSign(_))
    ));
    for role in [UserRole::Node, UserRole::Service] {
        let user = world.signer_tagged(role, "db1.acme.net", 101, &[PLUGIN_SIGN_TAG]);
        assert!(matches!(
            open(&pack_files(&world, &user), &pinned(&world)),
            Err(BundleError::Refused(MessageRefusal::WrongRole { .. }))
        ));
    }
    let key = BundleSignerTrust::Key(plain.public_key());
    let eve = world.signer_tagged(UserRole::Caller, "eve", 109, &[PLUGIN_SIGN_TAG]);
    assert!(matches!(open(&pack_files(&world, &eve), &key), Err(BundleError::Foreign { .. })));
    assert!(open(&pack_files(&world, &alice), &pinned(&world)).is_ok());
}

/// The newer of the account tokens of the verifier and of the bundle determines the revocations.
#[test]
fn revoked_signer_is_refused_by_either_account_token() {
    let world = TestOrganisation::new();
    let alice = signer(&world);
    let bytes = pack_files(&world, &alice);
    let key = alice.public_key();
    let revoked = world.account_token(ISSUED + 60, |claims| claims.revoke_user(&key, ISSUED));
    let operator = world.operator.public_key();
    let known = BundleSignerTrust::Operator { operator, account: Some(&revoked) };
    let is_revoked = |result: Result<OpenBundle<'_>, BundleError>| {
        matches!(
            result,
            Err(BundleError::Refused(MessageRefusal::Token(TokenError::Revoked { .. })))
        )
    };
    assert!(is_revoked(open(&bytes, &known)));
    let carried = pack_bundle(name("disk"), version(), &files(), &alice, &revoked, NOW).unwrap();
    assert!(is_revoked(open(&carried, &pinned(&world))));
    assert!(open(&bytes, &pinned(&world)).is_ok());
}

#[test]
fn changed_added_or_removed_bytes_are_refused() {
    let world = TestOrganisation::new();
    let alice = signer(&world);
    let bytes = pack_files(&world, &alice);
    let authorities = [pinned(&world), BundleSignerTrust::Key(alice.public_key())];
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        for authority in &authorities {
            assert!(open(&changed, authority).is_err(), "byte {at}");
        }
    }
    for length in [0, 1, 511, 512, 1024, bytes.len() - 512, bytes.len() - 1] {
        assert!(BundleArchive::decode(&bytes[..length]).is_err(), "{length}");
    }
    let longer = [bytes.as_slice(), &[0; 512]].concat();
    assert!(BundleArchive::decode(&longer).is_err());
}

#[test]
fn unsigned_changed_and_missing_files_are_refused() {
    let world = TestOrganisation::new();
    let alice = signer(&world);
    let bytes = pack_files(&world, &alice);
    let good = BundleArchive::decode(&bytes).unwrap();
    let refused = |change: &dyn Fn(&mut BTreeMap<&str, BundleFile<'_>>)| {
        let mut bundle = good.clone();
        change(&mut bundle.files);
        let bytes = bundle.encode().unwrap();
        matches!(open(&bytes, &pinned(&world)), Err(BundleError::File(_)))
    };
    assert!(!refused(&|_| {}));
    assert!(refused(&|files| {
        files.insert("more", DDL);
    }));
    assert!(refused(&|files| {
        files.remove("README.md");
    }));
    assert!(refused(&|files| {
        files.insert("disk", DDL);
    }));
    assert!(refused(&|files| {
        files.insert("README.md", PROGRAM);
    }));
    // `encode` refuses such a path, so no archive with it is written.
    let mut bundle = good.clone();
    bundle.files.insert("../disk", PROGRAM);
    assert!(matches!(bundle.encode(), Err(BundleError::Tar(_))));
}

/// The manifest is checked although it is signed: a signer may be malicious.
#[test]
fn signed_manifest_with_an_invalid_path_is_refused() {
    let world = TestOrganisation::new();
    let alice = signer(&world);
    let long = "x".repeat(91);
    for path in [
        "../disk",
        "/etc/passwd",
        "disk/../../x",
        "a//b",
        "",
        ".",
        "a/.",
        ".hidden",
        "disk/.x",
        "a/b/c/d",
        "a b",
        "a\\b",
        "other.json",
        "disk/data.json",
        "disk.json/x",
        "disk/x",
        &long,
        "ümlaut",
        "a\0b",
        "a/",
    ] {
        let mut files = files();
        files.insert(path, PROGRAM);
        let account = world.trust.account_token();
        let pack_files = pack_bundle(name("disk"), version(), &files, &alice, account, NOW);
        assert!(matches!(pack_files, Err(BundleError::Path { .. })), "{path}");
        // Signs without `pack_bundle`, as a modified program could.
        let manifest = BundleManifest {
            name: name("disk"),
            version: version(),
            signer: alice.identity().clone(),
            packed_at: NOW,
            files: files
                .iter()
                .map(|(path, file)| ((*path).to_owned(), file.manifest_entry()))
                .collect(),
        };
        let sealed = sign_envelope(EnvelopeKind::Bundle, &manifest, &alice).unwrap();
        let bundle = BundleArchive { envelope: &sealed, account, files: files.clone() };
        assert!(bundle.verify_contents(&pinned(&world), NOW).is_err(), "{path}");
    }
}

#[test]
fn other_message_kinds_and_wrong_signers_are_refused() {
    let world = TestOrganisation::new();
    let alice = signer(&world);
    let bytes = pack_files(&world, &alice);
    let good = BundleArchive::decode(&bytes).unwrap();
    let manifest = open(&bytes, &pinned(&world)).unwrap().manifest;
    for kind in [EnvelopeKind::Request, EnvelopeKind::Approval] {
        let sealed = sign_envelope(kind, &manifest, &alice).unwrap();
        let bundle = BundleArchive { envelope: &sealed, ..good.clone() };
        let refused = bundle.verify_contents(&pinned(&world), NOW);
        assert!(matches!(refused, Err(BundleError::Refused(MessageRefusal::Protocol { .. }))));
    }
    let claimed = BundleManifest { signer: "bob".parse().unwrap(), ..manifest };
    let sealed = sign_envelope(EnvelopeKind::Bundle, &claimed, &alice).unwrap();
    let bundle = BundleArchive { envelope: &sealed, ..good };
    let refused = bundle.verify_contents(&pinned(&world), NOW);
    assert!(matches!(refused, Err(BundleError::WrongSigner { .. })));
}

/// Archives of other programs are refused if they contain links, devices, directories, extension headers or duplicate names.
#[test]
fn archive_entries_other_than_regular_files_are_refused() {
    let world = TestOrganisation::new();
    let bytes = pack_files(&world, &signer(&world));
    let good = BundleArchive::decode(&bytes).unwrap();
    for kind in [
        tar::EntryType::Symlink,
        tar::EntryType::Link,
        tar::EntryType::Char,
        tar::EntryType::Block,
        tar::EntryType::Fifo,
        tar::EntryType::Directory,
        tar::EntryType::XHeader,
        tar::EntryType::GNULongName,
        tar::EntryType::GNUSparse,
    ] {
        let mut builder = tar::Builder::new(Vec::new());
        let mut put = |path: &str, kind, content: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(0o644);
            header.set_size(content.len() as u64);
            builder.append_data(&mut header, path, content).unwrap();
        };
        put("bundle.json", tar::EntryType::Regular, good.envelope);
        put("account.jwt", tar::EntryType::Regular, good.account.as_bytes());
        put("files/disk", kind, b"");
        let bytes = builder.into_inner().unwrap();
        assert!(matches!(BundleArchive::decode(&bytes), Err(BundleError::Shape(_))), "{kind:?}");
    }
    let two = good.files.len() + 2;
    let mut builder = tar::Builder::new(Vec::new());
    let entries = tar::Archive::new(bytes.as_slice());
    let mut archive = entries;
    for entry in archive.entries().unwrap().take(two) {
        let entry = entry.unwrap();
        let header = entry.header().clone();
        builder.append(&header, entry).unwrap();
    }
    let mut header = tar::Header::new_ustar();
    header.set_mode(0o644);
    header.set_size(2);
    builder.append_data(&mut header, "files/disk.json", &b"[]"[..]).unwrap();
    let twice = builder.into_inner().unwrap();
    assert!(matches!(BundleArchive::decode(&twice), Err(BundleError::Shape(_))));
}

proptest! {
    #[test]
    fn accepted_path_stays_below_the_agent_directory(path in "[a-zA-Z./_\\\\ -]{0,24}|\\PC{0,24}") {
        let agent: SubjectName = name("disk");
        if check_path(&agent, &path).is_ok() {
            let normal = |part| matches!(part, std::path::Component::Normal(_));
            prop_assert!(std::path::Path::new(&path).components().all(normal));
            let ddl = path.strip_suffix(".json");
            prop_assert!(ddl.is_none() || ddl == Some("disk"));
        }
    }

    #[test]
    fn packed_files_round_trip(
        contents in proptest::collection::btree_map("[a-z0-9_-]{1,8}(/[a-z0-9_-]{1,8})?", (any::<bool>(), proptest::collection::vec(any::<u8>(), 0..1500)), 0..6)
    ) {
        let contents: BTreeMap<_, _> = contents.into_iter().map(|(path, content)| (format!("lib/{path}"), content)).collect();
        let mut files = files();
        for (path, (program, bytes)) in &contents {
            let mode = if *program { BundleFileMode::Program } else { BundleFileMode::Data };
            files.insert(path, BundleFile { mode, bytes });
        }
        let world = TestOrganisation::new();
        let alice = signer(&world);
        // A path that is both a file and a directory is refused; every pack_files bundle opens with equal content.
        if let Ok(bytes) = pack_bundle(name("disk"), version(), &files, &alice, world.trust.account_token(), NOW) {
            let opened = open(&bytes, &pinned(&world)).unwrap();
            let found: BTreeMap<_, _> = opened.files.into_iter().collect();
            prop_assert_eq!(found, files);
        }
    }
}
