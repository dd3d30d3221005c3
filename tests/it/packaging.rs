//! The files of `packaging/`: systemd accepts the units, and their security scores are those in the documentation. What packages run:
//! the version and the manual pages of the daemon, the broker's configuration.

#![expect(clippy::disallowed_types, reason = "runs systemd-analyze and the daemon")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_tests::command::find_program;
use tempfile::TempDir;

use crate::packages::{run_command, walk};

fn project_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The output of `systemd-analyze`; `None` if it is not installed and the run skips tests that need it.
fn analyze(arguments: &[&str], directory: &Path) -> Option<String> {
    let result = Command::new("systemd-analyze")
        .args(arguments)
        .env("SYSTEMD_UNIT_PATH", format!("{}:", directory.display()))
        .env("SYSTEMD_COLORS", "0")
        .output();
    let Ok(output) = result else {
        assert!(
            muster_tests::tools::is_skipped("systemd-analyze"),
            "systemd-analyze is not installed: install systemd, or name it in MUSTER_TESTS_WITHOUT"
        );
        return None;
    };
    let (data, messages) = (output.stdout, output.stderr);
    Some(String::from_utf8_lossy(&[data, messages].concat()).into_owned())
}

/// A unit of nats-server in its own directory, with a program that exists.
fn write_broker_unit() -> (TempDir, String) {
    let directory = TempDir::new().unwrap();
    let unit = fs::read_to_string(project_root().join("packaging/muster-broker.service")).unwrap();
    let path = directory.path().join("muster-broker.service");
    fs::write(&path, unit.replace("ExecStart=nats-server", "ExecStart=/bin/true")).unwrap();
    (directory, path.display().to_string())
}

/// The exposure that `systemd-analyze security` reports for the unit; `None` if the tool may be missing.
fn read_score(name: &str, unit: &str, directory: &Path) -> Option<f64> {
    let output = analyze(&["security", "--offline=true", "--no-pager", unit], directory)?;
    let prefix = format!("Overall exposure level for {name}: ");
    let score = output.lines().rev().find_map(|line| {
        line.split_once(&prefix)?.1.split_whitespace().next()?.parse::<f64>().ok()
    });
    Some(score.unwrap_or_else(|| panic!("no score in\n{output}")))
}

/// The unit in its own directory, with these drop-ins, and with a program that exists.
fn write_unit(drop_ins: &[&str]) -> (TempDir, String) {
    let directory = TempDir::new().unwrap();
    let unit = fs::read_to_string(project_root().join("packaging/rpcd.service")).unwrap();
    let unit = unit.replace("/usr/local/sbin/rpcd", "/bin/true");
    let path = directory.path().join("rpcd.service");
    fs::write(&path, unit).unwrap();
    let drop_in_directory = directory.path().join("rpcd.service.d");
    fs::create_dir(&drop_in_directory).unwrap();
    for name in drop_ins {
        let from = project_root().join("packaging/rpcd.service.d").join(name);
        fs::copy(from, drop_in_directory.join(name)).unwrap();
    }
    (directory, path.display().to_string())
}

/// The version of systemd, and the rows of the guide's table: drop-ins, and the score with them.
pub(crate) fn documented_scores() -> (String, Vec<(Vec<String>, f64)>) {
    let page = fs::read_to_string(project_root().join("docs/guides/hardening.md")).unwrap();
    let version = page.split("with systemd ").nth(1).unwrap();
    let version: String = version.chars().take_while(char::is_ascii_digit).collect();
    assert!(!version.is_empty(), "the guide names the version of systemd");
    let row = |line: &str| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let files = cells.next()?.strip_prefix("`rpcd.service`")?;
        let score = cells.next()?.parse().ok()?;
        let drop_ins = files.split('`').skip(1).step_by(2).map(str::to_owned);
        Some((drop_ins.collect(), score))
    };
    (version, page.lines().filter_map(row).collect())
}

#[test]
fn unit_scores_match_the_guide() {
    let (version, rows) = documented_scores();
    let drop_ins: Vec<_> =
        fs::read_dir(project_root().join("packaging/rpcd.service.d")).unwrap().collect();
    assert_eq!(
        rows.len(),
        drop_ins.len() + 1,
        "one row for each drop-in, and one without: {rows:?}"
    );
    for (drop_ins, documented) in rows {
        let names: Vec<&str> = drop_ins.iter().map(String::as_str).collect();
        let (directory, unit) = write_unit(&names);
        let Some(score) = read_score("rpcd.service", &unit, directory.path()) else { return };
        let installed = analyze(&["--version"], directory.path()).unwrap_or_default();
        if installed.starts_with(&format!("systemd {version} ")) {
            assert!(score <= documented, "{names:?}: {score}, the guide has {documented}");
        } else {
            eprintln!("not compared: the guide has systemd {version}, installed is {installed}");
        }
    }
}

#[test]
fn systemd_accepts_the_units() {
    for drop_ins in [&[][..], &["observe.conf"]] {
        let (directory, unit) = write_unit(drop_ins);
        let output =
            analyze(&["verify", "--man=no", "--recursive-errors=no", &unit], directory.path());
        let Some(output) = output else { return };
        // Other units of the machine may have errors.
        let installed: Vec<&str> =
            output.lines().filter(|line| line.contains("rpcd.service")).collect();
        assert!(installed.is_empty(), "{installed:#?}");
    }
}

