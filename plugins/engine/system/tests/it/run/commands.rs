//! Commands: output, input, environment, timeout, cancellation, detached processes, and scratch roots.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use muster_system::command::{CancelFlag, OutputListener, OutputStream};
use muster_system::real::RealSystem;
use muster_system::{
    Command, FileAttributes, ProcessId, ProcessSpool, Signal, System, SystemError,
};

use super::host::{await_death, host, sh};

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

fn scratch() -> (tempfile::TempDir, RealSystem) {
    let scratch = tempfile::tempdir().unwrap();
    // Commands that run as an ordinary user must be able to enter the scratch root.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(scratch.path(), open).unwrap();
    let system = RealSystem::new(scratch.path().to_owned());
    for name in ["/etc", "/tmp"] {
        system.create_dir(Path::new(name), &FileAttributes::default()).unwrap();
    }
    (scratch, system)
}

#[test]
fn listener_receives_both_streams_before_a_timeout() {
    let heard = Arc::new(Mutex::new((Vec::new(), Vec::new())));
    let ear = Arc::clone(&heard);
    let mut command = sh("echo out; echo err >&2; exec sleep 60");
    command.timeout = Some(Duration::from_secs(2));
    command.output_limit = 0;
    command.listener = Some(OutputListener::new(move |stream, bytes| {
        let mut heard = ear.lock().unwrap();
        match stream {
            OutputStream::Stdout => heard.0.extend_from_slice(bytes),
            OutputStream::Stderr => heard.1.extend_from_slice(bytes),
        }
    }));
    let error = host().run_command(&command).unwrap_err();
    assert!(matches!(error, SystemError::Timeout { .. }), "{error}");
    let heard = heard.lock().unwrap();
    assert_eq!((&heard.0[..], &heard.1[..]), (&b"out\n"[..], &b"err\n"[..]));
}

/// Waits at most one minute until the file exists, and reads it.
fn await_file(path: &Path) -> String {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        match fs::read_to_string(path) {
            Ok(text) => return text,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        std::thread::yield_now();
    }
}

/// A spool for the output and exit code of a detached process.
fn spool() -> (tempfile::TempDir, ProcessSpool) {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().to_owned();
    let limit = 1000;
    (scratch, ProcessSpool { directory, limit })
}

#[test]
fn detached_process_leaves_its_output_and_exit_code() {
    let (scratch, system) = scratch();
    for system in [host(), system] {
        let (spool, kept) = spool();
        let mut command = sh("cat; echo $WORD $PATH; pwd; echo err >&2; exit 7");
        command.stdin = b"in\n".to_vec();
        command.env.insert("WORD".to_owned(), "word".to_owned());
        command.env.insert("PATH".to_owned(), "/usr/sbin:/usr/bin:/sbin:/bin:/own".to_owned());
        command.cwd = Some(PathBuf::from("/tmp"));
        let process = system.start_detached(&command, &kept).unwrap();
        let file = |name: &str| spool.path().join(name);
        assert_eq!(await_file(&file(ProcessSpool::EXIT)), "7\n", "{}", system.root().display());
        await_death(&process.pid.to_string());
        assert!(!system.is_running(&process));
        let text = |name: &str| fs::read_to_string(file(name)).unwrap();
        assert_eq!(
            text(ProcessSpool::STDOUT),
            "in\nword /usr/sbin:/usr/bin:/sbin:/bin:/own\n/tmp\n"
        );
        assert_eq!(text(ProcessSpool::STDERR), "err\n");
        let mut left: Vec<_> = fs::read_dir(spool.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["exit", "pid", "stderr", "stdout"]);
    }
    drop(scratch);
}

#[test]
fn detached_process_is_found_by_its_spool() {
    let system = host();
    let (spool, kept) = spool();
    assert_eq!(ProcessSpool::find_process(spool.path()), None);
    let process = system.start_detached(&sh("read line"), &kept).unwrap();
    await_file(&spool.path().join(ProcessSpool::EXIT));
    await_death(&process.pid.to_string());
    let ended = ProcessSpool::find_process(spool.path()).unwrap();
    assert_eq!(ended.pid, process.pid);
    assert!(!system.is_running(&ended));
    // A running one, and another process with the same id.
    let process = system.start_detached(&sh("exec sleep 60"), &kept).unwrap();
    await_file(&spool.path().join(ProcessSpool::PID));
    assert_eq!(ProcessSpool::find_process(spool.path()), Some(process));
    fs::write(spool.path().join(ProcessSpool::PID), std::process::id().to_string()).unwrap();
    assert!(!system.is_running(&ProcessSpool::find_process(spool.path()).unwrap()));
    system.signal_process(&process, Signal::SIGKILL, true).unwrap();
}

