//! The packages and container images that `tools/package` makes: their contents, and what the package managers do with them.
//!
//! The programs are those of the tests, not a release build. Installation on machines with systemd is tested elsewhere.

#![expect(clippy::disallowed_types, reason = "runs package managers and the packaged programs")]
#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use muster_tests::command::{describe_output, find_program};
use muster_tests::tools::is_skipped;
use serde_json::Value;
use tempfile::TempDir;

use crate::machines::nodes::build_packages;

/// The files of muster-puppet below the directory of modules.
const MODULE_FILES: &str = "\
-rwxr-xr-x bin/enc
-rw-r--r-- lib/puppet/functions/load_node.rb
-rw-r--r-- lib/puppet/functions/muster/nodes.rb
-rw-r--r-- lib/puppet/functions/search_nodes.rb
-rw-r--r-- lib/puppet_x/muster/directory.rb
-rw-r--r-- manifests/again/delta.pp
-rw-r--r-- manifests/again.pp
-rw-r--r-- manifests/motd/register.pp
-rw-r--r-- manifests/motd.pp
-rw-r--r-- manifests/prompt/register.pp
-rw-r--r-- metadata.json
";
/// Debian's Puppet finds modules here.
const MODULE: &str = "/usr/share/puppet/modules/muster/";

/// The files of muster-node, except further manual pages and policies: type and mode, and path.
const NODE_FILES: &str = "\
drwxr-xr-x /etc/
drwxr-xr-x /etc/logrotate.d/
-rw-r--r-- /etc/logrotate.d/muster-node
drwxr-xr-x /etc/muster/
drwxr-xr-x /etc/muster/checks.d/
drwxr-xr-x /etc/muster/conf.d/
-rw-r--r-- /etc/muster/conf.d/10-package.toml
drwxr-xr-x /etc/muster/facts.d/
drwxr-xr-x /etc/muster/issue.d/
drwxr-xr-x /etc/muster/motd.d/
drwxr-xr-x /etc/muster/policies/
drwxr-xr-x /etc/muster/prompt.d/
drwxr-xr-x /usr/
drwxr-xr-x /usr/lib/
drwxr-xr-x /usr/lib/systemd/
drwxr-xr-x /usr/lib/systemd/system/
-rw-r--r-- /usr/lib/systemd/system/rpcd.service
drwxr-xr-x /usr/lib/sysusers.d/
-rw-r--r-- /usr/lib/sysusers.d/muster-node.conf
drwxr-xr-x /usr/sbin/
-rwxr-xr-x /usr/sbin/rpcd
drwxr-xr-x /usr/share/
drwxr-xr-x /usr/share/doc/
drwxr-xr-x /usr/share/doc/muster-node/
-rw-r--r-- /usr/share/doc/muster-node/changelog.gz
-rw-r--r-- /usr/share/doc/muster-node/copyright
drwxr-xr-x /usr/share/doc/muster-node/examples/
drwxr-xr-x /usr/share/doc/muster-node/examples/checks.d/
-rw-r--r-- /usr/share/doc/muster-node/examples/checks.d/base.toml
-rw-r--r-- /usr/share/doc/muster-node/examples/observe.conf
drwxr-xr-x /usr/share/doc/muster-node/examples/policies/
-rw-r--r-- /usr/share/doc/muster-node/examples/policies/default.policy
-rw-r--r-- /usr/share/doc/muster-node/examples/rpcd.toml
drwxr-xr-x /usr/share/doc/muster-node/examples/sshd_config.d/
-rw-r--r-- /usr/share/doc/muster-node/examples/sshd_config.d/muster.conf
drwxr-xr-x /usr/share/lintian/
drwxr-xr-x /usr/share/lintian/overrides/
-rw-r--r-- /usr/share/lintian/overrides/muster-node
drwxr-xr-x /usr/share/man/
drwxr-xr-x /usr/share/man/man8/
-rw-r--r-- /usr/share/man/man8/rpcd.8.gz
drwxr-xr-x /var/
drwxr-xr-x /var/log/
drwxr-x--- /var/log/muster/
";

