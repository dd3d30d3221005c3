//! A hostile external agent tries to escape from its sandbox: a real program, run by the real helper, as each kind of
//! user.

use std::collections::BTreeSet;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_api::testing::TestNode;
use muster_host::external::{AgentChange, AgentDirectory, ExternalOptions, ScanMode};
use muster_host::{AgentRegistry, CallLimits};
use muster_system::fake::FakeSystem;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::external::{create_world_readable_directory, ddl, replace_file, sandbox_helper};

/// Replies with the names of the attacks that succeeded. Its parent process is the daemon.
const HOSTILE_AGENT: &str = r#"#!/usr/bin/env python3
import ctypes, json, os, platform, socket, sys, time
request, reply, protocol = sys.argv[1:4]
def answer(document):
    with open(reply, "w") as file:
        json.dump(document, file)
    sys.exit(0)
if protocol.endswith("activation_request"):
    answer({"activate": True})
targets = json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "targets.data")))
libc = ctypes.CDLL(None, use_errno=True)
daemon = os.getppid()
x86 = platform.machine() == "x86_64"
def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result
def call(x86_number, other):
    checked(libc.syscall(x86_number if x86 else other, 0, 0, 0, 0, 0))
def exists(x86_number, other):
    # A call that the filter permits fails because of its arguments only.
    result = libc.syscall(x86_number if x86 else other, -1, 0, 0, 0, 0)
    if result < 0 and ctypes.get_errno() in (1, 38):
        raise OSError(ctypes.get_errno(), "refused")
def connect(kind, address, maker=socket.socket):
    with maker(socket.AF_UNIX, kind) as one:
        one.connect(address)
def reconnect():
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.connect(targets["datagram"])
def capabilities():
    status = dict(line.split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
    held = [name for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb") if int(status[name], 16)]
    if os.getuid() != 0:
        held = [name for name in held if name != "CapBnd" or not targets["root_daemon"]]
    if not held and status["NoNewPrivs"].strip() == "1":
        raise OSError(1, "refused")
def filtered():
    if "Seccomp:\t2" in open("/proc/self/status").read():
        raise OSError(1, "refused")
def privileged_child():
    # A program with the set-user-id bit gets no rights either: the child has the rights of this process.
    os.setresuid(0, 0, 0)
    os.chown(targets["secret"], 0, 0)
attacks = {
    "clock": lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()),
    "host name": lambda: socket.sethostname(socket.gethostname()),
    "raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    "packet socket": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0),
    "tcp": lambda: socket.create_connection(("127.0.0.1", targets["tcp"]), 5),
    "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", targets["udp"])),
    "unix socket": lambda: connect(socket.SOCK_STREAM, targets["unix"]),
    "unix datagram of a pair": reconnect,
    "abstract socket": lambda: connect(socket.SOCK_STREAM, "\0" + targets["abstract"]),
    "signal": lambda: os.kill(daemon, 0),
    "environ": lambda: open(f"/proc/{daemon}/environ").read(),
    "memory": lambda: open(f"/proc/{daemon}/mem", "rb"),
    "root link": lambda: os.listdir(f"/proc/{daemon}/root/etc"),
    "descriptors": lambda: os.readlink(f"/proc/{daemon}/fd/0"),
    "ptrace": lambda: checked(libc.ptrace(0x4206, daemon, 0, 0)),
    "mount": lambda: checked(libc.mount(b"none", os.getcwd().encode(), b"tmpfs", 0, None)),
    "namespace": lambda: checked(libc.unshare(0x10000000)),
    "chroot": lambda: os.chroot(os.getcwd()),
    "secret": lambda: open(targets["secret"]).read(),
    "write": lambda: open(targets["secret"], "a"),
    "sysctl": lambda: open("/proc/sys/kernel/hostname", "w"),
    "device": lambda: os.mknod("device", 0o20600, os.makedev(1, 1)),
    "nice": lambda: os.setpriority(os.PRIO_PROCESS, 0, -5),
    "capabilities": capabilities,
    "no filter": filtered,
    "io_uring": lambda: exists(425, 425),
    "keyctl": lambda: exists(250, 219),
    "bpf": lambda: exists(321, 280),
    "userfaultfd": lambda: exists(323, 282),
    "kexec": lambda: exists(246, 104),
    "modules": lambda: exists(313, 273),
    "unknown call": lambda: exists(463, 463),
}
if x86:
    attacks["x32"] = lambda: exists(0x40000000 | 39, 39)
if os.getuid() != 0:
    attacks["become root"] = privileged_child
    attacks["root group"] = lambda: os.setgid(0) if os.getgid() != 0 else checked(-1)
done = []
for name, attack in attacks.items():
    if name in targets["skip"]:
        continue
    try:
        attack()
        done.append(name)
    except (OSError, PermissionError):
        pass
answer({"statuscode": 0, "data": {"said": json.dumps(done)}})
"#;

/// The targets of the attacks, kept open during the test.
struct AttackTargets {
    directory: TempDir,
    _unix: UnixListener,
    _datagram: std::os::unix::net::UnixDatagram,
    _abstract: UnixListener,
    _tcp: TcpListener,
    _udp: UdpSocket,
}