#[test]
fn second_process_does_not_see_the_results_of_the_first() {
    let (spool, kept) = spool();
    let file = |name: &str| spool.path().join(name);
    let first = host().start_detached(&sh("echo first; exit 1"), &kept).unwrap();
    assert_eq!(await_file(&file(ProcessSpool::EXIT)), "1\n");
    await_death(&first.pid.to_string());
    // A supervising process that was killed leaves its pipes.
    fs::write(file("out.pipe"), "").unwrap();
    let second = sh("read -r word; echo \"$word\"; exit 2");
    let second = Command { stdin: b"second\n".to_vec(), ..second };
    let second = host().start_detached(&second, &kept).unwrap();
    assert_eq!(await_file(&file(ProcessSpool::EXIT)), "2\n");
    await_death(&second.pid.to_string());
    let said = fs::read_to_string(file(ProcessSpool::STDOUT)).unwrap();
    assert_eq!(said, "second\n");
}

#[test]
fn process_is_identified_by_start_time_and_signalled_with_its_group() {
    let (_spool, kept) = spool();
    let process = host().start_detached(&sh("exec sleep 600"), &kept).unwrap();
    assert!(host().is_running(&process));
    let other = ProcessId { started: process.started + 1, ..process };
    assert!(!host().is_running(&other));
    assert!(!host().signal_process(&other, Signal::SIGKILL, true).unwrap());
    assert!(host().signal_process(&process, Signal::SIGKILL, true).unwrap());
    await_death(&process.pid.to_string());
    assert!(!host().signal_process(&process, Signal::SIGKILL, true).unwrap());
}

#[test]
fn command_gets_its_input_and_a_clean_environment() {
    let system = host();
    let output = system.run_command(&sh("echo out; echo err >&2; exit 7")).unwrap();
    assert_eq!(output.code, 7);
    assert_eq!(output.stdout, b"out\n");
    assert_eq!(output.combined.len(), 8);
    let mut cat = Command::new(["cat"]);
    cat.stdin = vec![b'x'; 300_000];
    assert_eq!(system.run_command(&cat).unwrap().stdout, cat.stdin);
    let mut env = Command::new(["env"]);
    env.env.insert("FOO".to_owned(), "bar".to_owned());
    let text = system.run_command(&env).unwrap().combined_text();
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
    names.sort_unstable();
    assert_eq!(names, ["FOO", "HOME", "LANG", "LC_ALL", "PATH"]);
    assert_eq!(system.run_command(&sh("kill -9 $$")).unwrap().code, 137);
    let mut unread = Command::new(["true"]);
    unread.stdin = vec![0; 1 << 20];
    assert!(system.run_command(&unread).unwrap().is_success());
}

#[test]
fn command_runs_with_its_directory_and_umask() {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = sh("pwd; umask; printf %s \"$1\"");
    command.argv.extend(["sh".to_owned(), "a b'\"$c".to_owned()]);
    command.cwd = Some(scratch.path().to_owned());
    command.umask = Some(0o027);
    let text = host().run_command(&command).unwrap().combined_text();
    assert_eq!(text, format!("{}\n0027\na b'\"$c", scratch.path().display()));
}

#[test]
fn missing_program_is_an_error() {
    let (_scratch, inside) = scratch();
    for system in [host(), inside] {
        for program in ["no-such-program", "/no/such/program", ""] {
            let mut command = Command::new([program]);
            command.umask = Some(0o022);
            let error = system.run_command(&command).unwrap_err();
            assert!(error.is_not_found(), "{program}: {error:?}");
        }
        let error = system.run_command(&Command::new(["/etc"])).unwrap_err();
        assert!(matches!(error, SystemError::Start { .. }), "{error}");
    }
}

