//! How much memory a process has, for tests that hold that it gives back what it took.

/// The proportional set size of a process in KiB: what it shares with others counts in part. Nothing if it is gone.
pub fn proportional_kib(pid: u32) -> Option<u64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn ours_is_known_and_that_of_nobody_is_not() {
        assert!(super::proportional_kib(std::process::id()).unwrap() > 500);
        assert_eq!(super::proportional_kib(u32::MAX), None);
    }
}
