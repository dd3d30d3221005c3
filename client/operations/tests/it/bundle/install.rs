//! Bundles on disk: packing a directory, and installing, upgrading and removing an agent as a whole.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use muster_operations::bundle::{
    BundleArchive, BundleFileError, BundleSignerTrust, InstallRecord, bundle_directory,
    changed_files, check_agent_files, collect_bundle_files, find_installed, install_bundle,
    pack_bundle, remove_bundle,
};
use muster_wire::token::UserRole;

use crate::bundle::world::{NOW, TestOrganisation, name};

/// Writes an external agent of this version.
fn write_agent(directory: &Path, version: &str) {
    let ddl = format!(
        r#"{{"$schema": "https://choria.io/schemas/mcorpc/ddl/v1/agent.json", "metadata": {{"name": "disk", "description": "Disks",
        "author": "a", "license": "b", "version": "{version}", "url": "https://x", "timeout": 5, "provider": "external"}},
        "actions": [{{"action": "usage", "description": "Usage", "display": "always", "input": {{}}, "output": {{}}}}]}}"#
    );
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join("disk.json"), ddl).unwrap();
    fs::write(directory.join("disk"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(directory.join("disk"), Permissions::from_mode(0o755)).unwrap();
}

/// Packs the directory, and installs the bundle.
fn install(
    source: &Path,
    ddls: &Path,
    downgrade: bool,
) -> Result<Option<InstallRecord>, BundleFileError> {
    let world = TestOrganisation::new();
    let signer = world.signer(UserRole::Caller, "alice", 100);
    let collected = collect_bundle_files(source).unwrap();
    let files = collected.contents();
    let agent = collected.agent_name(source)?;
    let (_, version) = check_agent_files(&agent, &files)?;
    let account = world.trust.account_token();
    let bytes = pack_bundle(name(&agent), version, &files, &signer, account, NOW).unwrap();
    let trust = BundleSignerTrust::Key(signer.public_key());
    let bundle = BundleArchive::decode(&bytes).unwrap();
    install_bundle(ddls, &bundle.verify_contents(&trust, NOW).unwrap(), NOW, downgrade)
}

#[test]
fn agent_is_installed_upgraded_and_removed_as_a_whole() {
    let scratch = tempfile::tempdir().unwrap();
    let (source, ddls) = (scratch.path().join("source"), scratch.path().join("ddl"));
    write_agent(&source, "1.0.0");
    let missing = install(&source, &ddls, false).unwrap_err();
    assert!(matches!(missing, BundleFileError::NoDirectory(_)), "{missing}");
    fs::create_dir(&ddls).unwrap();
    assert_eq!(install(&source, &ddls, false).unwrap(), None);
    write_agent(&source, "1.1.0");
    let previous = install(&source, &ddls, false).unwrap().unwrap();
    assert_eq!(previous.version.to_string(), "1.0.0");
    write_agent(&source, "1.0.0");
    let older = install(&source, &ddls, false).unwrap_err();
    assert!(matches!(older, BundleFileError::Older { .. }), "{older}");
    assert!(install(&source, &ddls, true).unwrap().is_some());
    let installed = find_installed(&ddls, &name("disk")).unwrap().unwrap();
    let directory = bundle_directory(&ddls, &name("disk"));
    assert_eq!(installed.directory, directory);
    let mode = |file: &str| directory.join(file).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("disk"), mode("disk.json"), mode(".bundle.json")), (0o755, 0o644, 0o644));
    assert_eq!(remove_bundle(&installed).unwrap(), Vec::<String>::new());
    assert!(!directory.exists());
    assert!(find_installed(&ddls, &name("disk")).unwrap().is_none());
}

#[test]
fn locally_changed_files_are_not_overwritten() {
    let scratch = tempfile::tempdir().unwrap();
    let (source, ddls) = (scratch.path().join("source"), scratch.path().join("ddl"));
    write_agent(&source, "1.0.0");
    fs::create_dir(&ddls).unwrap();
    install(&source, &ddls, false).unwrap();
    let directory = bundle_directory(&ddls, &name("disk"));
    fs::write(directory.join("disk"), "#!/bin/ls\n").unwrap();
    fs::write(directory.join("notes"), "").unwrap();
    let installed = find_installed(&ddls, &name("disk")).unwrap().unwrap();
    assert_eq!(changed_files(&installed).unwrap(), ["disk was changed"]);
    let Err(BundleFileError::Changed(_, files)) = install(&source, &ddls, true) else {
        panic!("the changes were overwritten");
    };
    assert_eq!(files, ["disk was changed", "notes was added"]);
    assert_eq!(remove_bundle(&installed).unwrap(), ["notes"]);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
}

#[test]
fn agent_without_its_program_cannot_be_packed() {
    let scratch = tempfile::tempdir().unwrap();
    write_agent(scratch.path(), "1.0.0");
    fs::set_permissions(scratch.path().join("disk"), Permissions::from_mode(0o644)).unwrap();
    let refused = install(scratch.path(), scratch.path(), false).unwrap_err();
    assert!(matches!(&refused, BundleFileError::NoProgram(program) if program == "disk"));
    write_agent(scratch.path(), "one");
    let refused = install(scratch.path(), scratch.path(), false).unwrap_err();
    assert!(matches!(refused, BundleFileError::Version(..)), "{refused}");
}
