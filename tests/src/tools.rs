//! Which programs a test run may lack. A test whose program is missing fails, unless the run names the program: nothing passes unseen.

/// Names of programs, separated by commas, whose tests this run leaves out: `MUSTER_TESTS_WITHOUT=puppet,puppetserver make unit`.
const LEFT_OUT: &str = "MUSTER_TESTS_WITHOUT";

/// Whether this run leaves out the tests that need this program.
pub fn is_left_out(program: &str) -> bool {
    std::env::var(LEFT_OUT).is_ok_and(|programs| programs.split(',').any(|name| name == program))
}
