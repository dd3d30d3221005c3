//! Releases memory that an idle daemon does not need: free heap, and pages of its own program file that only the start or a burst of work used. The
//! kernel reads such pages from the file again on access. All threads share one heap, so that all of it can be released.
//!
//! Contains the project's only unsafe code (decision 23). `lifecycle` decides when to call it.

use std::fs;
use std::ops::Range;

use nix::libc;

/// Costs a few milliseconds, plus a page fault for each released page that is used again.
pub(crate) fn release_unused() {
    // If smaps is unreadable, release nothing; nothing depends on it.
    if let Ok(maps) = fs::read_to_string("/proc/self/smaps") {
        let address = release_unused as *const () as usize;
        clean_ranges(&maps, address).into_iter().for_each(drop_pages);
    }
    trim_heap();
}

/// Mappings of the program's own file that are not writable and have no private pages, so that the file holds all their content. `address` is an
/// address in the program; `maps` is the content of `/proc/pid/smaps`, see proc(5).
fn clean_ranges(maps: &str, address: usize) -> Vec<Range<usize>> {
    let mappings: Vec<MemoryMapping<'_>> = parse_mappings(maps);
    let Some(program) = mappings.iter().find(|part| part.range.contains(&address)) else {
        return Vec::new();
    };
    let clean = |part: &&MemoryMapping<'_>| part.file == program.file && part.is_clean();
    mappings.iter().filter(clean).map(|part| part.range.clone()).collect()
}

/// One entry of smaps.
struct MemoryMapping<'a> {
    range: Range<usize>,
    permissions: &'a str,
    /// Device and inode; zeros for anonymous mappings.
    file: (&'a str, &'a str),
    /// Kilobytes of private pages, in memory or swapped out; `None` until parsed.
    private_kb: Vec<Option<u64>>,
}

impl MemoryMapping<'_> {
    fn is_clean(&self) -> bool {
        let has_no_private_pages =
            self.private_kb.len() == 2 && self.private_kb.iter().all(|kb| *kb == Some(0));
        has_no_private_pages && self.file.1 != "0" && !self.permissions.contains('w')
    }
}

fn parse_mappings(maps: &str) -> Vec<MemoryMapping<'_>> {
    let mut mappings: Vec<MemoryMapping<'_>> = Vec::new();
    for line in maps.lines() {
        if let Some(part) = parse_mapping_head(line) {
            mappings.push(part);
        } else if let Some(part) = mappings.last_mut()
            && let Some(("Anonymous" | "Swap", amount)) = line.split_once(':')
        {
            let kilobytes = amount.trim().strip_suffix(" kB");
            part.private_kb.push(kilobytes.and_then(|number| number.parse().ok()));
        }
    }
    mappings
}

/// `start-end permissions offset device inode path`.
fn parse_mapping_head(line: &str) -> Option<MemoryMapping<'_>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let (range, permissions) = (address(start)?..address(end)?, words.next()?);
    let mut rest = words.skip(1);
    Some(MemoryMapping {
        range,
        permissions,
        file: (rest.next()?, rest.next()?),
        private_kb: Vec::new(),
    })
}

#[expect(unsafe_code, reason = "see SAFETY")]
fn drop_pages(range: Range<usize>) {
    // SAFETY: the loader mapped this range from the program's own file for the lifetime of the process. It is not writable, and the kernel has
    // reported that none of its pages differs from the file. Dropped pages are read from the file again with the same content, so readers see no
    // change. The file cannot change while it runs (ETXTBSY); an upgrade replaces it.
    let _ = unsafe {
        libc::madvise(range.start as *mut libc::c_void, range.len(), libc::MADV_DONTNEED)
    };
}

