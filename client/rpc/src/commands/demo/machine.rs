//! The scratch root of a demonstration node: a small machine with accounts, one service, packages and a catalog.
//!
//! `/usr/local` holds the node's own programs, all other programs are those of the host. The services, and what packages install, stay below
//! the root.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use muster_files::files::{FileAccessError, file_error};

use crate::commands::demo::fleet::DemoNode;

/// Permissions of programs, other files, secrets, and directories.
const PROGRAM_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;
const SECRET_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o755;

/// Path of the catalog on the node, for the agent `puppet`.
pub const CATALOG_PATH: &str = "/etc/puppet/catalog.toml";

/// Files that are equal on all nodes. The only user is root, as on a fresh machine.
const COMMON_FILES: [(&str, u32, &str); 8] = [
    ("etc/passwd", FILE_MODE, "root:x:0:0:root:/root:/bin/bash\n"),
    ("etc/group", FILE_MODE, "root:x:0:\n"),
    ("etc/shadow", SECRET_MODE, "root:*:19000:0:99999:7:::\n"),
    ("etc/gshadow", SECRET_MODE, "root:*::\n"),
    ("etc/hosts", FILE_MODE, "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"),
    ("etc/aliases", FILE_MODE, "postmaster: root\n"),
    ("etc/shells", FILE_MODE, "/bin/sh\n/bin/bash\n"),
    ("etc/login.defs", FILE_MODE, "UID_MIN 1000\nUID_MAX 60000\nGID_MIN 1000\nGID_MAX 60000\n"),
];

const DIRECTORIES: [&str; 23] = [
    "etc/cron.d",
    "etc/init.d",
    "etc/muster/checks.d",
    "etc/muster/motd.d",
    "etc/muster/prompt.d",
    "etc/nagios",
    "etc/puppet",
    "etc/skel",
    "home",
    "root",
    "run",
    "run/motd.d",
    "srv/packages",
    "tmp",
    "usr/local/bin",
    "usr/local/lib",
    "usr/local/sbin",
    "var/cache/puppet/state",
    "var/lib/dpkg",
    "var/lib/muster",
    "var/log",
    "var/spool/cron/crontabs",
    "var/tmp",
];

/// The package tools, which are one script, and the files of services.
const PACKAGE_SCRIPT: &str = include_str!("machine/packages.sh");
const PACKAGE_TOOLS: [&str; 4] = ["apt-cache", "apt-get", "apt-mark", "dpkg-query"];
const INIT_SCRIPT: &str = include_str!("machine/service.sh");
const SERVICE_SCRIPT: &str = include_str!("machine/daemon.sh");
const CHECK_SCRIPT: &str = include_str!("machine/check_service.sh");
const CHECK_SCHEDULE: &str = include_str!("machine/checks.toml");
/// The first line of the message of the day.
const MOTD_HEADER: &str = "{{ facts.customer }} {{ facts.environment }}: {{ identity }}\n";
const TREE_SCRIPT: &str = include_str!("machine/tree.sh");
const CATALOG: &str = include_str!("machine/catalog.toml");

/// Versions of the package `tree`, which no node has installed.
const TREE_VERSIONS: [&str; 2] = ["2.0.4-1", "2.1.1-1"];

pub fn make_scratch_root(root: &Path, node: &DemoNode) -> Result<(), FileAccessError> {
    for directory in DIRECTORIES {
        create_directory(&root.join(directory))?;
    }
    for (path, mode, text) in COMMON_FILES {
        write_file(&root.join(path), mode, text)?;
    }
    write_file(&root.join("etc/hostname"), FILE_MODE, &format!("{}\n", node.name))?;
    make_service(root, node.service)?;
    make_packages(root, node)
}

