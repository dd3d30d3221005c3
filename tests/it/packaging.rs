//! The files of `packaging/`, as the programs that read them see them: systemd finds no fault in the units, and thinks as well of them as
//! the documentation says.

#![expect(clippy::disallowed_types, reason = "asks systemd's own program")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What `systemd-analyze` prints; nothing, and a word about it, where it is not installed.
fn analyze(arguments: &[&str], place: &Path) -> Option<String> {
    let asked = Command::new("systemd-analyze")
        .args(arguments)
        .env("SYSTEMD_UNIT_PATH", format!("{}:", place.display()))
        .env("SYSTEMD_COLORS", "0")
        .output();
    let Ok(output) = asked else {
        assert!(
            muster_tests::tools::is_skipped("systemd-analyze"),
            "systemd-analyze is not installed: install systemd, or name it in MUSTER_TESTS_WITHOUT"
        );
        return None;
    };
    let (data, talk) = (output.stdout, output.stderr);
    Some(String::from_utf8_lossy(&[data, talk].concat()).into_owned())
}

/// The unit in a directory of its own, with these of its drop-ins, and a program that is there.
fn laid_out(drop_ins: &[&str]) -> (TempDir, String) {
    let place = TempDir::new().unwrap();
    let unit = fs::read_to_string(project().join("packaging/rpcd.service")).unwrap();
    let unit = unit.replace("/usr/local/sbin/rpcd", "/bin/true");
    let path = place.path().join("rpcd.service");
    fs::write(&path, unit).unwrap();
    let beside = place.path().join("rpcd.service.d");
    fs::create_dir(&beside).unwrap();
    for name in drop_ins {
        let from = project().join("packaging/rpcd.service.d").join(name);
        fs::copy(from, beside.join(name)).unwrap();
    }
    (place, path.display().to_string())
}

/// The rows of the guide's table: what is in force, with which drop-ins, and the score that it has.
fn documented() -> (String, Vec<(Vec<String>, f64)>) {
    let page = fs::read_to_string(project().join("docs/guides/hardening.md")).unwrap();
    let version = page.split("systemd ").nth(1).unwrap();
    let version: String = version.chars().take_while(char::is_ascii_digit).collect();
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
fn systemd_scores_the_units_as_the_guide_says() {
    let (version, rows) = documented();
    let drop_ins: Vec<_> =
        fs::read_dir(project().join("packaging/rpcd.service.d")).unwrap().collect();
    assert_eq!(rows.len(), drop_ins.len() + 1, "a row for each: {rows:?}");
    for (drop_ins, documented) in rows {
        let names: Vec<&str> = drop_ins.iter().map(String::as_str).collect();
        let (place, unit) = laid_out(&names);
        let told = analyze(&["security", "--offline=true", "--no-pager", &unit], place.path());
        let Some(told) = told else { return };
        let score = told.lines().rev().find_map(|line| {
            let (_, score) = line.split_once("Overall exposure level for rpcd.service: ")?;
            score.split_whitespace().next()?.parse::<f64>().ok()
        });
        let score = score.unwrap_or_else(|| panic!("no score in\n{told}"));
        let ours = analyze(&["--version"], place.path()).unwrap_or_default();
        if ours.starts_with(&format!("systemd {version} ")) {
            assert!(score <= documented, "{names:?}: {score}, and the guide says {documented}");
        } else {
            eprintln!("not compared: the guide has systemd {version}, here is {ours}");
        }
    }
}

#[test]
fn systemd_finds_no_fault_in_the_units() {
    for drop_ins in [&[][..], &["observe.conf"]] {
        let (place, unit) = laid_out(drop_ins);
        let told = analyze(&["verify", "--man=no", "--recursive-errors=no", &unit], place.path());
        let Some(told) = told else { return };
        // Other units of the machine may have faults of their own.
        let ours: Vec<&str> = told.lines().filter(|line| line.contains("rpcd.service")).collect();
        assert!(ours.is_empty(), "{ours:#?}");
    }
}

/// A directive that is misspelt is left out by systemd, with a word that nobody reads: the test above must notice.
#[test]
fn a_misspelt_directive_is_a_fault() {
    let (place, unit) = laid_out(&[]);
    let text = fs::read_to_string(&unit).unwrap();
    fs::write(&unit, text.replace("OOMPolicy=", "OOMPolice=")).unwrap();
    let told = analyze(&["verify", "--man=no", "--recursive-errors=no", &unit], place.path());
    let Some(told) = told else { return };
    assert!(told.contains("OOMPolice"), "{told}");
}
