//! `packaging/install.sh`: installs the tarball of a release, upgrades and removes it, and changes nothing if something fails.
//!
//! Services on a machine with systemd are tested in [`crate::long::machines`].

#![expect(clippy::disallowed_types, reason = "runs the script, tar and a web server")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use muster_tests::command::describe_output;
use muster_tests::nats_server::find_binary;
use tempfile::TempDir;

use crate::packages::{is_root, lacks, package_command, project_root, run_command, walk};

/// Lines of the role and of its list of files, and the content of each file.
type SmallRelease<'a> = &'a [(&'a str, &'a str, &'a str)];

/// The client of a release that works.
const CLIENT: (&str, &str, &str) =
    ("client", "file 0755 /usr/bin/rpc", "#!/bin/sh\necho rpc 0.1.0\n");

/// Writes what the script needs: a tarball with the programs of the tests and nats-server, the sums, and the script.
pub(crate) fn write_release(directory: &Path) {
    let server = TempDir::new().unwrap();
    fs::copy(find_binary(), server.path().join("nats-server")).unwrap();
    fs::write(server.path().join("LICENSE"), "the licence of the server\n").unwrap();
    let mut command = package_command(&["tarball"], "0.1.0", directory, &[]);
    run_command(command.arg("--nats-server").arg(server.path()));
    complete_release(directory);
}

/// Adds the script and the sums to a directory with a tarball.
fn complete_release(directory: &Path) {
    let script = project_root().join("packaging/install.sh");
    fs::copy(script, directory.join("install.sh")).unwrap();
    let sums = ["-c", "sha256sum muster_* >SHA256SUMS"];
    run_command(Command::new("sh").args(sums).current_dir(directory));
}

/// A release whose programs are scripts.
fn write_small_release(version: &str, files: SmallRelease) -> TempDir {
    let directory = TempDir::new().unwrap();
    let machine = run_command(Command::new("uname").arg("-m"));
    let name = format!("muster_{version}_{}", machine.trim());
    let mut lists: BTreeMap<&str, String> = BTreeMap::new();
    for &(role, line, content) in files {
        let list = lists.entry(role).or_default();
        list.push_str(line);
        list.push('\n');
        let path = line.rsplit(' ').next().unwrap().trim_start_matches('/');
        let file = directory.path().join(&name).join(role).join("root").join(path);
        if line.starts_with("directory") {
            fs::create_dir_all(&file).unwrap();
        } else {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, content).unwrap();
        }
    }
    for (role, list) in lists {
        fs::write(directory.path().join(&name).join(role).join("FILES"), list).unwrap();
    }
    let mut tar = Command::new("tar");
    tar.arg("-czf").arg(format!("{name}.tar.gz")).arg(&name).current_dir(directory.path());
    run_command(&mut tar);
    fs::remove_dir_all(directory.path().join(&name)).unwrap();
    complete_release(directory.path());
    directory
}

/// Runs the script of a release with a root directory of its own.
fn run_script(release: &Path, root: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.arg(release.join("install.sh")).args(arguments).env("DESTDIR", root);
    command.env_remove("MUSTER_FROM").output().unwrap()
}

/// Runs the script, which must succeed; returns what it printed.
fn install_release(release: &Path, root: &Path, arguments: &[&str]) -> String {
    let output = run_script(release, root, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", describe_output(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The content of all files below a directory.
fn read_files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let content = |path: PathBuf| {
        let data = fs::read(&path).unwrap();
        (path, data)
    };
    walk(root).into_iter().map(content).collect()
}

/// The paths below a directory, sorted.
fn list_paths(root: &Path) -> Vec<String> {
    let mut paths: Vec<String> = walk(root)
        .iter()
        .map(|path| path.strip_prefix(root).unwrap().display().to_string())
        .collect();
    paths.sort();
    paths
}

#[test]
fn tarball_has_the_files_of_the_packages() {
    let (release, root) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    write_release(release.path());
    let root = root.path();
    install_release(release.path(), root, &["--role", "client", "--role", "node", "--role=broker"]);
    let local = root.join("usr/local");
    let version = |program: &str| run_command(Command::new(local.join(program)).arg("--version"));
    assert_eq!(version("bin/rpc"), format!("rpc {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(version("sbin/rpcd"), format!("rpcd {}\n", env!("CARGO_PKG_VERSION")));
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    assert!(read("etc/systemd/system/rpcd.service").contains("\nExecStart=/usr/local/sbin/rpcd\n"));
    let broker = read("etc/systemd/system/muster-broker.service");
    assert!(broker.contains("\nExecStart=/usr/local/bin/nats-server --config "), "{broker}");
    assert_eq!(read("usr/local/share/doc/nats-server/LICENSE"), "the licence of the server\n");
    for path in [
        "etc/muster/conf.d/10-package.toml",
        "etc/muster/policies",
        "usr/local/share/bash-completion/completions/rpc",
        "usr/local/share/doc/muster-node/examples/policies/default.policy",
        "usr/local/share/man/man1/rpc.1.gz",
        "usr/local/share/man/man8/rpcd.8.gz",
    ] {
        assert!(root.join(path).exists(), "no {path}");
    }
    let mode = |path: &str| root.join(path).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("etc/muster-broker"), mode("var/log/muster")), (0o750, 0o750));
    for (path, data) in read_files(root) {
        let is_text = data.len() < 100_000;
        let text = String::from_utf8_lossy(&data);
        assert!(!is_text || !text.contains("/usr/sbin/rpcd"), "{}", path.display());
    }
    install_release(release.path(), root, &["--uninstall"]);
    let kept = ["etc/logrotate.d/muster-node", "etc/muster/conf.d/10-package.toml"];
    assert_eq!(list_paths(root), kept);
}

#[test]
fn second_installation_replaces_files_and_keeps_configuration() {
    let config = "config 0644 /etc/muster/conf.d/a.toml";
    let old = write_small_release(
        "0.1.0",
        &[
            CLIENT,
            ("client", "file 0644 /usr/share/doc/muster/old", "old\n"),
            ("node", config, "a = 1\n"),
            ("node", "directory 0750 /var/log/muster", ""),
            ("node", "template 0644 /usr/lib/systemd/system/rpcd.service", "/usr/sbin/rpcd\n"),
        ],
    );
    let new = write_small_release(
        "0.2.0",
        &[
            ("client", "file 0755 /usr/bin/rpc", "#!/bin/sh\necho rpc 0.2.0\n"),
            ("node", config, "a = 2\n"),
            ("node", "template 0644 /usr/lib/systemd/system/rpcd.service", "/usr/sbin/rpcd\n"),
        ],
    );
    let root = TempDir::new().unwrap();
    let root = root.path();
    let roles = ["--role", "client", "--role", "node", "--prefix", "/opt/muster"];
    install_release(old.path(), root, &roles);
    fs::write(root.join("etc/muster/conf.d/a.toml"), "a = 3\n").unwrap();
    fs::write(root.join("etc/muster/rpcd.toml"), "identity = \"a\"\n").unwrap();
    let printed = install_release(new.path(), root, &roles);
    let kept = "/etc/muster/conf.d/a.toml is kept; that of this release is different";
    assert!(printed.contains(kept) && printed.contains("client 0.2.0 is installed"), "{printed}");
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    assert_eq!(read("etc/muster/conf.d/a.toml"), "a = 3\n");
    assert_eq!(read("etc/muster/rpcd.toml"), "identity = \"a\"\n");
    assert_eq!(read("etc/systemd/system/rpcd.service"), "/opt/muster/sbin/rpcd\n");
    assert_eq!(run_command(&mut Command::new(root.join("opt/muster/bin/rpc"))), "rpc 0.2.0\n");
    assert!(!root.join("opt/muster/share/doc").join("muster/old").exists());

    let before = read_files(root);
    let printed = install_release(new.path(), root, &roles);
    assert!(printed.contains("client 0.2.0 is installed already"), "{printed}");
    assert!(before == read_files(root), "a repeated installation changed files");

    // The last role that is removed removes the directories that were created and are empty.
    install_release(
        new.path(),
        root,
        &["--uninstall", "--role", "client", "--prefix", "/opt/muster"],
    );
    assert!(root.join("etc/systemd/system/rpcd.service").exists());
    let printed = install_release(new.path(), root, &["--uninstall", "--prefix", "/opt/muster"]);
    assert!(printed.contains("/etc/muster is kept"), "{printed}");
    assert_eq!(list_paths(root), ["etc/muster/conf.d/a.toml", "etc/muster/rpcd.toml"]);
    assert!(!root.join("opt").exists() && !root.join("var").exists());
}

/// A release that is installed, and what is broken before the next installation.
struct BrokenInstallation {
    message: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    damage: fn(&Path, &Path),
}

#[test]
fn failed_installation_changes_nothing() {
    const WORKS: &str = "#!/bin/sh\necho rpc 0.2.0\n";
    let cases = [
        BrokenInstallation {
            message: "has the SHA-256 sum",
            program: WORKS,
            arguments: &[],
            damage: |release, _| {
                let append = "for file in muster_*; do echo >>\"$file\"; done";
                run_command(Command::new("sh").args(["-c", append]).current_dir(release));
            },
        },
        BrokenInstallation {
            message: "rpc does not start on this machine: no such version",
            program: "#!/bin/sh\necho no such version\nexit 1\n",
            arguments: &[],
            damage: |_, _| (),
        },
        BrokenInstallation {
            message: "/usr/local/share/other exists, and was not installed by this script",
            program: WORKS,
            arguments: &[],
            damage: |_, root| fs::write(root.join("usr/local/share/other"), "mine\n").unwrap(),
        },
        BrokenInstallation {
            message: "rpcd.service was installed by a package or by make install",
            program: WORKS,
            arguments: &["--role", "client", "--role", "node"],
            damage: |_, root| {
                fs::create_dir_all(root.join("usr/lib/systemd/system")).unwrap();
                fs::write(root.join("usr/lib/systemd/system/rpcd.service"), "").unwrap();
            },
        },
        BrokenInstallation {
            message: "/SHA256SUMS lists no tarball for",
            program: WORKS,
            arguments: &[],
            damage: |release, _| fs::write(release.join("SHA256SUMS"), "").unwrap(),
        },
    ];
    for case in cases {
        let first = write_small_release("0.1.0", &[CLIENT]);
        let root = TempDir::new().unwrap();
        let root = root.path();
        install_release(first.path(), root, &[]);
        let second = write_small_release(
            "0.2.0",
            &[
                ("client", "file 0755 /usr/bin/rpc", case.program),
                ("client", "file 0644 /usr/share/muster/new", "new\n"),
                ("client", "file 0644 /usr/share/other", "other\n"),
                ("node", "directory 0755 /etc/muster", ""),
            ],
        );
        (case.damage)(second.path(), root);
        let before = read_files(root);
        let output = run_script(second.path(), root, case.arguments);
        let text = describe_output(&output);
        assert_eq!(output.status.code(), Some(1), "{}: {text}", case.message);
        assert!(text.contains(case.message), "{}: {text}", case.message);
        assert!(before == read_files(root), "{}: files changed", case.message);
        assert!(!root.join("etc/muster").exists(), "{}", case.message);
    }
}

/// A web server with the files of a release.
#[derive(Debug)]
struct ReleaseServer {
    child: Child,
    url: String,
}

impl ReleaseServer {
    fn start(directory: &Path) -> Self {
        let mut command = Command::new("python3");
        command.args(["-u", "-m", "http.server", "--bind", "127.0.0.1", "0", "--directory"]);
        command.arg(directory).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.split(" port ").nth(1).unwrap_or_else(|| panic!("{line}"));
        let port = port.split(' ').next().unwrap().to_owned();
        Self { child, url: format!("http://127.0.0.1:{port}") }
    }
}

impl Drop for ReleaseServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The script, piped to a shell of a user without privileges whose home directory is this one.
fn pipe_script(release: &Path, home: &Path, from: Option<&str>, arguments: &[&str]) -> Output {
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh"]);
        command
    } else {
        Command::new("sh")
    };
    let script = fs::File::open(release.join("install.sh")).unwrap();
    command.args(["-s", "--"]).args(arguments).stdin(script).current_dir("/");
    command.env("HOME", home).env_remove("DESTDIR").env_remove("MUSTER_FROM");
    command.envs(from.map(|from| ("MUSTER_FROM", from))).output().unwrap()
}

#[test]
fn user_installs_the_client_from_a_web_server() {
    if lacks("curl") {
        return;
    }
    let release = write_small_release("0.1.0", &[CLIENT]);
    let home = TempDir::new().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let server = ReleaseServer::start(release.path());
    let run = |from: Option<&str>, arguments: &[&str]| {
        let output = pipe_script(release.path(), home.path(), from, arguments);
        (output.status.code(), describe_output(&output))
    };
    let (code, text) = run(None, &[]);
    assert!(code == Some(1) && text.contains("set MUSTER_FROM to the directory"), "{text}");
    let (code, text) = run(Some(&format!("{}/nosuch", server.url)), &[]);
    assert!(code == Some(1) && text.contains("/nosuch/SHA256SUMS; check MUSTER_FROM"), "{text}");
    let (code, text) = run(Some(&server.url), &["--role", "node"]);
    assert!(code == Some(1) && text.contains("node and broker need root"), "{text}");
    assert_eq!(list_paths(home.path()), Vec::<String>::new());

    let (code, text) = run(Some(&server.url), &[]);
    assert!(code == Some(0) && text.contains("is not protected"), "{text}");
    let rpc = home.path().join(".local/bin/rpc");
    assert_eq!(run_command(&mut Command::new(rpc)), "rpc 0.1.0\n");
    let (code, text) = run(Some(&server.url), &["--uninstall"]);
    assert_eq!((code, list_paths(home.path())), (Some(0), Vec::new()), "{text}");
}

#[test]
fn script_is_accepted_by_shellcheck() {
    if lacks("shellcheck") {
        return;
    }
    let script = project_root().join("packaging/install.sh");
    run_command(Command::new("shellcheck").args(["--shell", "sh"]).arg(script));
}