/// The service: its program and init script, the catalog that manages it, its check, and its line in the message of the day.
fn make_service(root: &Path, service: &str) -> Result<(), FileAccessError> {
    let own_text = |text: &str| text.replace("@SERVICE@", service);
    let files = [
        (format!("usr/local/sbin/{service}"), PROGRAM_MODE, SERVICE_SCRIPT.to_owned()),
        (format!("etc/init.d/{service}"), PROGRAM_MODE, INIT_SCRIPT.to_owned()),
        ("usr/local/lib/check_service".to_owned(), PROGRAM_MODE, CHECK_SCRIPT.to_owned()),
        (
            "etc/nagios/nrpe.cfg".to_owned(),
            FILE_MODE,
            format!("command[check_service]=/usr/local/lib/check_service {service}\n"),
        ),
        ("etc/muster/checks.d/demo.toml".to_owned(), FILE_MODE, CHECK_SCHEDULE.to_owned()),
        ("etc/muster/motd.d/01_header".to_owned(), FILE_MODE, MOTD_HEADER.to_owned()),
        // The text of an empty fragment is its name.
        (format!("etc/muster/motd.d/20_Service {service}"), FILE_MODE, String::new()),
        (format!("etc/muster/prompt.d/10_{service}"), FILE_MODE, String::new()),
        (format!("etc/{service}.conf"), FILE_MODE, "workers = 2\n".to_owned()),
        (CATALOG_PATH.trim_start_matches('/').to_owned(), FILE_MODE, own_text(CATALOG)),
    ];
    let mut files = files.iter();
    files.try_for_each(|(path, mode, text)| write_file(&root.join(path), *mode, text))
}

/// The package tools, a repository, and a database in which the package of the service is installed in an old version.
fn make_packages(root: &Path, node: &DemoNode) -> Result<(), FileAccessError> {
    for tool in PACKAGE_TOOLS {
        write_file(&root.join("usr/local/bin").join(tool), PROGRAM_MODE, PACKAGE_SCRIPT)?;
    }
    let repository = root.join("srv/packages");
    for version in TREE_VERSIONS {
        let directory = repository.join("tree").join(version).join("usr/local/bin");
        create_directory(&directory)?;
        let script = TREE_SCRIPT.replace("@VERSION@", version);
        write_file(&directory.join("tree"), PROGRAM_MODE, &script)?;
    }
    let package = &node.package;
    for version in package.versions {
        let documents = format!("usr/local/share/doc/{}", package.name);
        let directory = repository.join(package.name).join(version).join(documents);
        create_directory(&directory)?;
        let text = format!("{} {version}\n", package.name);
        write_file(&directory.join("version"), FILE_MODE, &text)?;
    }
    let (name, [installed, _]) = (package.name, package.versions);
    let status = format!(
        "Package: {name}\nStatus: install ok installed\nVersion: {installed}\nArchitecture: all\n\n"
    );
    write_file(&root.join("var/lib/dpkg/status"), FILE_MODE, &status)
}

fn create_directory(path: &Path) -> Result<(), FileAccessError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(path)
        .map_err(file_error("create", path))
}

/// Writes a new file. It is not synced: a demonstration that did not start completely is removed and created again.
fn write_file(path: &Path, mode: u32, text: &str) -> Result<(), FileAccessError> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(mode).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(file_error("write", path))
}

#[cfg(test)]
mod tests {
    use super::make_scratch_root;
    use crate::commands::demo::fleet::demo_nodes;

    #[test]
    fn every_node_has_its_service_its_packages_and_its_catalog() {
        for node in demo_nodes(5).unwrap() {
            let scratch = tempfile::tempdir().unwrap();
            make_scratch_root(scratch.path(), &node).unwrap();
            let text = |path: &str| std::fs::read_to_string(scratch.path().join(path)).unwrap();
            assert!(
                text("etc/puppet/catalog.toml").contains(&format!("Service[{}]", node.service))
            );
            assert!(text("var/lib/dpkg/status").contains(node.package.name));
            assert!(!text(&format!("etc/init.d/{}", node.service)).is_empty());
            assert!(text("srv/packages/tree/2.1.1-1/usr/local/bin/tree").contains("2.1.1-1"));
        }
    }
}
