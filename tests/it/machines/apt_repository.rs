//! A local apt repository with our packages, as a directory that all machines of a fleet have.

#![expect(clippy::disallowed_types, reason = "runs dpkg-scanpackages")]

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::fleet::MachineFleet;
use super::nodes::build_packages;

/// The repositories of several versions: `/srv/apt/VERSION` on the machines.
#[derive(Debug)]
pub(crate) struct AptRepository(TempDir);

impl AptRepository {
    /// Makes a repository for each of these versions.
    pub(crate) fn with_versions(versions: &[&str]) -> Self {
        let layer = TempDir::new().unwrap();
        for version in versions {
            let directory = layer.path().join("srv/apt").join(version);
            std::fs::create_dir_all(&directory).unwrap();
            for entry in std::fs::read_dir(build_packages(version)).unwrap() {
                let package = entry.unwrap().path();
                if package.extension().is_some_and(|extension| extension == "deb") {
                    std::fs::copy(&package, directory.join(package.file_name().unwrap())).unwrap();
                }
            }
            write_index(&directory);
        }
        Self(layer)
    }

    /// The directory to boot the machines with.
    pub(crate) fn layer(&self) -> PathBuf {
        self.0.path().to_owned()
    }
}

pub(crate) fn write_index(directory: &Path) {
    let output =
        Command::new("dpkg-scanpackages").args(["-m", "."]).current_dir(directory).output();
    let output =
        output.unwrap_or_else(|error| panic!("dpkg-scanpackages (apt install dpkg-dev): {error}"));
    assert!(output.status.success(), "{output:?}");
    std::fs::write(directory.join("Packages"), output.stdout).unwrap();
}

/// Makes a version the machine's only source of packages.
pub(crate) async fn use_version(machines: &MachineFleet, machine: &str, version: &str) {
    let script = format!(
        "echo 'deb [trusted=yes] file:/srv/apt/{version} ./' >/etc/apt/sources.list && apt-get -q update"
    );
    machines.sh(machine, &script).await;
}

/// A script for a machine: makes the packages in `/srv/repository` the only source of packages.
pub(crate) const USE_OWN_PACKAGES: &str = r#"
cd /srv/repository
for file in *.deb; do
  dpkg-deb -f $file; echo "Filename: ./$file"; echo "Size: $(stat -c %s $file)"; echo "SHA256: $(sha256sum $file | cut -d' ' -f1)"; echo
done >Packages
echo 'deb [trusted=yes] file:/srv/repository ./' >/etc/apt/sources.list
apt-get -q update >/dev/null
"#;

/// The script that installs or upgrades the package of a node.
pub(crate) const INSTALL_NODE: &str =
    "DEBIAN_FRONTEND=noninteractive apt-get -q -y install muster-node";
