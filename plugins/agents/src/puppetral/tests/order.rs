//! Tests that changes are serialised and wait for runs of Puppet.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use muster_api::system::real::RealSystem;
use muster_api::wire::status::{ReplyReason, ReplyStatus};
use serde_json::json;
use tokio::task::JoinSet;

use super::{Machine, memory, output, scratch};

const LOCK: &str = "/opt/puppetlabs/puppet/cache/state/agent_catalog_run.lock";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hundred_concurrent_changes_of_one_file_are_all_applied() {
    let (_directory, system) = scratch();
    let machine = Machine::new(system, json!({}));
    let mut calls = JoinSet::new();
    for number in 1..=100 {
        let machine = machine.clone();
        calls.spawn(async move {
            let (name, ip) = (format!("node{number}"), format!("10.0.0.{number}"));
            machine.ask("do", json!({"type": "host", "name": name, "ip": ip})).await
        });
    }
    let answers = calls.join_all().await;
    assert!(answers.into_iter().all(|answer| answer.unwrap()["changed"] == json!(true)));
    let hosts = machine.text("/etc/hosts");
    assert!(hosts.starts_with("# mine\n127.0.0.1\tlocalhost\n"), "{hosts}");
    for number in 1..=100 {
        assert!(hosts.contains(&format!("\n10.0.0.{number}\tnode{number}\n")), "{hosts}");
    }
    assert_eq!(hosts.lines().count(), 102);
}

#[tokio::test]
async fn changes_are_refused_during_a_puppet_run_but_reads_are_allowed() {
    for (comm, cmdline) in [
        ("puppet", ""),
        ("rpc-puppet", ""),
        ("puppet-rpc", ""),
        ("ruby", "ruby\0/usr/bin/puppet\0agent"),
    ] {
        let system = memory();
        system.add_file(LOCK, "4711\n");
        system.add_file("/proc/4711/comm", format!("{comm}\n"));
        system.add_file("/proc/4711/cmdline", cmdline);
        let machine = Machine::new(system.clone(), json!({"lock_wait": 0}));
        let input = json!({"type": "host", "name": "db", "ip": "10.0.0.1"});
        let busy = machine.ask("do", input.clone()).await.unwrap_err();
        assert_eq!(busy.status, ReplyStatus::Other, "{comm}");
        assert!(
            matches!(busy.reason, Some(ReplyReason::Busy { .. })) && busy.message.contains("4711"),
            "{busy:?}"
        );
        assert!(!system.file_text("/etc/hosts").contains("db"));
        assert_eq!(machine.ask("plan", input.clone()).await.unwrap()["changed"], json!(true));
        machine.ask("find", json!({"type": "host", "name": "localhost"})).await.unwrap();

        system.add_file(LOCK, "");
        machine.converges(input).await;
        assert_eq!(system.file_text(LOCK), "", "the lock file of Puppet is unchanged");
    }
}

#[tokio::test]
async fn stale_puppet_locks_do_not_block() {
    for (content, comm) in [
        ("", "puppet"),
        ("garbage", "puppet"),
        ("4712", "puppet"),
        ("4711", "sshd"),
        ("4711", "ruby"),
    ] {
        let system = memory();
        system.add_file("/state/lock", content);
        system.add_file("/proc/4711/comm", comm);
        system.add_file("/proc/4711/cmdline", "sshd");
        let machine = Machine::new(system, json!({"lock": "/state/lock", "lock_wait": 0}));
        machine.converges(json!({"type": "host", "name": "db", "ip": "10.0.0.1"})).await;
    }
}

