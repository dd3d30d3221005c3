//! Inputs on the command line of the real `rpc`: lists, files, the standard input, and what is refused before anything is sent.

use std::process::{Output, Stdio};

use muster_tests::command::{RpcCommand, describe_output};
use tokio::io::AsyncWriteExt as _;

use crate::node_fixture::NodeFixture;

/// A node with a scratch root, and a caller's `rpc`.
struct InputFixture {
    node: NodeFixture,
    rpc: RpcCommand,
}

impl InputFixture {
    async fn new() -> Self {
        let node = NodeFixture::new(|_| {}).await;
        for (file, text) in [
            ("etc/group", "root:x:0:\nrip:x:1000:\n"),
            ("etc/gshadow", "root:*::\nrip:!::\n"),
            (
                "etc/passwd",
                "root:x:0:0:root:/root:/bin/sh\nrip:x:1000:1000:R. I. P.:/home/rip:/bin/sh\n",
            ),
            ("etc/shadow", "root:*:19000:0:99999:7:::\nrip:*:19000:0:99999:7:::\n"),
            ("etc/hosts", "127.0.0.1\tlocalhost\n"),
        ] {
            std::fs::write(node.node.root().join(file), text).unwrap();
        }
        std::fs::create_dir_all(node.node.root().join("home/rip")).unwrap();
        let caller = node.organisation.caller("joe");
        let rpc = RpcCommand::new(&node.server, &node.organisation, &caller, "");
        Self { node, rpc }
    }

    /// Applies a resource; the inputs are separated by blanks.
    async fn apply(&self, inputs: &str) -> Output {
        let inputs: Vec<&str> = inputs.split(' ').collect();
        self.rpc.run(&[&["do", "puppetral"], inputs.as_slice()].concat()).await
    }

    async fn apply_ok(&self, inputs: &str) {
        let output = self.apply(inputs).await;
        assert_eq!(output.status.code(), Some(0), "{inputs}: {}", describe_output(&output));
    }

