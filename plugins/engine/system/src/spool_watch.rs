//! Waits for the exit code of a detached program in its spool.

use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use crate::process::pause;

/// Notices when a file is renamed into a spool, as the exit code is. Where the kernel provides no further watch, only time
/// passes.
#[derive(Debug)]
pub struct SpoolWatch(Option<Inotify>);

impl SpoolWatch {
    /// Watches a spool's directory. To miss no exit, create it before the first look at the exit code.
    pub fn open(directory: &Path) -> Self {
        let opened = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK);
        let watch = opened.and_then(|inotify| {
            inotify.add_watch(directory, AddWatchFlags::IN_MOVED_TO)?;
            Ok(inotify)
        });
        Self(watch.ok())
    }

    /// Blocks until a file was renamed into the spool since the last call, at most this long.
    pub fn wait(&mut self, timeout: Duration) {
        let Some(inotify) = &self.0 else { return pause(timeout) };
        let limit = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        let mut descriptors = [PollFd::new(inotify.as_fd(), PollFlags::POLLIN)];
        match poll(&mut descriptors, limit) {
            Ok(0) => {}
            // The events are not needed. Unread ones would end the next wait at once.
            Ok(_) if inotify.read_events().is_ok() => {}
            Ok(_) | Err(_) => {
                self.0 = None;
                pause(timeout);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::SpoolWatch;

    #[test]
    fn renamed_file_ends_the_wait_and_a_missing_directory_only_waits() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mut watch = SpoolWatch::open(directory.path());
        std::fs::write(path("exit.new"), "0").unwrap();
        std::fs::rename(path("exit.new"), path("exit")).unwrap();
        let started = Instant::now();
        watch.wait(Duration::from_mins(1));
        assert!(started.elapsed() < Duration::from_secs(30));
        let started = Instant::now();
        watch.wait(Duration::from_millis(20));
        assert!(started.elapsed() >= Duration::from_millis(20), "an event ends one wait only");
        let started = Instant::now();
        SpoolWatch::open(&path("missing")).wait(Duration::from_millis(20));
        assert!(started.elapsed() >= Duration::from_millis(20));
    }
}