pub(crate) fn project_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Whether a tool is missing and the run skips the tests that need it. A test whose tool is missing fails.
pub(crate) fn lacks(tool: &str) -> bool {
    let missing = Command::new(tool).arg("--version").output().is_err();
    assert!(
        !missing || is_skipped(tool),
        "{tool} is not installed: install it, or name it in MUSTER_TESTS_WITHOUT"
    );
    missing
}

/// The output of a command that must succeed.
pub(crate) fn run_command(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", describe_output(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// `tools/package` with the programs of the tests.
pub(crate) fn package_command(
    formats: &[&str],
    version: &str,
    out: &Path,
    only: &[&str],
) -> Command {
    let mut command = Command::new(project_root().join("tools/package"));
    command.args(formats).args(["--fast", "--version", version, "--out"]).arg(out);
    command.arg("--binaries").arg(find_program("rpcd").parent().unwrap());
    command.args(only.iter().flat_map(|name| ["--only", *name]));
    command.env("SOURCE_DATE_EPOCH", "1790000000");
    command
}

/// Makes packages; returns their paths.
pub(crate) fn make_packages(
    formats: &[&str],
    version: &str,
    out: &Path,
    only: &[&str],
) -> Vec<PathBuf> {
    run_command(&mut package_command(formats, version, out, only))
        .lines()
        .map(PathBuf::from)
        .collect()
}

/// Type and mode, owner and path of each file of a Debian package.
fn list_files(package: &Path) -> Vec<[String; 3]> {
    let listing = run_command(Command::new("dpkg-deb").arg("--contents").arg(package));
    let lines = listing.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [mode, owner, _size, _date, _time, path] = words[..] else { panic!("{line}") };
        [mode, owner, path.strip_prefix('.').unwrap()].map(str::to_owned)
    });
    lines.filter(|[_, _, path]| path != "/").collect()
}

#[test]
fn debian_packages_have_the_described_files_and_scripts() {
    if lacks("dpkg-deb") {
        return;
    }
    let directory = build_packages("0.1.0");
    let packages = [
        "muster_0.1.0_amd64",
        "muster-node_0.1.0_amd64",
        "muster-broker_0.1.0_all",
        "muster-puppet_0.1.0_all",
    ]
    .map(|name| directory.join(format!("{name}.deb")));
    let [client, node, broker, module] = &packages;
    let is_listed = |path: &str| {
        !(path.contains("/examples/policies/") || path.contains("/rpcd-"))
            || path.ends_with("/default.policy")
            || path.ends_with("/policies/")
    };
    let files = list_files(node);
    let listed = files.iter().filter(|[_, _, path]| is_listed(path));
    let listed: Vec<_> = listed.map(|[mode, _, path]| format!("{mode} {path}")).collect();
    assert_eq!(listed, NODE_FILES.lines().collect::<Vec<_>>());
    let all = [list_files(client), files, list_files(broker), list_files(module)].concat();
    let in_module = |[mode, _, path]: &[String; 3]| {
        let path =
            path.strip_prefix(MODULE).filter(|path| !path.is_empty() && !path.ends_with('/'))?;
        Some(format!("{mode} {path}"))
    };
    let module_files: Vec<_> = all.iter().filter_map(in_module).collect();
    assert_eq!(module_files, MODULE_FILES.lines().collect::<Vec<_>>());
    for path in [
        "/usr/bin/rpc",
        "/usr/share/man/man1/rpc.1.gz",
        "/usr/share/bash-completion/completions/rpc",
        "/usr/share/zsh/vendor-completions/_rpc",
        "/usr/share/fish/vendor_completions.d/rpc.fish",
        "/usr/lib/systemd/system/muster-broker.service",
        "/usr/lib/sysusers.d/muster-broker.conf",
    ] {
        assert!(all.iter().any(|[_, _, packaged]| packaged == path), "no {path}");
    }
    let owners: Vec<_> = all.iter().filter(|[_, owner, _]| owner != "root/root").collect();
    assert!(owners.is_empty(), "{owners:?}");
    let sensitive = all.iter().find(|[_, _, path]| path == "/etc/muster-broker/").unwrap();
    assert_eq!(sensitive[0], "drwxr-x---");
    for package in &packages {
        check_debian_package(package);
    }
}

