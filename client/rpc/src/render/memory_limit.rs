//! Limits the memory of this process while it evaluates an expression or renders a template: one step can double a value, which neither a limit of steps
//! nor one of the output bounds.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Most memory that the evaluation may add to what the process has, in bytes: several times the largest document.
const MAX_EVALUATION_BYTES: u64 = 1024 * 1024 * 1024;

/// Limits the memory of this process from now on. Beyond it, the allocator ends the process. Without `/proc` there is no limit.
pub fn limit_memory() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let data = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kilobytes: Option<u64> =
        data.and_then(|text| text.trim().strip_suffix(" kB")?.parse().ok());
    let (Some(kilobytes), Ok((_, most))) = (kilobytes, getrlimit(Resource::RLIMIT_DATA)) else {
        return;
    };
    let limit = kilobytes.saturating_mul(1024).saturating_add(MAX_EVALUATION_BYTES).min(most);
    // A limit that is not set leaves the process as it was.
    let _ = setrlimit(Resource::RLIMIT_DATA, limit, most);
}
