//! A power failure of the broker: what its file system had not written to the disk is lost. With `sync_interval: always`, which the generated configuration
//! has, that is nothing that was confirmed; with nats-server's default it is.
//!
//! The store is a file system in a file. A copy of the file at the moment of the last confirmation is the disk at a power failure: data in the
//! kernel's cache of the file system is not in it. Needs root.

#![expect(clippy::disallowed_types, reason = "a separate file system needs programs")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect};
use muster_wire::stores::{PERMITS_BUCKET, TRUST_BUCKET};
use tempfile::TempDir;

const DISK_BYTES: u64 = 128 * 1024 * 1024;
/// Confirmed writes to each bucket.
const WRITES: usize = 50;

/// A file system in a file, mounted below a directory.
struct MountedDisk {
    image: PathBuf,
    mount_point: PathBuf,
}

impl MountedDisk {
    fn create(directory: &Path) -> Self {
        let image = directory.join("disk");
        fs::File::create(&image).unwrap().set_len(DISK_BYTES).unwrap();
        run("mkfs.ext4", &["-q", image.to_str().unwrap()]);
        Self::mount(image, directory.join("store"))
    }

    fn mount(image: PathBuf, mount_point: PathBuf) -> Self {
        fs::create_dir_all(&mount_point).unwrap();
        run("mount", &["-o", "loop", image.to_str().unwrap(), mount_point.to_str().unwrap()]);
        Self { image, mount_point }
    }

    /// The disk as it is now, without what is only in the cache.
    fn copy(&self, name: &str) -> PathBuf {
        let copy = self.image.with_file_name(name);
        fs::copy(&self.image, &copy).unwrap();
        copy
    }
}

impl Drop for MountedDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.mount_point).status();
    }
}

fn run(program: &str, arguments: &[&str]) {
    let path = "/usr/sbin:/usr/bin:/sbin:/bin";
    let output = Command::new(program).args(arguments).env("PATH", path).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?} (needs root): {error}");
}

/// Writes to a broker with this setting, cuts its power, and returns the number of confirmed values that are lost.
async fn count_lost_values(sync_interval: &str) -> usize {
    let scratch = TempDir::new().unwrap();
    let organisation = Organisation::new(&["muster"]);
    let configuration = |directory: &Path| {
        format!(
            "{}jetstream: {{ store_dir: \"{}\", max_file: 6GB, sync_interval: {sync_interval} }}\n",
            organisation.broker_configuration(),
            directory.display()
        )
    };
    let disk = MountedDisk::create(scratch.path());
    let mut server = NatsServer::start(&configuration(&disk.mount_point)).await;
    organisation.declare_stores(&server, 1).await;
    // What was stored until now is on the disk with any setting.
    run("sync", &["-f", disk.mount_point.to_str().unwrap()]);
    let bus = connect(&server, &organisation.administrator()).await;
    let buckets = [PERMITS_BUCKET.name, TRUST_BUCKET.name];
    let key = |number: usize| format!("key.{number}");
    for number in 0..WRITES {
        for bucket in buckets {
            bus.bucket(bucket).put(&key(number), number.to_string().into()).await.unwrap();
        }
    }
    let image = disk.copy("after-power-failure");
    server.kill();
    drop(disk);

    let disk = MountedDisk::mount(image, scratch.path().join("again"));
    let server = NatsServer::start(&configuration(&disk.mount_point)).await;
    let bus = connect(&server, &organisation.administrator()).await;
    let mut lost = 0;
    for number in 0..WRITES {
        for bucket in buckets {
            let entry = bus.bucket(bucket).get(&key(number)).await.unwrap();
            let value = entry.and_then(|entry| entry.value);
            lost += usize::from(value.as_deref() != Some(number.to_string().as_bytes()));
        }
    }
    lost
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_failure_of_the_broker_loses_no_confirmed_write_if_it_syncs_always() {
    assert_eq!(count_lost_values("always").await, 0);
    // The test can see a loss.
    assert!(count_lost_values("\"2m\"").await > 0);
}