#[tokio::test]
async fn change_begins_after_the_run_has_ended() {
    let system = memory();
    system.add_file(LOCK, "4711");
    system.add_file("/proc/4711/comm", "puppet");
    let machine = Machine::new(system.clone(), json!({"lock_wait": 60}));
    let waiting = machine.clone();
    let change = tokio::spawn(async move {
        waiting.ask("do", json!({"type": "host", "name": "db", "ip": "10.0.0.1"})).await
    });
    let early = tokio::time::timeout(Duration::from_millis(50), async {
        while !change.is_finished() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(early.is_err(), "the change did not wait");
    system.add_file(LOCK, "");
    assert_eq!(change.await.unwrap().unwrap()["result"], json!("created"));
}

#[tokio::test]
async fn abandoned_call_releases_its_locks() {
    let system = memory();
    system.add_file(LOCK, "4711");
    system.add_file("/proc/4711/comm", "puppet");
    let machine = Machine::new(system.clone(), json!({}));
    let input = json!({"type": "host", "name": "db", "ip": "10.0.0.1"});
    let given_up =
        tokio::time::timeout(Duration::from_millis(20), machine.ask("do", input.clone())).await;
    assert!(given_up.is_err());
    system.add_file(LOCK, "");
    machine.converges(input).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn changes_do_not_overlap() {
    let system = memory();
    let (running, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    system.script_handler(&["/bin/work"], move |_, _| {
        seen.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        (0..1000).for_each(|_| std::thread::yield_now());
        running.fetch_sub(1, Ordering::SeqCst);
        output(0, "")
    });
    let machine = Machine::new(system.clone(), json!({"allow_types": ["exec"]}));
    let mut calls = JoinSet::new();
    for number in 0..20 {
        let machine = machine.clone();
        let name = format!("/bin/work {number}");
        calls.spawn(async move { machine.ask("do", json!({"type": "exec", "name": name})).await });
    }
    assert!(calls.join_all().await.into_iter().all(|answer| answer.is_ok()));
    assert_eq!((system.recorded_command_lines().len(), most.load(Ordering::SeqCst)), (20, 1));
}

#[tokio::test]
async fn reading_and_planning_do_not_wait_for_a_change() {
    let system = memory();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (end, may_end) = mpsc::channel();
    let (begun, may_end) = (Mutex::new(Some(begun)), Mutex::new(may_end));
    system.script_handler(&["/bin/slow"], move |_, _| {
        begun.lock().unwrap().take().unwrap().send(()).unwrap();
        let told = may_end.lock().unwrap().recv_timeout(Duration::from_secs(30));
        output(i32::from(told.is_err()), "")
    });
    let machine = Machine::new(system, json!({"deny_types": []}));
    let changing = machine.clone();
    let change = tokio::spawn(async move {
        changing.ask("do", json!({"type": "exec", "name": "/bin/slow"})).await
    });
    has_begun.await.unwrap();
    let host = json!({"type": "host", "name": "db", "ip": "10.0.0.1"});
    assert_eq!(machine.ask("plan", host).await.unwrap()["changed"], json!(true));
    machine.ask("search", json!({"type": "host"})).await.unwrap();
    machine.ask("find", json!({"type": "host", "name": "localhost"})).await.unwrap();
    assert!(!change.is_finished());
    end.send(()).unwrap();
    assert_eq!(change.await.unwrap().unwrap()["changed"], json!(true));
}

/// During a change, Puppet's lock file contains the PID of a living process with a name that Puppet recognises.
#[tokio::test]
async fn a10_8_puppet_lock_is_held_during_a_change() {
    let directory = tempfile::tempdir().unwrap();
    let lock = directory.path().join("agent_catalog_run.lock");
    let seen = directory.path().join("seen");
    let line = format!("/bin/sh -c 'cp {} {}'", lock.display(), seen.display());
    let options = json!({"lock": lock, "allow_types": ["exec"]});
    let machine = Machine::new(RealSystem::new("/".into()), options);
    let done = machine.ask("do", json!({"type": "exec", "name": line})).await;
    assert_eq!(done.unwrap()["changed"], true);
    let held = std::fs::read_to_string(seen).unwrap();
    assert_eq!(held, std::process::id().to_string());
    assert!(!lock.exists(), "released when the change was made");
}