/// Scripts for `MCollective` keep their command lines: each link leads to `rpc`, which takes the arguments of its name.
#[test]
fn package_of_links_has_the_commands_of_mcollective() {
    if lacks("dpkg-deb") {
        return;
    }
    let directory = build_packages("0.1.0");
    let package = directory.join("muster-mco_0.1.0_all.deb");
    let field = |name: &str| {
        run_command(Command::new("dpkg-deb").args(["--field"]).arg(&package).arg(name))
    };
    assert_eq!((&*field("Depends"), &*field("Conflicts")), ("muster\n", "mcollective-client\n"));
    let root = TempDir::new().unwrap();
    for name in ["muster-mco_0.1.0_all", "muster_0.1.0_amd64"] {
        let file = directory.join(format!("{name}.deb"));
        run_command(Command::new("dpkg-deb").arg("--extract").arg(file).arg(root.path()));
    }
    for (link, usage) in [
        ("check-mc-nrpe", "rpc check"),
        ("mc-ping", "rpc ping"),
        ("mc-puppetd", "rpc puppet"),
        ("mc-ssh", "rpc ssh"),
        ("mco", "rpc"),
    ] {
        let path = root.path().join("usr/bin").join(link);
        assert_eq!(fs::read_link(&path).unwrap(), Path::new("rpc"));
        let help = run_command(Command::new(&path).arg("--help"));
        assert!(help.contains(&format!("Usage: {usage} ")), "{link}: {help}");
    }
}

/// Scripts are valid for a POSIX shell; the files contain no path of this machine; files in /etc are configuration files.
fn check_debian_package(package: &Path) {
    let directory = TempDir::new().unwrap();
    run_command(Command::new("dpkg-deb").arg("--raw-extract").arg(package).arg(directory.path()));
    let control = directory.path().join("DEBIAN");
    for script in ["preinst", "postinst", "prerm", "postrm"] {
        let script = control.join(script);
        if script.exists() {
            assert_eq!(script.metadata().unwrap().permissions().mode() & 0o777, 0o755);
            run_command(Command::new("sh").arg("-n").arg(&script));
        }
    }
    let listed = fs::read_to_string(control.join("conffiles")).unwrap_or_default();
    let root = project_root().display().to_string();
    for file in walk(directory.path()) {
        let path = file.strip_prefix(directory.path()).unwrap().display().to_string();
        let is_config = listed.lines().any(|line| line == format!("/{path}"));
        assert_eq!(path.starts_with("etc/"), is_config, "{path}: {listed}");
        // The programs of the tests contain the paths of their sources; `make release` checks its own.
        if !path.starts_with("usr/bin/") && !path.starts_with("usr/sbin/") {
            let text = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
            assert!(!text.contains(&root) && !text.contains("/usr/local/sbin/rpcd"), "{path}");
        }
    }
}

/// All files below a directory.
pub(crate) fn walk(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let nested = entries.map(|path| if path.is_dir() { walk(&path) } else { vec![path] });
    nested.collect::<Vec<_>>().concat()
}

/// dpkg with a root directory of its own. Scripts run outside of it, and find it in `DPKG_ROOT`.
fn run_dpkg(root: &Path, arguments: &[&str], package: &Path) -> Output {
    let mut command = Command::new("dpkg");
    command.arg(format!("--root={}", root.display()));
    command.args(["--force-script-chrootless", "--force-depends", "--force-confdef"]);
    command.args(arguments).arg(package).env("DEBIAN_FRONTEND", "noninteractive").output().unwrap()
}

