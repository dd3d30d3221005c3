//! Programs that stay and are talked to.

use std::path::Path;
use std::time::Duration;

use muster_system::command::CancelFlag;
use muster_system::{Command, System, SystemError};

use crate::host::{await_death, host, sh};

/// A program that answers each line with the line, until it is told otherwise.
const ECHO: &str = "while read -r line; do case $line in end) exit;; long) printf '%2000s\\n' x;; wait) sleep 60 & wait;; \
                *) echo \"$line!\"; echo \"complaint $line\" >&2;; esac; done";

fn converse(limit: usize) -> Box<dyn muster_system::InteractiveProcess> {
    let mut command = sh(ECHO);
    command.output_limit = limit;
    host().start_interactive(&command).unwrap()
}

const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_conversation_goes_line_by_line_until_the_program_ends() {
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

/// Standard error is read beside standard output: the end of one says nothing of the other.
#[test]
fn whoever_hears_the_end_may_read_all_complaints() {
    let script = "read -r line; exec >&-; sleep 0.3; echo \"it was $line\" >&2";
    let mut talk = host().start_interactive(&sh(script)).unwrap();
    talk.send_line("thirst").unwrap();
    assert_eq!(talk.receive_line(LONG, &CancelFlag::default()).unwrap(), None);
    assert_eq!(talk.stderr_tail(), "it was thirst");
}

#[test]
fn a_child_left_behind_does_not_hide_the_end() {
    let script = "exec 3>&1 >/dev/null; sleep 600 3>&- & echo $! >&3; echo bye >&2";
    let mut talk = host().start_interactive(&sh(script)).unwrap();
    let never = CancelFlag::default();
    let child = talk.receive_line(LONG, &never).unwrap().unwrap();
    assert_eq!(talk.receive_line(LONG, &never).unwrap(), None);
    assert!(Path::new("/proc").join(child).exists());
    assert_eq!(talk.stderr_tail(), "bye");
}

#[test]
fn a_silent_program_and_a_cancelled_request_end_the_waiting() {
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
fn a_line_without_end_is_refused_and_not_kept() {
    let mut talk = converse(100);
    talk.send_line("long").unwrap();
    let error = talk.receive_line(LONG, &CancelFlag::default()).unwrap_err();
    assert!(matches!(error, SystemError::Communication { .. }), "{error}");
}

#[test]
fn whoever_drops_a_conversation_ends_the_program_and_its_children() {
    let mut command = sh("sleep 60 & echo $!; wait");
    command.output_limit = 100;
    let mut talk = host().start_interactive(&command).unwrap();
    let child = talk.receive_line(LONG, &CancelFlag::default()).unwrap().unwrap();
    drop(talk);
    await_death(&child);
}

#[test]
fn a_program_that_is_not_there_cannot_be_talked_to() {
    let command = Command::new(["/no/such/program"]);
    let error = host().start_interactive(&command).unwrap_err();
    assert!(error.is_not_found(), "{error}");
}