#[test]
fn broker_unit_is_accepted_and_its_score_is_in_the_guide() {
    let (directory, unit) = write_broker_unit();
    let arguments = ["verify", "--man=no", "--recursive-errors=no", &unit];
    let Some(output) = analyze(&arguments, directory.path()) else { return };
    assert!(!output.contains("muster-broker.service"), "{output}");
    let (version, _) = documented_scores();
    let page = fs::read_to_string(project_root().join("docs/guides/hardening.md")).unwrap();
    let documented = page.split("| `muster-broker.service` | ").nth(1).unwrap();
    let documented: f64 = documented.split(' ').next().unwrap().parse().unwrap();
    let Some(score) = read_score("muster-broker.service", &unit, directory.path()) else { return };
    let installed = analyze(&["--version"], directory.path()).unwrap_or_default();
    if installed.starts_with(&format!("systemd {version} ")) {
        assert!(score <= documented, "{score}, the guide has {documented}");
    }
}

/// The values of a list directive, over all its lines.
fn directive_values(text: &str, directive: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(directive)?.strip_prefix('='));
    lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// Root needs no capability to ask another daemon for a change, so the sockets of these daemons must be out of reach.
#[test]
fn observing_node_reaches_no_daemon_that_changes_the_machine() {
    let path = project_root().join("packaging/rpcd.service.d/observe.conf");
    let text = fs::read_to_string(path).unwrap();
    let hidden = directive_values(&text, "InaccessiblePaths");
    for socket in [
        "/run/dbus",
        "/run/systemd/private",
        "/run/docker.sock",
        "/run/containerd",
        "/run/podman",
        "/run/snapd.socket",
        "/run/libvirt",
    ] {
        // The sign lets the unit start on a machine without that daemon.
        assert!(hidden.contains(&format!("-{socket}")), "{socket}: {hidden:?}");
    }
    assert!(!hidden.iter().any(|path| path.ends_with("/run/systemd/notify")), "READY=1 needs it");
    assert_eq!(directive_values(&text, "CapabilityBoundingSet"), ["CAP_DAC_READ_SEARCH"]);
    assert_eq!(directive_values(&text, "AmbientCapabilities"), Vec::<String>::new());
    assert_eq!(directive_values(&text, "ProtectSystem"), ["strict"]);
    assert_eq!(directive_values(&text, "NoNewPrivileges"), ["yes"]);
}

/// systemd ignores a misspelt directive and only logs it; the test above must detect that.
#[test]
fn misspelt_directive_is_reported() {
    let (directory, unit) = write_unit(&[]);
    let text = fs::read_to_string(&unit).unwrap();
    fs::write(&unit, text.replace("OOMPolicy=", "OOMPolice=")).unwrap();
    let output = analyze(&["verify", "--man=no", "--recursive-errors=no", &unit], directory.path());
    let Some(output) = output else { return };
    assert!(output.contains("OOMPolice"), "{output}");
}

#[test]
fn daemon_names_itself_and_writes_its_manual_pages() {
    let rpcd = find_program("rpcd");
    let version = Command::new(&rpcd).arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    assert_eq!(version, format!("rpcd {}\n", env!("CARGO_PKG_VERSION")));
    let directory = TempDir::new().unwrap();
    let pages = directory.path().join("man8");
    let output = Command::new(&rpcd).arg("man").arg(&pages).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let page = fs::read_to_string(pages.join("rpcd.8")).unwrap();
    assert!(page.contains("rpcd.toml") && page.contains("restart\\-when\\-idle"), "{page}");
    assert!(pages.join("rpcd-apply.8").exists() && !pages.join("rpcd-exec-sandboxed.8").exists());
}

/// What `rpc broker config --bundle` writes is a valid configuration when it is in the service's directory.
#[test]
fn broker_bundle_is_a_valid_configuration() {
    let directory = TempDir::new().unwrap();
    let (org, bundle) = (directory.path().join("acme"), directory.path().join("bundle"));
    let rpc = || {
        let mut command = Command::new(find_program("rpc"));
        command.env("HOME", directory.path()).current_dir(directory.path());
        command
    };
    run_command(rpc().args(["org", "init"]).arg(&org).args([
        "--name",
        "acme",
        "--host",
        "127.0.0.1",
    ]));
    run_command(rpc().args(["broker", "config", "--org"]).arg(&org).arg("--bundle").arg(&bundle));
    let mode = |name: &str| bundle.join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("broker.key"), 0o600);
    let files: Vec<_> = walk(&bundle);
    assert_eq!(files.len(), 6, "{files:?}");
    let text = fs::read_to_string(bundle.join("nats.conf")).unwrap();
    assert!(!text.contains(&directory.path().display().to_string()), "{text}");
    for path in ["/var/lib/muster-broker/accounts", "/var/lib/muster-broker/jetstream"] {
        assert!(text.contains(path), "no {path} in\n{text}");
    }
    let state = directory.path().join("state").display().to_string();
    fs::write(bundle.join("nats.conf"), text.replace("/var/lib/muster-broker", &state)).unwrap();
    let mut server = Command::new(muster_tests::nats_server::find_binary());
    run_command(server.args(["--config", "nats.conf", "-t"]).current_dir(&bundle));
    // Settings of the site survive a new bundle.
    fs::write(bundle.join("local.conf"), "max_payload: 2MB\n").unwrap();
    run_command(rpc().args(["broker", "config", "--org"]).arg(&org).arg("--bundle").arg(&bundle));
    assert_eq!(fs::read_to_string(bundle.join("local.conf")).unwrap(), "max_payload: 2MB\n");
    fs::remove_file(bundle.join("broker.key")).unwrap();
    let broken = server.output().unwrap();
    assert!(!broken.status.success(), "nats-server does not read the files of the bundle");
}
