//! How much memory a process has, for tests that hold that it gives back what it took.

/// What a process has for itself in KiB, by the kernel's count of anonymous memory. Nothing if it is gone.
///
/// Pages of files, its program's too, do not count: its part of them grows when others that run the same program end.
pub fn own_kib(pid: u32) -> Option<u64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn ours_is_known_and_that_of_nobody_is_not() {
        let before = super::own_kib(std::process::id()).unwrap();
        let written = vec![1_u8; 8 << 20];
        let after = super::own_kib(std::process::id()).unwrap();
        assert!(after >= before + 8_000, "{} bytes: {before} KiB, then {after} KiB", written.len());
        assert_eq!(super::own_kib(u32::MAX), None);
    }
}