    async fn apply_with_stdin(&self, arguments: &[&str], stdin: &[u8]) -> Output {
        let mut command = self.rpc.prepare_command(arguments);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        // The command may end without reading it all.
        let _ = pipe.write_all(stdin).await;
        drop(pipe);
        child.wait_with_output().await.unwrap()
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.node.node.root().join(path)).unwrap()
    }

    /// The number of requests that the node has accepted, discovery included.
    fn request_count(&self) -> u64 {
        self.node.node.core.snapshot_counters().passed
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_separated_by_commas_repeated_or_json() {
    let fixture = InputFixture::new().await;
    for (group, members, expected) in [
        ("one", "members=rip,root", "rip,root"),
        ("two", "members=rip", "rip"),
        ("three", "members=root members=rip", "rip,root"),
        ("four", r#"members=["root","rip"]"#, "rip,root"),
    ] {
        fixture.apply_ok(&format!("type=group name={group} {members}")).await;
        let groups = fixture.text("etc/group");
        let found = groups.lines().find(|line| line.starts_with(group)).unwrap();
        let mut found: Vec<&str> = found.rsplit(':').next().unwrap().split(',').collect();
        found.sort_unstable();
        assert_eq!(found.join(","), expected, "{members}: {groups}");
    }
    fixture.apply_ok("type=host name=db ip=10.0.0.1 host_aliases=foo,bar").await;
    assert!(
        fixture.text("etc/hosts").contains("10.0.0.1\tdb\tfoo bar"),
        "{}",
        fixture.text("etc/hosts")
    );
    // An older caller sends the text as it is; the node does not make one alias of it.
    let data = serde_json::json!({"type": "host", "name": "db", "host_aliases": "foo,bar"});
    let reply = fixture.node.caller.call_action("node1.example.net", "puppetral", "do", data).await;
    assert!(reply.reply.statusmsg.raw().contains("without blanks, commas"), "{:?}", reply.reply);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attribute_with_the_name_of_an_input_is_a_parameter() {
    let fixture = InputFixture::new().await;
    let key = "type=ssh_authorized_key name=rip@devco.net user=rip key=AAAAC3NzaC1lZDI1NTE5";
    let options = r#"options=from="10.0.0.1,10.0.0.2",no-pty"#;
    fixture.apply_ok(&format!("{key} params.type=ssh-ed25519 {options}")).await;
    assert_eq!(
        fixture.text("home/rip/.ssh/authorized_keys").lines().last().unwrap(),
        r#"from="10.0.0.1,10.0.0.2",no-pty ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 rip@devco.net"#
    );
    // A password cannot be hidden among the parameters, where it would not be sealed.
    let data = serde_json::json!({"type": "user", "name": "rip", "params": {"password": "$6$x"}});
    let reply = fixture.node.caller.call_action("node1.example.net", "puppetral", "do", data).await;
    assert!(reply.reply.statusmsg.raw().contains("specify `password`"), "{:?}", reply.reply);
    fixture.apply_ok("type=user name=rip params.password=$6$salt$hash").await;
    assert!(fixture.text("etc/shadow").contains("rip:$6$salt$hash:"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_come_from_files_and_the_standard_input() {
    let fixture = InputFixture::new().await;
    fixture.rpc.write("motd", "hello\nworld\n");
    let motd = fixture.rpc.path("motd");
    fixture.apply_ok(&format!("type=file name=/tmp/motd content=@{}", motd.display())).await;
    assert_eq!(fixture.text("tmp/motd"), "hello\nworld\n");
    let arguments = ["do", "puppetral", "type=file", "name=/tmp/motd", "content=-"];
    let output = fixture.apply_with_stdin(&arguments, b"from a pipe\n").await;
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
    assert_eq!(fixture.text("tmp/motd"), "from a pipe\n");
    // Without any input, the file is kept.
    let output = fixture.apply_with_stdin(&arguments, b"").await;
    assert_eq!(output.status.code(), Some(1), "{}", describe_output(&output));
    assert!(describe_output(&output).contains("the standard input is empty"));
    assert_eq!(fixture.text("tmp/motd"), "from a pipe\n");
    for (value, content) in [("\\-", "-"), ("@@home", "@home"), ("a@b", "a@b")] {
        fixture.apply_ok(&format!("type=file name=/tmp/motd content={value}")).await;
        assert_eq!(fixture.text("tmp/motd"), content);
    }
    fixture.rpc.write("members", "rip\nroot\n");
    let members = fixture.rpc.path("members");
    fixture.apply_ok(&format!("type=group name=ops members=@{}", members.display())).await;
    assert!(fixture.text("etc/group").contains("rip,root"), "{}", fixture.text("etc/group"));
    // The password of a file has no line end, and is as sensitive as a typed one.
    fixture.rpc.write("password", "$6$salt$secretindeed\n");
    let password = fixture.rpc.path("password");
    fixture.apply_ok(&format!("type=user name=rip password=@{}", password.display())).await;
    assert!(fixture.text("etc/shadow").contains("rip:$6$salt$secretindeed:"));
    let audit = serde_json::to_string(&fixture.node.node.audit_records()).unwrap();
    assert!(!audit.contains("secretindeed"), "{audit}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unusable_values_are_refused_before_anything_is_sent() {
    let fixture = InputFixture::new().await;
    std::fs::write(fixture.rpc.path("png"), b"\x89PNG\r\n").unwrap();
    std::fs::write(fixture.rpc.path("big"), vec![b'x'; 2_000_000]).unwrap();
    std::fs::write(fixture.rpc.path("large"), vec![b'x'; 1_048_000]).unwrap();
    let path = |name: &str| fixture.rpc.path(name).display().to_string();
    let before = fixture.request_count();
    for (inputs, exit, expected) in [
        (format!("content=@{}", path("png")), 1, "not text: invalid UTF-8 at byte 0"),
        (
            format!("content=@{}", path("big")),
            1,
            "has 2000000 bytes; a request holds at most 1048576 bytes",
        ),
        (format!("content=@{}", path("absent")), 1, "content=@@"),
        ("content=@".to_owned(), 4, "content=@@"),
        ("content=- group=-".to_owned(), 4, "cannot read both `content` and `group`"),
        ("content=- --nodes -".to_owned(), 4, "cannot read both the list of nodes and `content`"),
        ("params.name=x".to_owned(), 4, "`name` is not a property of `file`"),
    ] {
        let output = fixture.apply(&format!("type=file name=/tmp/x {inputs}")).await;
        let text = describe_output(&output);
        assert!(text.contains(expected), "{inputs}: {text}");
        assert_eq!(output.status.code(), Some(exit), "{inputs}: {text}");
    }
    assert_eq!(fixture.request_count(), before);
    // The exact size is known when the nodes are.
    let output = fixture.apply(&format!("type=file name=/tmp/x content=@{}", path("large"))).await;
    let text = describe_output(&output);
    assert!(
        text.contains("the request would have 104") && text.contains("at most 1048576"),
        "{text}"
    );
    assert_eq!(fixture.request_count(), before + 1, "the discovery alone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistyped_names_and_values_are_refused_before_anything_is_sent() {
    let fixture = InputFixture::new().await;
    let before = fixture.request_count();
    for (words, expected) in [
        ("puppetrl type=user name=rip", "puppetral"),
        ("puppetral dp type=user name=rip", "did you mean `rpc do puppetral do`"),
        ("puppetral tpye=user name=rip", "did you mean `type`?"),
        ("puppetral type=usr name=rip", "no built-in resource type `usr`; did you mean `user`?"),
        ("puppetral find type=usr name=rip", "did you mean `user`?"),
        ("puppetral type=user nme=rip", "`nme` is not a property of `user`; did you mean `name`?"),
        ("puppetral type=user name=rip shel=/bin/sh", "did you mean `shell`?"),
        (
            "puppetral type=User name=rip ensure=presnt",
            "must be one of present, absent, but is \"presnt\"",
        ),
        ("puppetral type=user name=rip uid=many", "must be a whole number"),
        ("puppetral type=user name=rip home=home/rip", "must be an absolute path"),
        ("puppetral type=user name=rip managehome=perhaps", "must be true or false"),
        ("puppetral type=user name=rip uid=1 uid=2", "only lists can be repeated"),
        ("puppetral type=group name=ops members=[\"rip\"", "must be a JSON array"),
        ("puppetral type=host name=db require=x", "left out"),
        ("service restart servce=httpd", "did you mean `service`?"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let output = fixture.rpc.run(&[&["do"], words.as_slice()].concat()).await;
        let text = describe_output(&output);
        assert_eq!(output.status.code(), Some(4), "{words:?}: {text}");
        assert!(text.contains(expected), "{words:?}: {text}");
    }
    assert_eq!(fixture.request_count(), before);
    // What only a node can know is sent, and so is everything with the flag.
    for (inputs, expected) in [
        ("type=augeas name=x context=/files", "augeas"),
        ("type=usr name=rip --skip-input-check", "usr"),
        ("type=user name=rip nme=rip --skip-input-check", "nme"),
    ] {
        let output = fixture.apply(inputs).await;
        let text = describe_output(&output);
        assert_eq!(output.status.code(), Some(2), "{inputs}: {text}");
        assert!(text.contains(expected), "{inputs}: {text}");
    }
}
