//! Features of `FakeSystem` only: scripted programs, recorded commands, a settable clock, and injected failures.

use std::path::Path;
use std::time::{Duration, SystemTime};

use muster_system::fake::FakeSystem;
use muster_system::{Command, CommandOutput, FileAttributes, System};

#[test]
fn programs_are_scripted_and_recorded() {
    let system = FakeSystem::new();
    assert!(system.run_command(&Command::new(["useradd", "rip"])).unwrap_err().is_not_found());
    system.script_output(&["useradd"], CommandOutput::new(9, "exists"));
    system.script_handler(&["useradd", "rip"], |system, _| {
        system.add_file("/etc/passwd", "rip");
        CommandOutput::new(0, "")
    });
    assert_eq!(system.run_command(&Command::new(["useradd", "x"])).unwrap().code, 9);
    assert!(system.run_command(&Command::new(["useradd", "rip", "-m"])).unwrap().is_success());
    assert_eq!(system.file_text("/etc/passwd"), "rip");
    assert_eq!(system.recorded_command_lines(), ["useradd rip", "useradd x", "useradd rip -m"]);
}

#[test]
fn injected_failures_occur_until_cleared() {
    let system = FakeSystem::new();
    system.add_file("/etc/shadow", "x");
    system.inject_failure("/etc/shadow", "write");
    let path = Path::new("/etc/shadow");
    let error = system.write_file(path, b"y", &FileAttributes::default()).unwrap_err();
    assert_eq!(error.to_string(), "cannot write /etc/shadow");
    assert_eq!(system.file_text("/etc/shadow"), "x");
    system.clear_failures();
    system.write_file(path, b"y", &FileAttributes::default()).unwrap();
}

#[test]
fn clock_changes_only_when_set() {
    let system = FakeSystem::new();
    assert_eq!(system.now(), system.now());
    let later = SystemTime::UNIX_EPOCH + Duration::from_hours(24);
    system.set_now(later);
    assert_eq!(system.now(), later);
}