#[test]
fn output_is_truncated_at_the_limit() {
    let mut command = sh("head -c 3000000 /dev/zero");
    command.output_limit = 1000;
    let output = host().run_command(&command).unwrap();
    assert!(output.is_success());
    assert!(output.truncated);
    assert_eq!((output.combined.len(), output.stdout.len()), (1000, 1000));
}

/// Descendants that ignore TERM and keep the streams open.
const STUBBORN: &str =
    "trap '' TERM; (trap '' TERM; echo $$ >&2; while :; do read x < /dev/zero; done) & wait; wait";

#[test]
fn timeout_kills_a_group_that_ignores_term() {
    let mut command = sh(STUBBORN);
    command.timeout = Some(Duration::from_millis(200));
    let begin = Instant::now();
    let error = host().run_command(&command).unwrap_err();
    assert!(matches!(error, SystemError::Timeout { .. }), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn timeout_kills_all_processes_of_the_group() {
    let (scratch, inside) = scratch();
    let pids = scratch.path().join("tmp/pids");
    let outside = format!("echo $$ >> {0}; sleep 100 & echo $! >> {0}; wait", pids.display());
    let within = "echo $$ >> /tmp/pids; sleep 100 & echo $! >> /tmp/pids; wait";
    for (system, script) in [(host(), outside.as_str()), (inside, within)] {
        let mut command = sh(script);
        let mut timeout = Duration::from_millis(700);
        // On a busy machine the shell may not have written both lines in time.
        let written = loop {
            command.timeout = Some(timeout);
            system.run_command(&command).unwrap_err();
            let written = fs::read_to_string(&pids).unwrap_or_default();
            if written.lines().count() == 2 {
                break written;
            }
            let _ = fs::remove_file(&pids);
            timeout *= 3;
            assert!(timeout < Duration::from_mins(1), "{script}: {written}");
        };
        for pid in written.lines() {
            await_death(pid);
        }
        fs::remove_file(&pids).unwrap();
    }
}

#[test]
fn cancellation_ends_a_command() {
    let mut command = sh("sleep 100");
    command.cancel = CancelFlag::default();
    let cancel = command.cancel.clone();
    let scratch = tempfile::tempdir().unwrap();
    let ready = scratch.path().join("ready");
    command.argv = vec![
        "/bin/sh".to_owned(),
        "-c".to_owned(),
        "mkfifo \"$0\"; read line < \"$0\"; sleep 100".to_owned(),
        ready.to_string_lossy().into_owned(),
    ];
    let running = std::thread::spawn(move || host().run_command(&command));
    // The write opens only when the command reads.
    while fs::symlink_metadata(&ready).is_err() {
        std::thread::yield_now();
    }
    fs::write(&ready, "go\n").unwrap();
    cancel.cancel();
    let error = running.join().unwrap().unwrap_err();
    assert!(matches!(error, SystemError::Cancelled { .. }), "{error}");
    let mut late = sh("true");
    late.cancel = cancel;
    assert!(matches!(host().run_command(&late), Err(SystemError::Cancelled { .. })));
}

/// apt that is killed leaves packages half-configured: it goes on, and its output does not break.
#[test]
fn uninterrupted_command_goes_on_after_a_cancellation() {
    let scratch = tempfile::tempdir().unwrap();
    let script = format!(
        "trap 'exit 9' PIPE; cat; : > {0}/begun; until test -e {0}/go; do sleep 0.02; done; echo more && : > {0}/end",
        scratch.path().display()
    );
    let mut command = Command { uninterrupted: true, stdin: b"input\n".to_vec(), ..sh(&script) };
    command.cancel = CancelFlag::default();
    let running = {
        let command = command.clone();
        std::thread::spawn(move || host().run_command(&command))
    };
    while !scratch.path().join("begun").exists() {
        std::thread::yield_now();
    }
    command.cancel.cancel();
    let error = running.join().unwrap().unwrap_err();
    let SystemError::LeftRunning { pid, .. } = error else { panic!("{error}") };
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    fs::write(scratch.path().join("go"), "").unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !scratch.path().join("end").exists() {
        assert!(Instant::now() < deadline, "the program did not reach its end");
        std::thread::yield_now();
    }

    // Not cancelled, it returns both streams and its code.
    let plain = Command { uninterrupted: true, ..sh("echo out; echo err >&2; exit 3") };
    let output = host().run_command(&plain).unwrap();
    assert_eq!((output.code, output.combined_text().as_str()), (3, "out\nerr\n"));
    let slow = Command {
        uninterrupted: true,
        timeout: Some(Duration::from_millis(200)),
        ..sh("sleep 100")
    };
    let error = host().run_command(&slow).unwrap_err();
    assert!(matches!(error, SystemError::Timeout { .. }), "{error}");
}

#[test]
fn background_process_that_keeps_the_streams_is_not_awaited() {
    let begin = Instant::now();
    let output = host().run_command(&sh("sleep 30 & echo $!")).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(20));
    let pid: i32 = output.combined_text().trim().parse().unwrap();
    let daemon = nix::unistd::Pid::from_raw(pid);
    nix::sys::signal::kill(daemon, Signal::SIGKILL).unwrap();
}

#[test]
fn command_runs_as_another_user_with_its_groups() {
    let mut command = Command::new(["id"]);
    command.uid = Some(1); // daemon, on every Linux
    let result = host().run_command(&command);
    if is_root() {
        let text = result.unwrap().combined_text();
        assert!(text.starts_with("uid=1("), "{text}");
        assert!(text.contains("gid=1("), "{text}");
        assert!(!text.contains("0(root)"), "{text}");
    } else {
        let error = result.unwrap_err();
        assert!(matches!(error, SystemError::Start { .. }), "{error}");
    }
}

#[test]
fn scratch_root_is_isolated() {
    let (scratch, system) = scratch();
    system
        .write_file(Path::new("/etc/hostname"), b"scratch\n", &FileAttributes::default())
        .unwrap();
    let output = system.run_command(&sh("/bin/date > /tmp/date; cat /etc/hostname; pwd")).unwrap();
    assert_eq!(output.combined_text(), "scratch\n/\n");
    assert!(fs::metadata(scratch.path().join("tmp/date")).unwrap().len() > 10);
    assert!(!Path::new("/tmp/date").exists());
    let mut command = sh("pwd; umask; ls /; exit 3");
    command.cwd = Some(PathBuf::from("/tmp"));
    command.umask = Some(0o077);
    let output = system.run_command(&command).unwrap();
    assert_eq!(output.code, 3);
    assert!(output.combined_text().starts_with("/tmp\n0077\nbin\n"), "{}", output.combined_text());
    // The directories that the first run created do not affect the second.
    assert_eq!(system.run_command(&command).unwrap(), output);
    assert_eq!(fs::read_dir(scratch.path().join("usr")).unwrap().count(), 0);
    command.cwd = Some(PathBuf::from("/missing"));
    let error = system.run_command(&command).unwrap_err();
    assert!(matches!(error, SystemError::Start { .. }), "{error}");
}

/// Debian's `awk` is a link to `/etc/alternatives/awk`.
#[test]
fn scratch_root_has_the_alternatives_of_borrowed_programs() {
    let (scratch, system) = scratch();
    for _ in 0..2 {
        let output = system.run_command(&sh("awk 'BEGIN { print 6 * 7 }'")).unwrap();
        assert_eq!(output.combined_text(), "42\n");
    }
    let own = fs::read_dir(scratch.path().join("etc/alternatives")).into_iter().flatten();
    assert_eq!(own.count(), 0);
}

#[test]
fn scratch_root_cannot_change_host_programs() {
    let (_scratch, system) = scratch();
    let output = system.run_command(&sh("touch /usr/bin/muster-test")).unwrap();
    assert!(!output.is_success(), "{}", output.combined_text());
    assert!(!Path::new("/usr/bin/muster-test").exists());
}

#[test]
fn scratch_root_can_replace_single_programs() {
    let (scratch, system) = scratch();
    for name in ["/usr", "/usr/local", "/usr/local/bin"] {
        system.create_dir(Path::new(name), &FileAttributes::default()).unwrap();
    }
    let executable = FileAttributes::with_mode(0o755);
    let script = b"#!/bin/sh\necho own\n";
    for name in ["date", "muster-own"] {
        let path = Path::new("/usr/local/bin").join(name);
        system.write_file(&path, script, &executable).unwrap();
    }
    for name in ["date", "muster-own"] {
        let output = system.run_command(&Command::new([name])).unwrap();
        assert_eq!(output.combined_text(), "own\n", "{name}");
    }
    // The other directories of /usr are those of the host, and remain empty in the root.
    for _ in 0..2 {
        assert!(system.run_command(&Command::new(["/usr/bin/env"])).unwrap().is_success());
    }
    assert_eq!(fs::read_dir(scratch.path().join("usr/bin")).unwrap().count(), 0);
    let output = system.run_command(&sh("touch /usr/bin/muster-test")).unwrap();
    assert!(!output.is_success(), "{}", output.combined_text());
}

#[test]
fn scratch_root_has_only_the_processes_inside_it() {
    let (_scratch, system) = scratch();
    let (_other_scratch, other) = scratch();
    let own = std::process::id();
    assert!(host().list_processes().unwrap().contains(&own));
    assert_eq!(system.list_processes().unwrap(), Vec::<u32>::new());
    assert!(system.read_process_file(own, "stat", 1000).unwrap_err().is_not_found());
    let output = system.run_command(&sh("sleep 600 </dev/null >/dev/null 2>&1 & echo $!")).unwrap();
    let pid: u32 = output.stdout_text().trim().parse().unwrap();
    assert_eq!(system.list_processes().unwrap(), [pid]);
    assert_eq!(system.read_process_file(pid, "comm", 1000).unwrap(), b"sleep\n");
    assert_eq!(other.list_processes().unwrap(), Vec::<u32>::new());
    let process = ProcessId::from_pid(pid).unwrap();
    assert!(system.signal_process(&process, Signal::SIGKILL, false).unwrap());
    await_death(&pid.to_string());
    assert_eq!(system.list_processes().unwrap(), Vec::<u32>::new());
}

#[test]
fn scratch_root_has_its_own_users() {
    let (_scratch, system) = scratch();
    let passwd = b"root:x:0:0::/root:/bin/sh\nrip:x:4242:4243::/home/rip:/bin/sh\n";
    system.write_file(Path::new("/etc/passwd"), passwd, &FileAttributes::default()).unwrap();
    let group = b"root:x:0:\nrip:x:4243:\nwheel:x:4244:rip\n";
    system.write_file(Path::new("/etc/group"), group, &FileAttributes::default()).unwrap();
    let mut command = sh("id; echo $HOME");
    command.uid = Some(4242);
    let result = system.run_command(&command);
    if is_root() {
        let text = result.unwrap().combined_text();
        assert_eq!(text, "uid=4242(rip) gid=4243(rip) groups=4243(rip),4244(wheel)\n/home/rip\n");
    } else {
        let error = result.unwrap_err();
        assert!(matches!(error, SystemError::Start { .. }), "{error}");
    }
    command.uid = Some(0);
    assert!(system.run_command(&command).unwrap().combined_text().starts_with("uid=0(root)"));
}

#[test]
fn concurrent_commands_enter_a_new_scratch_root() {
    let (_scratch, system) = scratch();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let output = system.run_command(&sh("ls -d /bin/sh")).unwrap();
                assert_eq!(output.combined_text(), "/bin/sh\n");
            });
        }
    });
}

/// The environment variable that names the file for the pid of the program.
const PID_FILE: &str = "MUSTER_TEST_PID_FILE";

/// Waits for a program that ignores the end of its pipes, as Puppet does. Started as a process of its own by the next test.
#[test]
#[ignore = "started by killed_parent_leaves_no_program_behind"]
fn wait_for_an_endless_program() {
    let file = std::env::var(PID_FILE).unwrap();
    let mut command =
        sh(&format!("trap '' PIPE; echo $$ > {file}.new; mv {file}.new {file}; exec sleep 600"));
    command.killed_with_parent = true;
    let _ = host().run_command(&command);
}

#[test]
#[expect(clippy::disallowed_types, reason = "starts a process that is killed")]
fn killed_parent_leaves_no_program_behind() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("pid");
    let test = "run::commands::wait_for_an_endless_program";
    let mut parent = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored"])
        .env(PID_FILE, &file)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_mins(1);
    let pid = loop {
        match fs::read_to_string(&file) {
            Ok(pid) => break pid,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        std::thread::yield_now();
    };
    parent.kill().unwrap();
    parent.wait().unwrap();
    await_death(pid.trim());
}