pub(crate) fn is_root() -> bool {
    run_command(Command::new("id").arg("-u")).trim() == "0"
}

/// `rpc` and a node on one machine share a directory, and each is removed without the other's files.
#[test]
fn purge_of_the_node_keeps_the_files_of_rpc() {
    let root = TempDir::new().unwrap();
    let etc = root.path().join("etc/muster");
    fs::create_dir_all(etc.join("conf.d")).unwrap();
    fs::write(root.path().join("etc/passwd"), "").unwrap();
    let node = ["rpcd.toml", "node.creds", "conf.d/10-package.toml"];
    let shared = ["rpc.toml", "user.creds", "account.jwt", "ca.pem"];
    for file in node.iter().chain(&shared) {
        fs::write(etc.join(file), "").unwrap();
    }
    let scripts = project_root().join("packaging/scripts/deb");
    let purge = |package: &str| {
        let script = scripts.join(format!("{package}.postrm"));
        let helper = root.path().join("bin/deb-systemd-helper");
        fs::create_dir_all(helper.parent().unwrap()).unwrap();
        fs::copy("/bin/true", &helper).unwrap();
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", helper.parent().unwrap().display());
        run_command(
            Command::new("sh")
                .arg(script)
                .arg("purge")
                .env("DPKG_ROOT", root.path())
                .env("PATH", path),
        );
    };
    purge("muster-node");
    let left = || {
        let mut left: Vec<_> = walk(&etc)
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        left.sort();
        left
    };
    assert_eq!(left(), ["account.jwt", "ca.pem", "rpc.toml", "user.creds"]);
    purge("muster");
    assert!(!etc.exists(), "{:?}", left());
}

