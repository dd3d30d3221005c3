//! Throughput of a tunnel, beside a direct connection to the same server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::Instant;

use crate::demo::Demo;
use crate::report::{Figure, Section, Table, max, median, min};

const METHOD: &str = "One stream of bytes to a server on loopback that reads them and answers their number: directly, and through `rpc tunnel`, a broker with TLS \
and a real daemon, all on the same processors. Directly, the kernel only copies; through the tunnel, each byte is encrypted twice on its way to the broker (the tunnel's \
keys, TLS) and twice from there.";

const BLOCK_BYTES: usize = 64 * 1024;

/// The command that listens; dropping it ends it.
struct TunnelCommand {
    child: Child,
    address: SocketAddr,
}

impl Drop for TunnelCommand {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Measures with this many MiB.
pub(crate) fn bench(mebibytes: usize, rounds: usize) -> Section {
    let title = format!("A tunnel, {mebibytes} MiB, {rounds} rounds");
    let mut section = Section::of(title, METHOD);
    let server = start_server();
    let demo = Demo::start(1);
    let (node, _) = demo.nodes().into_iter().next().unwrap();
    let options = format!("[plugins.tunnel]\nenabled = true\nports = [{}]\n", server.port());
    let _daemon = demo.restart_with(&node, &options);
    let tunnel = start_tunnel(&demo, &node, server.port());
    let mut samples = [const { Vec::new() }; 2];
    for round in 0..=rounds {
        for (address, samples) in [server, tunnel.address].into_iter().zip(&mut samples) {
            let rate = send_to(address, mebibytes);
            if round > 0 {
                samples.push(rate);
            }
        }
    }
    let mut table = Table::new(["connection", "median MiB/s", "min", "max"]);
    for (name, samples) in ["direct, loopback", "tunnel"].into_iter().zip(&samples) {
        let rates = [median(samples), min(samples), max(samples)].map(|rate| format!("{rate:.0}"));
        table.rows.push([name.to_owned()].into_iter().chain(rates).collect());
    }
    section.tables.push(table);
    let [direct, through] = samples.map(|samples| median(&samples));
    section
        .figures
        .push(Figure::ratio("time of a tunnel x that of a direct copy", direct / through));
    section
}

/// Starts a server that answers the number of bytes of each connection.
fn start_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut block = vec![0; BLOCK_BYTES];
            let mut total = 0_u64;
            while let Ok(count) = connection.read(&mut block) {
                if count == 0 {
                    break;
                }
                total += count as u64;
            }
            let _ = connection.write_all(&total.to_be_bytes());
        }
    });
    address
}

fn start_tunnel(demo: &Demo, node: &str, port: u16) -> TunnelCommand {
    let mut child = demo
        .rpc(&["tunnel", node, &port.to_string(), "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    TunnelCommand { child, address: line.trim().parse().unwrap() }
}

/// Sends bytes, and waits until the server has counted them. Returns MiB per second.
fn send_to(address: SocketAddr, mebibytes: usize) -> f64 {
    let started = Instant::now();
    let mut connection = TcpStream::connect(address).unwrap();
    let block = vec![7; BLOCK_BYTES];
    let blocks = mebibytes * (1024 * 1024 / BLOCK_BYTES);
    for _ in 0..blocks {
        connection.write_all(&block).unwrap();
    }
    connection.shutdown(Shutdown::Write).unwrap();
    let mut counted = [0; 8];
    connection.read_exact(&mut counted).unwrap();
    assert_eq!(u64::from_be_bytes(counted), (blocks * BLOCK_BYTES) as u64);
    f64::from(u32::try_from(mebibytes).unwrap()) / started.elapsed().as_secs_f64()
}
