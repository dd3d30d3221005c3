//! Interactive processes: programs that read and write lines.

use std::path::Path;
use std::time::Duration;

use muster_system::command::CancelFlag;
use muster_system::{Command, System, SystemError};

use super::host::{await_death, host, sh};

/// A program that echoes each line on both streams. The lines `end`, `long` and `wait` make it exit, print a long line, or hang.
const ECHO: &str = "while read -r line; do case $line in end) exit;; long) printf '%2000s\\n' x;; wait) sleep 60 & wait;; \
                *) echo \"$line!\"; echo \"complaint $line\" >&2;; esac; done";

fn converse(limit: usize) -> Box<dyn muster_system::InteractiveProcess> {
    let mut command = sh(ECHO);
    command.output_limit = limit;
    host().start_interactive(&command).unwrap()
}

const LONG: Duration = Duration::from_secs(20);

#[test]
fn lines_are_exchanged_until_the_program_ends() {
    let mut talk = converse(1024);
    let never = CancelFlag::default();
    for line in ["one", "two"] {
        talk.send_line(line).unwrap();
        let answer = talk.receive_line(LONG, &never).unwrap();
        assert_eq!(answer.as_deref(), Some(format!("{line}!").as_str()));
    }
    talk.send_line("end").unwrap();
    assert_eq!(talk.receive_line(LONG, &never).unwrap(), None);
    assert!(talk.stderr_tail().starts_with("complaint one"), "{}", talk.stderr_tail());
    assert_eq!(talk.receive_line(LONG, &never).unwrap(), None);
}

/// Both streams are read independently, so standard error may end after standard output.
#[test]
fn stderr_is_complete_when_the_end_is_received() {
    let script = "read -r line; exec >&-; sleep 0.3; echo \"it was $line\" >&2";
    let mut talk = host().start_interactive(&sh(script)).unwrap();
    talk.send_line("thirst").unwrap();
    assert_eq!(talk.receive_line(LONG, &CancelFlag::default()).unwrap(), None);
    assert_eq!(talk.stderr_tail(), "it was thirst");
}

#[test]
fn remaining_child_does_not_hide_the_end() {
    let script = "exec 3>&1 >/dev/null; sleep 600 3>&- & echo $! >&3; echo bye >&2";
    let mut talk = host().start_interactive(&sh(script)).unwrap();
    let never = CancelFlag::default();
    let child = talk.receive_line(LONG, &never).unwrap().unwrap();
    assert_eq!(talk.receive_line(LONG, &never).unwrap(), None);
    assert!(Path::new("/proc").join(child).exists());
    assert_eq!(talk.stderr_tail(), "bye");
}

#[test]
fn receiving_ends_on_timeout_and_cancellation() {
    let mut talk = converse(1024);
    let cancel = CancelFlag::default();
    talk.send_line("wait").unwrap();
    let late = talk.receive_line(Duration::from_millis(50), &cancel).unwrap_err();
    assert!(matches!(late, SystemError::Timeout { .. }), "{late}");
    cancel.cancel();
    let cancelled = talk.receive_line(LONG, &cancel).unwrap_err();
    assert!(matches!(cancelled, SystemError::Cancelled { .. }), "{cancelled}");
}

#[test]
fn line_above_the_limit_is_refused() {
    let mut talk = converse(100);
    talk.send_line("long").unwrap();
    let error = talk.receive_line(LONG, &CancelFlag::default()).unwrap_err();
    assert!(matches!(error, SystemError::Communication { .. }), "{error}");
}

#[test]
fn dropping_an_interactive_process_kills_its_children() {
    let mut command = sh("sleep 60 & echo $!; wait");
    command.output_limit = 100;
    let mut talk = host().start_interactive(&command).unwrap();
    let child = talk.receive_line(LONG, &CancelFlag::default()).unwrap().unwrap();
    drop(talk);
    await_death(&child);
}

#[test]
fn missing_program_is_not_found() {
    let command = Command::new(["/no/such/program"]);
    let error = host().start_interactive(&command).unwrap_err();
    assert!(error.is_not_found(), "{error}");
}
