//! Which programs a test run may lack. A test whose program is missing fails, unless the run names the program, so no
//! test is skipped unnoticed.

/// Names of programs, separated by commas; tests that need them are skipped: `MUSTER_TESTS_WITHOUT=puppet,puppetserver
/// make unit`.
const SKIPPED_PROGRAMS: &str = "MUSTER_TESTS_WITHOUT";

/// Whether this run skips the tests that need this program.
pub fn is_skipped(program: &str) -> bool {
    std::env::var(SKIPPED_PROGRAMS)
        .is_ok_and(|programs| programs.split(',').any(|name| name == program))
}
