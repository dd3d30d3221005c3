//! The signed repository for apt on a booted machine: apt installs from it, and refuses it with another key or after a change.

use muster_tests::command::describe_output;
use tempfile::TempDir;

use crate::machines::apt_repository::INSTALL_NODE;
use crate::machines::fleet::{MachineFleet, MachineLayers};
use crate::machines::nodes::build_packages;
use crate::repository::make_repository;

/// A script that makes the repository in a directory the only source of packages, and reads its index.
fn use_repository(key: &str, repository: &str) -> String {
    format!(
        "rm -rf /var/lib/apt/lists/* && echo 'deb [signed-by={key}] file:{repository}/apt stable main' >/etc/apt/sources.list && apt-get -q update"
    )
}

/// Runs a script that must fail with this text.
async fn expect_failure(machines: &MachineFleet, script: &str, expected: &str) {
    let output = machines.run("m1", script).await;
    let text = describe_output(&output);
    assert!(!output.status.success() && text.contains(expected), "{script}: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn apt_installs_from_the_signed_repository_only() {
    const KEY: &str = "/srv/dist/repository/muster.asc";
    const OTHER_KEY: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let layer = TempDir::new().unwrap();
    let dist = layer.path().join("srv/dist");
    std::fs::create_dir_all(&dist).unwrap();
    for entry in std::fs::read_dir(build_packages("0.1.0")).unwrap() {
        let package = entry.unwrap().path();
        std::fs::copy(&package, dist.join(package.file_name().unwrap())).unwrap();
    }
    make_repository(&dist);
    let layers =
        MachineLayers { directories: vec![layer.path().to_owned()], ..MachineLayers::default() };
    let Some(machines) = MachineFleet::boot(1, &layers).await else { return };

    expect_failure(&machines, &use_repository(OTHER_KEY, "/srv/dist/repository"), "NO_PUBKEY")
        .await;
    machines.sh("m1", &use_repository(KEY, "/srv/dist/repository")).await;
    machines.sh("m1", INSTALL_NODE).await;
    let version = machines.sh("m1", "dpkg-query -W -f '${Version}' muster-node").await;
    assert_eq!((&*version, &*machines.sh("m1", "rpcd --version").await), ("0.1.0", "rpcd 0.1.0"));

    let change = "cp -r /srv/dist/repository /srv/changed && printf x >>/srv/changed/apt/pool/muster_0.1.0_amd64.deb";
    machines.sh("m1", change).await;
    machines.sh("m1", &use_repository(KEY, "/srv/changed")).await;
    let install = "DEBIAN_FRONTEND=noninteractive apt-get -q -y install muster";
    expect_failure(&machines, install, "Hash Sum mismatch").await;
    let change = "cd /srv/changed/apt/dists/stable/main/binary-amd64 && for file in Packages*; do printf x >>$file; done";
    machines.sh("m1", change).await;
    expect_failure(&machines, &use_repository(KEY, "/srv/changed"), "Hash Sum mismatch").await;
}
