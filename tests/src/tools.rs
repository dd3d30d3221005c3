//! The programs of others that tests run. Puppet gets directories of its own. A test whose program is missing fails, unless the run names the program, so no
//! test is skipped unnoticed.

use std::path::{Path, PathBuf};

/// The settings of Puppet that name a directory. What is left out is a directory of this machine, which daemons of other tests read.
const PUPPET_DIRECTORIES: [&str; 7] =
    ["confdir", "codedir", "vardir", "ssldir", "rundir", "logdir", "publicdir"];

/// Names of programs, separated by commas; tests that need them are skipped: `MUSTER_TESTS_WITHOUT=puppet,puppetserver
/// make unit`.
const SKIPPED_PROGRAMS: &str = "MUSTER_TESTS_WITHOUT";

/// Whether this run skips the tests that need this program.
pub fn is_skipped(program: &str) -> bool {
    std::env::var(SKIPPED_PROGRAMS)
        .is_ok_and(|programs| programs.split(',').any(|name| name == program))
}

/// Arguments that give Puppet directories of its own below this one.
pub fn puppet_directories(base: &Path) -> [String; PUPPET_DIRECTORIES.len()] {
    PUPPET_DIRECTORIES.map(|name| format!("--{name}={}", base.join(name).display()))
}

/// The path of a program that `make tools` downloads, or that is in `PATH`.
pub fn find_tool(program: &str) -> PathBuf {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools").join(program);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories = std::env::split_paths(&path).map(|directory| directory.join(program));
    Some(fetched)
        .filter(|path| path.is_file())
        .or_else(|| directories.find(|path| path.is_file()))
        .unwrap_or_else(|| {
            panic!("there is no {program}: run `make tools`, or set MUSTER_TESTS_WITHOUT={program}")
        })
}