impl AttackTargets {
    /// Installs the agent and creates its targets; `skip` names the attacks that it omits.
    fn new(skip: &[&str], capabilities: &Value) -> Self {
        let directory = create_world_readable_directory();
        let outside = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempdir()
            .unwrap()
            .keep();
        let secret = outside.join("secret");
        replace_file(&secret, "x", 0o600);
        let name = format!("muster-hostile-{}", uuid::Uuid::now_v7());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let targets = json!({
            "skip": skip, "secret": secret, "abstract": name, "unix": outside.join("unix"),
            "datagram": outside.join("datagram"), "tcp": tcp.local_addr().unwrap().port(),
            "udp": udp.local_addr().unwrap().port(), "root_daemon": is_root(),
        });
        let path = |name: &str| directory.path().join(name);
        replace_file(&path("targets.data"), &targets.to_string(), 0o644);
        replace_file(&path("hostile"), HOSTILE_AGENT, 0o755);
        let mut document = ddl("hostile", "1.0.0", &["attack"]);
        let metadata = document.get_mut("metadata").unwrap();
        let metadata = metadata.as_object_mut().unwrap();
        metadata.insert("capabilities".to_owned(), capabilities.clone());
        replace_file(&path("hostile.json"), &document.to_string(), 0o644);
        let unix = UnixListener::bind(outside.join("unix")).unwrap();
        let datagram = std::os::unix::net::UnixDatagram::bind(outside.join("datagram")).unwrap();
        Self {
            directory,
            _unix: unix,
            _datagram: datagram,
            _abstract: UnixListener::bind_addr(&address).unwrap(),
            _tcp: tcp,
            _udp: udp,
        }
    }

    /// Runs the agent; returns the attacks that succeeded.
    async fn run_attacks(&self, options: Value) -> BTreeSet<String> {
        let options: ExternalOptions =
            serde_json::from_value(json!({"agents": {"hostile": options}})).unwrap();
        let mut agents = AgentDirectory::new(
            self.directory.path().to_owned(),
            options,
            BTreeSet::new(),
            sandbox_helper(),
            PathBuf::from("/etc/muster/rpcd.toml"),
        );
        let mut registry = AgentRegistry::new();
        for change in agents.scan(ScanMode::Complete).await {
            if let AgentChange::Offered(agent) = change {
                registry.add(agent, CallLimits::default()).unwrap();
            }
        }
        assert_eq!(agents.problems(), []);
        let node = TestNode::named("node1").unwrap();
        let mut context = node.context("hostile", "attack", Arc::new(FakeSystem::new())).unwrap();
        context.deadline = Instant::now() + Duration::from_mins(1);
        let input = serde_json::Map::new();
        let outcome = registry.dispatch_call(muster_host::ActionCall { context, input }).await;
        let output = outcome.data.get("said").and_then(Value::as_str);
        serde_json::from_str(output.unwrap_or_else(|| panic!("{outcome:?}"))).unwrap()
    }
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// `root` if the daemon can switch users; otherwise the daemon's own user.
fn strongest_user() -> Value {
    if is_root() { json!("root") } else { Value::Null }
}

fn to_set(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|&name| name.to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn confined_agent_cannot_escape_even_as_root() {
    let targets = AttackTargets::new(&[], &json!({}));
    for options in [
        json!({"user": strongest_user(), "confine": "required"}),
        json!({"user": strongest_user()}),
        json!({"confine": "required"}),
        json!({}),
    ] {
        let done = targets.run_attacks(options.clone()).await;
        assert_eq!(done, BTreeSet::new(), "{options}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn confined_agent_with_network_has_only_tcp_and_udp() {
    let targets = AttackTargets::new(&[], &json!({"network": true}));
    let done = targets.run_attacks(json!({"user": strongest_user()})).await;
    assert_eq!(done, to_set(&["tcp", "udp"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unix_sockets_are_permitted_by_configuration() {
    let targets = AttackTargets::new(&[], &json!({}));
    let options = json!({"user": strongest_user(), "unix_sockets": true});
    let done = targets.run_attacks(options).await;
    assert_eq!(done, to_set(&["unix datagram of a pair", "unix socket"]));
}

/// Without confinement the agent has the rights of an unprivileged user, not those of the daemon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unconfined_agent_is_unprivileged() {
    // Any user may create a user namespace, and is root inside it only.
    let targets = AttackTargets::new(&["namespace"], &Value::Null);
    let done = targets.run_attacks(json!({"confine": "off"})).await;
    let root_only = [
        "clock",
        "host name",
        "raw socket",
        "packet socket",
        "mount",
        "chroot",
        "sysctl",
        "device",
        "capabilities",
        "become root",
        "root group",
    ];
    let mut forbidden = to_set(&root_only);
    if is_root() {
        forbidden.extend(to_set(&["signal", "environ", "memory", "ptrace", "secret", "write"]));
        forbidden.extend(to_set(&["unix socket", "descriptors", "root link"]));
    }
    let reached: Vec<_> = done.intersection(&forbidden).collect();
    assert!(reached.is_empty(), "{reached:?}");
}

/// Checks that the attacks work without a sandbox: as root and unconfined, which the configuration must permit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_succeed_without_a_sandbox() {
    // These attacks would change the machine that runs the tests, or the agent itself.
    let targets =
        AttackTargets::new(&["clock", "host name", "mount", "namespace", "chroot"], &Value::Null);
    let done = targets.run_attacks(json!({"user": strongest_user(), "confine": "off"})).await;
    let mut expected =
        to_set(&["tcp", "udp", "unix socket", "abstract socket", "signal", "no filter"]);
    if is_root() {
        expected.extend(to_set(&["environ", "secret", "write", "raw socket", "capabilities"]));
    }
    let missing: Vec<_> = expected.difference(&done).collect();
    assert!(missing.is_empty(), "{missing:?} of {done:?}");
}
