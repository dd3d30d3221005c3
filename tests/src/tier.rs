//! The tier of a test run: `make test` repeats what must never fail ten times less often than `make test-all` does.

/// The profile of nextest that runs the test: `default`, `all` or `slow`. Set by nextest.
const PROFILE_VARIABLE: &str = "NEXTEST_PROFILE";
/// How many times less often the tier `test` repeats something.
const SHORT_DIVISOR: usize = 10;

/// How often a test repeats something of which `make test-all` has this many repetitions; at least once.
pub fn repetitions(all: usize) -> usize {
    if is_long() { all } else { (all / SHORT_DIVISOR).max(1) }
}

/// The step at which a test takes the cases of a table: `make test-all` takes each, `make test` one of this many, beginning with the first.
pub fn case_step(short: usize) -> usize {
    if is_long() { 1 } else { short }
}

/// Whether long tests run, too.
pub fn is_long() -> bool {
    std::env::var(PROFILE_VARIABLE).is_ok_and(|profile| profile != "default")
}