#[test]
fn rpm_installs_the_packages_into_an_empty_root() {
    if lacks("rpmbuild") {
        return;
    }
    let (root, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let packages = make_packages(&["rpm"], "0.1.0", out.path(), &["muster-node", "muster-broker"]);
    let rpm = || {
        let mut command = Command::new("rpm");
        command.arg("--root").arg(root.path());
        command
    };
    // An empty root has no glibc and no shell.
    run_command(
        rpm()
            .args(["--install", "--nodeps", "--noscripts", "--nouser", "--nogroup"])
            .args(&packages),
    );
    assert_eq!(run_command(rpm().args(["--query", "--all"])).lines().count(), 2);
    let rpcd = root.path().join("usr/sbin/rpcd");
    assert_eq!(
        run_command(Command::new(&rpcd).arg("--version")),
        format!("rpcd {}\n", env!("CARGO_PKG_VERSION"))
    );
    let config = run_command(rpm().args(["--query", "--configfiles", "muster-node"]));
    assert_eq!(config, "/etc/logrotate.d/muster-node\n/etc/muster/conf.d/10-package.toml\n");
    let requires = run_command(rpm().args(["--query", "--requires", "muster-node"]));
    assert!(requires.contains("libc.so.6") && requires.contains("systemd"), "{requires}");
    for package in ["muster-node", "muster-broker"] {
        for tag in ["POSTIN", "PREUN", "POSTUN"] {
            let script = run_command(rpm().args([
                "--query",
                "--queryformat",
                &format!("%{{{tag}}}"),
                package,
            ]));
            assert!(script.contains("systemctl"), "{package} {tag}: {script}");
            run_command(Command::new("sh").args(["-n", "-c", &script]));
        }
    }
}

/// The configuration of the image in an OCI archive, and the directory with the files of its layer.
fn unpack_image(archive: &Path, directory: &Path) -> (Value, PathBuf) {
    run_command(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(directory));
    let read =
        |path: PathBuf| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let blob = |entry: &Value| {
        let digest = entry["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let path = directory.join("blobs/sha256").join(digest);
        let sum = run_command(Command::new("sha256sum").arg(&path));
        assert!(sum.starts_with(digest), "{sum} is the sum of {digest}");
        assert_eq!(entry["size"].as_u64().unwrap(), path.metadata().unwrap().len());
        path
    };
    let manifest = read(blob(&read(directory.join("index.json"))["manifests"][0]));
    let root = directory.join("root");
    fs::create_dir(&root).unwrap();
    let layer = blob(&manifest["layers"][0]);
    run_command(
        Command::new("tar").arg("-xzf").arg(layer).arg("-C").arg(&root).arg("--no-same-owner"),
    );
    (read(blob(&manifest["config"])), root)
}

/// Run by `make test-all`.
mod long {
    use muster_tests::tools::puppet_directories;

    use super::{
        Command, MODULE, Path, TempDir, describe_output, fs, is_root, lacks, make_packages,
        package_command, project_root, run_command, run_dpkg, unpack_image, walk,
    };

    /// The same programs, version and time give the same bytes, whatever the caller's environment is.
    #[test]
    fn packages_are_reproducible() {
        if lacks("dpkg-deb") || lacks("rpmbuild") {
            return;
        }
        let (one, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let formats = ["deb", "rpm", "image", "tarball"];
        let names = ["muster-node", "muster-virtual", "tarball"];
        let first = make_packages(&formats, "0.1.0", one.path(), &names);
        let temporary = other.path().join("a longer directory");
        fs::create_dir_all(&temporary).unwrap();
        let again = package_command(&formats, "0.1.0", other.path(), &names);
        let mut command = Command::new("sh");
        command.args(["-c", "umask 077; exec \"$@\"", "sh"]);
        command.arg(again.get_program()).args(again.get_args());
        command.env("SOURCE_DATE_EPOCH", "1790000000").env("TMPDIR", &temporary);
        command.env("TZ", "Asia/Tokyo").env("LC_ALL", "C").env("HOME", other.path());
        let second = run_command(&mut command);
        assert_eq!((first.len(), second.lines().count()), (4, 4), "{second}");
        for (one, other) in first.iter().zip(second.lines()) {
            let same = fs::read(one).unwrap() == fs::read(other).unwrap();
            assert!(same, "{} differs between two builds", one.display());
        }
    }

    #[test]
    fn images_contain_what_their_programs_need() {
        if lacks("unshare") {
            return;
        }
        let out = TempDir::new().unwrap();
        for archive in make_packages(&["image"], "0.1.0", out.path(), &[]) {
            let directory = TempDir::new().unwrap();
            let (config, root) = unpack_image(&archive, directory.path());
            let config = &config["config"];
            assert_eq!(config["User"], "65532:65532");
            let program = config["Entrypoint"][0].as_str().unwrap();
            let name = program.rsplit('/').next().unwrap();
            let mut command = Command::new("unshare");
            command.arg("--map-root-user").arg(format!("--root={}", root.display()));
            let version = run_command(command.arg(program).arg("--version"));
            assert_eq!(version, format!("{name} {}\n", env!("CARGO_PKG_VERSION")));
            let root_text = project_root().display().to_string();
            for file in walk(&root) {
                let data = fs::read(&file).unwrap();
                let is_text = data.len() < 10_000;
                assert!(
                    !is_text || !String::from_utf8_lossy(&data).contains(&root_text),
                    "{file:?}"
                );
            }
        }
    }

    /// An upgrade keeps what the administrator changed and what the node wrote; a purge leaves nothing.
    #[test]
    fn dpkg_installs_upgrades_and_purges_the_node() {
        if lacks("dpkg-deb") || lacks("systemd-sysusers") {
            return;
        }
        if !is_root() {
            eprintln!("not run: dpkg gives files to root, which needs root");
            return;
        }
        let (root, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let (root, out) = (root.path(), out.path());
        for directory in ["etc", "var/lib/dpkg/info", "var/lib/dpkg/updates", "run"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
        fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();

        let first = make_packages(&["deb"], "0.1.0", out, &["muster-node"]);
        let done = run_dpkg(root, &["--install"], &first[0]);
        assert!(done.status.success(), "{}", describe_output(&done));
        assert!(read("etc/passwd").contains("\nmuster-agent:"), "{}", read("etc/passwd"));
        let enabled = root.join("etc/systemd/system/multi-user.target.wants/rpcd.service");
        assert!(enabled.is_symlink(), "not enabled");

        fs::write(root.join("etc/muster/rpcd.toml"), "identity = \"a\"\n").unwrap();
        fs::write(root.join("etc/muster/conf.d/10-package.toml"), "[audit]\nkeep = 3\n").unwrap();
        fs::create_dir_all(root.join("var/lib/muster/seen")).unwrap();
        fs::remove_file(&enabled).unwrap();
        let second = make_packages(&["deb"], "0.1.1", out, &["muster-node"]);
        let done = run_dpkg(root, &["--install"], &second[0]);
        assert!(done.status.success(), "{}", describe_output(&done));
        assert!(read("var/lib/dpkg/status").contains("Version: 0.1.1"));
        assert_eq!(read("etc/muster/rpcd.toml"), "identity = \"a\"\n");
        assert_eq!(read("etc/muster/conf.d/10-package.toml"), "[audit]\nkeep = 3\n");
        assert!(!enabled.is_symlink(), "an upgrade enabled a disabled unit");

        let done = run_dpkg(root, &["--remove"], Path::new("muster-node"));
        assert!(done.status.success(), "{}", describe_output(&done));
        assert!(
            root.join("var/lib/muster/seen").exists() && !read("etc/muster/rpcd.toml").is_empty()
        );
        assert!(!root.join("usr/sbin/rpcd").exists());
        let done = run_dpkg(root, &["--purge"], Path::new("muster-node"));
        assert!(done.status.success(), "{}", describe_output(&done));
        let rest: Vec<_> = walk(root)
            .into_iter()
            .map(|path| path.strip_prefix(root).unwrap().display().to_string())
            .filter(|path| path.contains("muster") || path.contains("rpcd"))
            .collect();
        assert!(rest.is_empty(), "{rest:?}");
        assert!(!read("etc/passwd").contains("muster-agent"), "{}", read("etc/passwd"));
    }

    /// Puppet loads the functions of the installed module, and the classifier runs; neither finds a directory here.
    #[test]
    fn module_of_the_package_is_loaded_by_puppet() {
        if lacks("dpkg-deb") || lacks("puppet") {
            return;
        }
        let (root, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let package = make_packages(&["deb"], "0.1.0", out.path(), &["muster-puppet"]);
        run_command(Command::new("dpkg-deb").arg("--extract").arg(&package[0]).arg(root.path()));
        let module = root.path().join(MODULE.trim_start_matches('/'));
        let mut puppet = Command::new("puppet");
        puppet.args(["apply", "--color=false", "--modulepath"]).arg(module.parent().unwrap());
        puppet.args(puppet_directories(out.path()));
        let manifest = "notice(muster::nodes('{}', { 'socket' => '/nosuch.sock' }))";
        let output = puppet.args(["-e", manifest]).output().unwrap();
        let text = describe_output(&output);
        let expected = "cannot read the directory at /nosuch.sock";
        assert!(!output.status.success() && text.contains(expected), "{text}");
        let mut classifier = Command::new(module.join("bin/enc"));
        classifier.arg("db1.acme.net").env("MUSTER_DIRECTORY_SOCKET", "/nosuch.sock");
        let output = classifier.output().unwrap();
        let text = describe_output(&output);
        assert!(!output.status.success() && text.contains(expected), "{text}");
        let listed = run_command(
            Command::new("puppet")
                .args(["module", "list", "--modulepath"])
                .arg(module.parent().unwrap())
                .args(puppet_directories(out.path())),
        );
        assert!(listed.contains("muster-muster"), "{listed}");
    }
}
