//! Changes that are planned, shown as a diff, made and undone, with the real programs on the five nodes of a demonstration.

use serde_json::Value;

use crate::demo::{Demo, describe_output};

/// The content of this file on each node.
fn contents(demo: &Demo, path: &str) -> Vec<String> {
    let nodes = std::fs::read_dir(demo.fleet().join("nodes")).unwrap();
    let roots = nodes.map(|node| node.unwrap().path().join("root"));
    roots.map(|root| std::fs::read_to_string(root.join(path)).unwrap_or_default()).collect()
}

/// The standard output of a command with this exit code.
fn output_text(demo: &Demo, arguments: &[&str], code: i32) -> String {
    let output = demo.rpc(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", describe_output(&output));
    describe_output(&output)
}

fn newest_job(demo: &Demo) -> String {
    let output = demo.rpc(&["job", "list", "-j"]);
    let jobs: Value = serde_json::from_slice(&output.stdout).unwrap();
    jobs.pointer("/jobs/0/id").and_then(Value::as_str).unwrap().to_owned()
}

#[test]
fn change_is_shown_as_a_diff_and_job_undo_restores_the_content() {
    let demo = Demo::start();
    let motd = |content: &'static str| {
        let content = if content == "old" { "content=old\n" } else { "content=new\n" };
        ["do", "puppetral", "type=file", "name=/etc/motd", content, "mode=0644"]
    };
    output_text(&demo, &motd("old"), 0);
    assert_eq!(contents(&demo, "etc/motd"), ["old\n"; 5]);

    let planned = output_text(&demo, &[&motd("new")[..], &["--noop"]].concat(), 0);
    for part in ["-old", "+new", "Would Change = 5", "noop: nothing was changed"] {
        assert!(planned.contains(part), "{part}: {planned}");
    }
    assert_eq!(contents(&demo, "etc/motd"), ["old\n"; 5]);
    let nothing = output_text(&demo, &["job", "undo", &newest_job(&demo), "-y"], 1);
    assert!(nothing.contains("no node that was changed by it"), "{nothing}");

    // The batches have requests of their own.
    let batches = ["--batch", "2", "--batch-sleep", "0"];
    let changed = output_text(&demo, &[&motd("new")[..], &batches].concat(), 0);
    assert!(changed.contains("-old") && changed.contains("Changed = 5"), "{changed}");
    assert_eq!(contents(&demo, "etc/motd"), ["new\n"; 5]);
    let job = newest_job(&demo);
    let planned = output_text(&demo, &["job", "undo", &job, "--noop"], 0);
    assert!(planned.contains("+old") && planned.contains("Would Change = 5"), "{planned}");
    assert_eq!(contents(&demo, "etc/motd"), ["new\n"; 5]);
    let undone = output_text(&demo, &["job", "undo", &job, "-y"], 0);
    assert!(undone.contains("-new") && undone.contains("Finished processing 5 / 5"), "{undone}");
    assert_eq!(contents(&demo, "etc/motd"), ["old\n"; 5]);
    // The undo of three batches is one job.
    let shown: Value =
        serde_json::from_slice(&demo.rpc(&["job", "show", &newest_job(&demo), "-j"]).stdout)
            .unwrap();
    assert_eq!(shown["replies"].as_array().map(Vec::len), Some(5), "{shown}");
    assert_eq!(shown["job"]["state"], "finished", "{shown}");
}

#[test]
fn undo_of_a_file_edited_by_hand_is_refused_with_the_diff_unless_forced() {
    let demo = Demo::start();
    let change = ["do", "puppetral", "type=file", "name=/etc/motd", "content=new\n", "mode=0644"];
    output_text(&demo, &change, 0);
    let nodes = std::fs::read_dir(demo.fleet().join("nodes")).unwrap();
    let edited = nodes.map(|node| node.unwrap().path()).min().unwrap();
    std::fs::write(edited.join("root/etc/motd"), "new\nby hand\n").unwrap();
    let job = newest_job(&demo);
    let refused = output_text(&demo, &["job", "undo", &job, "-y"], 2);
    for part in ["+by hand", "nothing was undone", "--force"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    let left = contents(&demo, "etc/motd");
    assert_eq!(left.iter().filter(|content| *content == "new\nby hand\n").count(), 1, "{left:?}");
    assert_eq!(left.iter().filter(|content| content.is_empty()).count(), 4, "{left:?}");
    output_text(&demo, &["job", "undo", &job, "-y", "--force"], 0);
    assert_eq!(contents(&demo, "etc/motd"), [""; 5]);
}

#[test]
fn diff_of_a_file_that_not_everyone_may_read_is_not_shown() {
    let demo = Demo::start();
    let line = |content, more: &[&'static str]| {
        let line = ["do", "puppetral", "type=file", "name=/etc/secret", content, "mode=0600", "-1"];
        [&line, more].concat()
    };
    output_text(&demo, &line("content=first-password", &["--limit-seed", "1"]), 0);
    let changed = output_text(&demo, &line("content=other", &["--limit-seed", "1"]), 0);
    assert!(!changed.contains("first-password"), "{changed}");
    assert!(changed.contains("not every user may read the file"), "{changed}");
    // Planning needs no right to change the node, so it shows no content.
    let plan = ["do", "puppetral", "plan", "type=file", "name=/etc/secret", "content=x"];
    let planned = output_text(&demo, &plan, 0);
    assert!(!planned.contains("other"), "{planned}");
}

#[test]
fn actions_without_noop_or_undo_say_so_before_anything_is_sent() {
    let demo = Demo::start();
    let refused = output_text(&demo, &["do", "shell", "run", "command=true", "--noop"], 4);
    assert!(refused.contains("nothing was sent"), "{refused}");
    output_text(&demo, &["do", "rpcutil", "ping", "--job", "pings"], 0);
    let refused = output_text(&demo, &["job", "undo", "pings"], 1);
    assert!(refused.contains("no node that was changed by it"), "{refused}");
}

#[test]
fn equal_failures_are_shown_once_with_their_nodes() {
    let demo = Demo::start();
    let request = ["do", "puppetral", "type=user", "name=rip", "wings=2", "--skip-input-check"];
    let failed = output_text(&demo, &request, 2);
    assert_eq!(failed.matches("wings").count(), 1, "{failed}");
    assert!(failed.contains("5 nodes") && failed.contains("5 failed (5 invalid data)"), "{failed}");
}
