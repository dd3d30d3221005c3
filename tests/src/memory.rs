//! Reads how much memory a process uses, for tests that check that memory is released.

/// Anonymous memory of a process in KiB, as counted by the kernel; `None` if the process does not exist.
///
/// Pages of files, including the program's own, are not counted: the share of a process grows when other processes of
/// the same program end.
pub fn anonymous_kib(pid: u32) -> Option<u64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn measures_this_process_and_no_missing_one() {
        let before = super::anonymous_kib(std::process::id()).unwrap();
        let written = vec![1_u8; 8 << 20];
        let after = super::anonymous_kib(std::process::id()).unwrap();
        assert!(after >= before + 8_000, "{} bytes: {before} KiB, then {after} KiB", written.len());
        assert_eq!(super::anonymous_kib(u32::MAX), None);
    }
}
