//! Programs that stay and are talked to.

use std::path::Path;
use std::time::Duration;

use muster_system::command::Cancel;
use muster_system::{Command, System, SystemError};

use crate::host::{await_death, host, sh};

/// A program that answers each line with the line, until it is told otherwise.
const ECHO: &str = "while read -r line; do case $line in end) exit;; long) printf '%2000s\\n' x;; wait) sleep 60 & wait;; \
                *) echo \"$line!\"; echo \"complaint $line\" >&2;; esac; done";

fn converse(limit: usize) -> Box<dyn muster_system::Conversation> {
    let mut command = sh(ECHO);
    command.output_limit = limit;
    host().converse(&command).unwrap()
}

const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_conversation_goes_line_by_line_until_the_program_ends() {
    let mut talk = converse(1024);
    let never = Cancel::default();
    for line in ["one", "two"] {
        talk.say(line).unwrap();
        let answer = talk.hear(LONG, &never).unwrap();
        assert_eq!(answer.as_deref(), Some(format!("{line}!").as_str()));
    }
    talk.say("end").unwrap();
    assert_eq!(talk.hear(LONG, &never).unwrap(), None);
    assert!(
        talk.complaints().starts_with("complaint one"),
        "{}",
        talk.complaints()
    );
    assert_eq!(talk.hear(LONG, &never).unwrap(), None);
}

/// Standard error is read beside standard output: the end of one says nothing of the other.
#[test]
fn whoever_hears_the_end_may_read_all_complaints() {
    let script = "read -r line; exec >&-; sleep 0.3; echo \"it was $line\" >&2";
    let mut talk = host().converse(&sh(script)).unwrap();
    talk.say("thirst").unwrap();
    assert_eq!(talk.hear(LONG, &Cancel::default()).unwrap(), None);
    assert_eq!(talk.complaints(), "it was thirst");
}

#[test]
fn a_child_left_behind_does_not_hide_the_end() {
    let script = "exec 3>&1 >/dev/null; sleep 600 3>&- & echo $! >&3; echo bye >&2";
    let mut talk = host().converse(&sh(script)).unwrap();
    let never = Cancel::default();
    let child = talk.hear(LONG, &never).unwrap().unwrap();
    assert_eq!(talk.hear(LONG, &never).unwrap(), None);
    assert!(Path::new("/proc").join(child).exists());
    assert_eq!(talk.complaints(), "bye");
}

#[test]
fn a_silent_program_and_a_cancelled_request_end_the_waiting() {
    let mut talk = converse(1024);
    let cancel = Cancel::default();
    talk.say("wait").unwrap();
    let late = talk.hear(Duration::from_millis(50), &cancel).unwrap_err();
    assert!(matches!(late, SystemError::Timeout { .. }), "{late}");
    cancel.cancel();
    let cancelled = talk.hear(LONG, &cancel).unwrap_err();
    assert!(
        matches!(cancelled, SystemError::Cancelled { .. }),
        "{cancelled}"
    );
}

#[test]
fn a_line_without_end_is_refused_and_not_kept() {
    let mut talk = converse(100);
    talk.say("long").unwrap();
    let error = talk.hear(LONG, &Cancel::default()).unwrap_err();
    assert!(matches!(error, SystemError::Talk { .. }), "{error}");
}

#[test]
fn whoever_drops_a_conversation_ends_the_program_and_its_children() {
    let mut command = sh("sleep 60 & echo $!; wait");
    command.output_limit = 100;
    let mut talk = host().converse(&command).unwrap();
    let child = talk.hear(LONG, &Cancel::default()).unwrap().unwrap();
    drop(talk);
    await_death(&child);
}

#[test]
fn a_program_that_is_not_there_cannot_be_talked_to() {
    let command = Command::new(["/no/such/program"]);
    let error = host().converse(&command).unwrap_err();
    assert!(error.is_not_found(), "{error}");
}