/// Makes all threads share one heap. glibc otherwise gives threads separate arenas and never releases the end of such an arena, which a flood of
/// requests has grown. Call it before any thread starts.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "see SAFETY")]
pub fn share_one_heap() {
    // SAFETY: sets a tunable of glibc; no other thread exists that could read it concurrently (mallopt(3)).
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// Other allocators have no such setting.
#[cfg(not(target_env = "gnu"))]
pub fn share_one_heap() {}

#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "see SAFETY")]
fn trim_heap() {
    // SAFETY: glibc's allocator takes its own locks and releases only unallocated memory (malloc_trim(3)).
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators release memory on their own.
#[cfg(not(target_env = "gnu"))]
fn trim_heap() {}

#[cfg(test)]
mod tests {
    use super::{clean_ranges, parse_mappings, release_unused, share_one_heap};

    const MAPS: &str = "\
1000-3000 r--p 00000000 fe:00 77 /usr/bin/rpcd
Rss:                   8 kB
Anonymous:             0 kB
Swap:                  0 kB
3000-9000 r-xp 00002000 fe:00 77 /usr/bin/rpcd (deleted)
Anonymous:             0 kB
AnonHugePages:         0 kB
Swap:                  0 kB
SwapPss:               0 kB
9000-a000 r--p 00008000 fe:00 77 /usr/bin/rpcd
Anonymous:             4 kB
Swap:                  0 kB
a000-b000 r--p 00008000 fe:00 77 /usr/bin/rpcd
Anonymous:             0 kB
Swap:                  4 kB
b000-c000 rw-p 00009000 fe:00 77 /usr/bin/rpcd
Anonymous:             0 kB
Swap:                  0 kB
c000-d000 r-xp 00000000 fe:00 78 /usr/lib/libc.so.6
Anonymous:             0 kB
Swap:                  0 kB
d000-e000 r-xp 00000000 00:00 0 [vdso]
Anonymous:             0 kB
Swap:                  0 kB
e000-f000 r-xp 00000000 fe:00 77 /usr/bin/rpcd
Anonymous:             0 kB
";

    #[test]
    fn only_clean_mappings_of_the_program_are_released() {
        assert_eq!(clean_ranges(MAPS, 0x3abc), [0x1000..0x3000, 0x3000..0x9000]);
        // An address in an anonymous mapping, or in no mapping, yields no ranges.
        assert!(clean_ranges(MAPS, 0xd001).is_empty());
        assert!(clean_ranges(MAPS, 0x10).is_empty());
        assert!(clean_ranges("", 0x10).is_empty());
    }

    #[test]
    fn releasing_unused_pages_reduces_resident_memory() {
        let resident = || {
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let own = clean_ranges(&maps, resident_of as *const () as usize);
            assert!(!own.is_empty() && parse_mappings(&maps).len() > own.len());
            resident_of(&maps, &own)
        };
        let before = resident();
        release_unused();
        let after = resident();
        assert!(after < before, "{before} kB, then {after} kB");
    }

    fn resident_of(maps: &str, own: &[std::ops::Range<usize>]) -> u64 {
        let mut counts = false;
        let mut kilobytes = 0;
        for line in maps.lines() {
            if let Some(part) = super::parse_mapping_head(line) {
                counts = own.contains(&part.range);
            } else if counts && let Some(amount) = line.strip_prefix("Rss:") {
                let number = amount.trim().trim_end_matches(" kB");
                kilobytes += number.parse::<u64>().unwrap();
            }
        }
        kilobytes
    }

    /// Counts the heaps that glibc created for threads: their mappings start at multiples of 64 MiB.
    #[cfg(target_env = "gnu")]
    fn heaps_of_threads() -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let is_heap = |part: &&super::MemoryMapping<'_>| {
            part.range.start.is_multiple_of(64 << 20) && part.permissions == "rw-p"
        };
        parse_mappings(&maps).iter().filter(is_heap).count()
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn threads_share_one_heap() {
        share_one_heap();
        let before = heaps_of_threads();
        let all_are_there = std::sync::Barrier::new(8);
        let allocate = || {
            let kept: Vec<String> = (0..1000).map(|number: i32| number.to_string()).collect();
            all_are_there.wait();
            kept.len()
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(allocate)).collect();
            assert!(threads.into_iter().all(|thread| thread.join().unwrap() == 1000));
        });
        assert_eq!(heaps_of_threads(), before);
    }
}
