//! The signed repositories that `tools/repository` makes. apt on a booted machine installs from one in [`crate::long::machines`].

#![expect(clippy::disallowed_types, reason = "runs tools/repository and gpg")]

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::packages::{project_root, run_command};

/// Makes the repositories of the packages in this directory, signed by a new key that is given as a file.
pub(crate) fn make_repository(dist: &Path) {
    let home = TempDir::new().unwrap();
    let gpg = |arguments: &[&str]| {
        let mut command = Command::new("gpg");
        command.args(["--batch", "--quiet", "--homedir"]).arg(home.path()).args(arguments);
        run_command(&mut command)
    };
    gpg(&["--passphrase", "", "--quick-gen-key", "Muster test", "rsa2048", "sign", "never"]);
    let key = home.path().join("key.asc");
    std::fs::write(&key, gpg(&["--armor", "--export-secret-keys"])).unwrap();
    run_command(Command::new("gpgconf").arg("--homedir").arg(home.path()).args(["--kill", "all"]));
    let mut tool = Command::new(project_root().join("tools/repository"));
    run_command(tool.arg(&key).arg(dist));
}

/// Run by `make test-all`.
mod long {
    use std::path::Path;
    use std::process::{Command, Output};

    use tempfile::TempDir;

    use super::make_repository;
    use crate::packages::{lacks, make_packages, project_root, run_command};

    fn verify_signature(keys: &Path, files: &[&Path]) {
        run_command(Command::new("gpgv").arg("--keyring").arg(keys).args(files));
    }

    fn run_tool(key: &str, dist: &Path) -> Output {
        let mut command = Command::new(project_root().join("tools/repository"));
        command.arg(key).arg(dist).output().unwrap()
    }

    #[test]
    fn repositories_are_signed_for_apt_and_dnf() {
        if lacks("dpkg-deb") || lacks("rpmbuild") || lacks("createrepo_c") {
            return;
        }
        let (dist, scratch) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let dist = dist.path();
        make_packages(&["deb", "rpm"], "0.1.0", dist, &["muster-broker"]);
        make_repository(dist);
        let repository = dist.join("repository");
        let keys = scratch.path().join("keys.gpg");
        let public = repository.join("muster.asc");
        let mut dearmor = Command::new("gpg");
        dearmor.arg("--homedir").arg(scratch.path()).arg("--output").arg(&keys);
        run_command(dearmor.arg("--dearmor").arg(&public));

        let suite = repository.join("apt/dists/stable");
        verify_signature(&keys, &[&suite.join("InRelease")]);
        verify_signature(&keys, &[&suite.join("Release.gpg"), &suite.join("Release")]);
        let index = std::fs::read_to_string(suite.join("main/binary-amd64/Packages")).unwrap();
        let file = "Filename: pool/muster-broker_0.1.0_all.deb\n";
        assert!(index.contains(file) && index.contains("\nSHA256: "), "{index}");

        let metadata = repository.join("rpm/repodata/repomd.xml");
        verify_signature(&keys, &[&metadata.with_extension("xml.asc"), &metadata]);
        let rpmkeys = || {
            let mut command = Command::new("rpmkeys");
            command.arg("--dbpath").arg(scratch.path().join("rpm"));
            command
        };
        run_command(rpmkeys().arg("--import").arg(&public));
        let package = repository.join("rpm/packages/muster-broker-0.1.0-1.noarch.rpm");
        let checked = run_command(rpmkeys().arg("--checksig").arg(&package));
        assert!(checked.ends_with(": digests signatures OK\n"), "{checked}");
    }

    #[test]
    fn repository_needs_a_secret_key_and_the_packages_of_the_release() {
        if lacks("createrepo_c") {
            return;
        }
        let dist = TempDir::new().unwrap();
        let dist = dist.path();
        let run = |key: &str| {
            let output = run_tool(key, dist);
            assert_eq!(output.status.code(), Some(1));
            String::from_utf8(output.stderr).unwrap()
        };
        let text = run("no-such-key@example.net");
        assert!(text.contains("gpg has no secret key no-such-key@example.net"), "{text}");
        let text = run(project_root().join("LICENSE").to_str().unwrap());
        assert!(text.contains("is not a file with a key of gpg"), "{text}");
        assert!(!dist.join("repository").exists());
    }
}
