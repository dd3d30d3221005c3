//! A small file system of its own, for tests with a full or failing disk: a tmpfs in a mount namespace, so that nothing of the machine changes.

#![expect(clippy::disallowed_types, reason = "a separate file system needs programs")]

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::await_state;

/// Mounts a small file system, creates a marker file, and stays: processes that enter its namespace see the file
/// system.
const MOUNT_SCRIPT: &str = r#"mount -t tmpfs -o size="$2"k,nr_inodes="$3" tmpfs "$1" && : > "$1/there" && exec sleep 1000"#;

/// A file system that is visible only in the namespace of its holder.
#[derive(Debug)]
pub struct SmallDisk {
    holder: Child,
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts a file system of this size on a directory, which is created.
    pub async fn new(path: PathBuf, kib: u32) -> Self {
        Self::with_inodes(path, kib, 0).await
    }

    /// The same, for this number of files and directories; 0 is no limit.
    pub async fn with_inodes(path: PathBuf, kib: u32, inodes: u32) -> Self {
        std::fs::create_dir_all(&path).unwrap();
        let mut unshare = Command::new("unshare");
        unshare.arg("--mount");
        if !nix::unistd::geteuid().is_root() {
            unshare.arg("--map-root-user");
        }
        let holder = unshare
            .args(["sh", "-c", MOUNT_SCRIPT, "sh"])
            .arg(&path)
            .args([kib.to_string(), inodes.to_string()])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let disk = Self { holder, path };
        await_state("the small file system is mounted", || {
            disk.path_from_outside("there").exists()
        })
        .await;
        disk
    }

    /// The path of a file on it, for processes outside the namespace.
    pub fn path_from_outside(&self, name: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        let path = self.path.strip_prefix("/").unwrap();
        root.join(path).join(name)
    }

    /// A command that runs a program inside the namespace.
    pub fn command_inside(&self, program: PathBuf) -> Vec<std::ffi::OsString> {
        let pid = self.holder.id().to_string();
        let mut arguments = vec!["nsenter", "--target", &pid, "--mount"];
        if !nix::unistd::geteuid().is_root() {
            arguments.extend(["--user", "--preserve-credentials"]);
        }
        let mut arguments: Vec<_> = arguments.into_iter().map(std::ffi::OsString::from).collect();
        arguments.push(program.into());
        arguments
    }

    /// Fills all remaining space.
    pub fn fill(&self) {
        let mut filler = File::options()
            .create(true)
            .append(true)
            .open(self.path_from_outside("filler"))
            .unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
        while filler.write_all(&[0]).is_ok() {}
    }

    /// Creates empty files until there is no inode.
    pub fn fill_inodes(&self) {
        let create = |number: u32| File::create(self.path_from_outside(&format!("empty{number}")));
        let created = (0..u32::MAX).take_while(|number| create(*number).is_ok()).count();
        assert!(created > 0, "there was no inode before");
    }

    /// Remounts the file system read-only, as the kernel does after errors: nothing can be written any more.
    pub fn make_read_only(&self) {
        let arguments = self.command_inside("mount".into());
        let [first, rest @ ..] = arguments.as_slice() else {
            panic!("no command");
        };
        let done = Command::new(first)
            .args(rest)
            .args(["-o", "remount,ro"])
            .arg(&self.path)
            .status()
            .unwrap();
        assert!(done.success(), "{done}");
    }

    /// Removes what [`Self::fill`] wrote.
    pub fn free_space(&self) {
        std::fs::remove_file(self.path_from_outside("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
