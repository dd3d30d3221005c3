//! The programs of `make release` in the root directories of older distributions, as far as Debian's mirrors have them. Not run without a release.

#![expect(clippy::disallowed_types, reason = "runs debootstrap and chroot")]

use std::path::PathBuf;
use std::process::Command;

use muster_tests::command::find_program;
use tempfile::TempDir;

use crate::packages::{is_root, lacks, run_command};

/// Debian 11 has glibc 2.31. Older releases are no longer on the mirrors.
const SUITES: [&str; 1] = ["bullseye"];

/// The directory with the programs of the release, as `tools/release` builds them.
fn find_release() -> Option<PathBuf> {
    let machine = run_command(Command::new("uname").arg("-m"));
    let target = find_program("rpcd").parent().unwrap().parent().unwrap().to_owned();
    let target = target.join("reproducible").join(format!("{}-unknown-linux-gnu", machine.trim()));
    Some(target.join("release")).filter(|directory| directory.join("rpcd").is_file())
}

#[test]
fn released_programs_start_in_roots_of_older_distributions() {
    let Some(release) = find_release() else {
        eprintln!("not run: there is no release; `make release` builds it");
        return;
    };
    if !is_root() || lacks("debootstrap") {
        eprintln!("not run: debootstrap needs root");
        return;
    }
    for suite in SUITES {
        let root = TempDir::new().unwrap();
        let root = root.path();
        // The packages are unpacked and not configured: that is sufficient to start a program.
        let mut debootstrap = Command::new("debootstrap");
        run_command(debootstrap.args(["--foreign", "--variant=minbase", suite]).arg(root));
        for program in ["rpc", "rpcd"] {
            std::fs::copy(release.join(program), root.join(program)).unwrap();
        }
        let run = |arguments: &[&str]| {
            let mut chroot = Command::new("chroot");
            run_command(chroot.arg(root).args(arguments).env("HOME", "/root"))
        };
        for program in ["rpc", "rpcd"] {
            let version = run(&[&format!("/{program}"), "--version"]);
            assert_eq!(version, format!("{program} {}\n", env!("CARGO_PKG_VERSION")), "{suite}");
        }
        // Keys, certificates and files.
        run(&["/rpc", "org", "init", "/acme", "--name", "acme", "--host", "127.0.0.1"]);
        let catalog = "[[resource]]\ntype = \"file\"\ntitle = \"/motd\"\ncontent = \"hello\\n\"\n";
        std::fs::write(root.join("site.toml"), catalog).unwrap();
        run(&["/rpcd", "apply", "/site.toml"]);
        assert_eq!(std::fs::read_to_string(root.join("motd")).unwrap(), "hello\n", "{suite}");
    }
}
