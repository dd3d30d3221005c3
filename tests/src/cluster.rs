//! A cluster of three real nats-servers: routes between them, `JetStream` on each, and stores with three replicas.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::nats_server::NatsServer;
use crate::organisation::{Broker, JETSTREAM_CONFIG, Organisation};
use crate::poll_until_ok;

/// How long the cluster may take to become healthy.
const HEALTH_TIMEOUT: Duration = Duration::from_mins(1);

/// How long a server may stay in lame duck mode. It ends after 10 s if all clients have left, otherwise after 30 s.
const LAME_DUCK_TIMEOUT: Duration = Duration::from_mins(1);

/// Names of the servers.
pub const SERVER_NAMES: [&str; 3] = ["one", "two", "three"];

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    members: Vec<ClusterMember>,
}

#[derive(Debug)]
struct ClusterMember {
    server: NatsServer,
    /// Port of the HTTP monitoring endpoint.
    monitoring: u16,
}

impl Cluster {
    /// Starts three servers and declares the fleet's stores with one replica on each.
    pub async fn start(organisation: &Organisation) -> Self {
        let routes: [u16; 3] = free_ports();
        let monitoring: [u16; 3] = free_ports();
        let route_list: Vec<String> =
            routes.iter().map(|port| format!("\"nats://127.0.0.1:{port}\"")).collect();
        let route_list = route_list.join(", ");
        let start = async |(name, route, monitoring): (&str, u16, u16)| {
            let text = format!(
                "{}{JETSTREAM_CONFIG}server_name: {name}\nhttp: \"127.0.0.1:{monitoring}\"\n\
                 lame_duck_duration: 30s\nlame_duck_grace_period: 10s\n\
                 cluster: {{ name: fleet, listen: \"127.0.0.1:{route}\", routes: [{route_list}] }}\n",
                organisation.broker_configuration()
            );
            let server = NatsServer::start(&text).await;
            ClusterMember { server, monitoring }
        };
        let ports = routes.into_iter().zip(monitoring);
        let named = SERVER_NAMES.into_iter().zip(ports);
        let members = named.map(|(name, (route, monitoring))| start((name, route, monitoring)));
        let members = join_all(members).await;
        let cluster = Self { members };
        cluster.await_healthy().await;
        organisation.declare_stores(&cluster, 3).await;
        cluster.await_healthy().await;
        cluster
    }

    /// Number of servers.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// One server.
    pub fn member(&self, number: usize) -> &NatsServer {
        &self.members.get(number).unwrap().server
    }

    /// The monitoring port of one server.
    pub fn monitoring_port(&self, number: usize) -> u16 {
        self.members.get(number).unwrap().monitoring
    }

    /// Makes one server ask its clients to leave.
    pub fn enter_lame_duck_mode(&self, number: usize) {
        self.members.get(number).unwrap().server.enter_lame_duck_mode();
    }

    /// Puts one server into lame duck mode, waits until it ends, and starts it again; returns when all servers report healthy.
    pub async fn restart_gracefully(&mut self, number: usize) {
        let member = self.members.get_mut(number).unwrap();
        member.server.enter_lame_duck_mode();
        member.server.await_end(LAME_DUCK_TIMEOUT).await;
        self.revive(number).await;
    }

    /// Kills one server.
    pub fn kill(&mut self, number: usize) {
        self.members.get_mut(number).unwrap().server.kill();
    }

    /// Restarts a killed server; returns when all servers report healthy, with all replicas up to date.
    pub async fn revive(&mut self, number: usize) {
        let member = self.members.get_mut(number).unwrap();
        member.server.revive().await;
        self.await_healthy().await;
    }

    /// Restarts a killed server; returns when it accepts connections, which is before its replicas are up to date.
    pub async fn restart(&mut self, number: usize) {
        self.members.get_mut(number).unwrap().server.revive().await;
    }

    /// Number of the server that leads this stream, by its own report; `None` during an election.
    pub async fn stream_leader(&self, stream: &str) -> Option<usize> {
        let path = "/jsz?accounts=true&streams=true";
        for (number, (member, name)) in self.members.iter().zip(SERVER_NAMES).enumerate() {
            // Followers may still name the leader before.
            if let Ok(answer) = get_monitoring(member.monitoring, path).await
                && parse_stream_leader(&answer, stream).as_deref() == Some(name)
            {
                return Some(number);
            }
        }
        None
    }

    /// Waits until all servers report healthy, with all replicas up to date.
    pub async fn await_healthy(&self) {
        for member in &self.members {
            let what =
                format!("the server with its monitoring on {} reports healthy", member.monitoring);
            poll_until_ok(&what, HEALTH_TIMEOUT, async || check_health(member.monitoring).await)
                .await;
        }
    }
}

impl Broker for Cluster {
    fn port(&self) -> u16 {
        self.members.first().unwrap().server.port()
    }

    fn urls(&self) -> Vec<String> {
        let members = self.members.iter();
        members.map(|member| member.server.url()).collect()
    }
}

/// `Ok` if the server reports that it is healthy, otherwise its response.
async fn check_health(port: u16) -> Result<(), String> {
    let answer = get_monitoring(port, "/healthz").await.map_err(|error| error.to_string())?;
    if answer.contains("\"status\":\"ok\"") {
        return Ok(());
    }
    Err(answer)
}

/// The response of a server's HTTP monitoring endpoint, with its headers.
pub async fn get_monitoring(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// The leader of a stream in a response of `/jsz`.
fn parse_stream_leader(answer: &str, stream: &str) -> Option<String> {
    let (_, body) = answer.split_once("\r\n\r\n")?;
    let body: serde_json::Value = serde_json::from_str(body).ok()?;
    let accounts = body.get("account_details")?.as_array()?;
    let mut streams =
        accounts.iter().filter_map(|account| account.get("stream_detail")?.as_array());
    let named = streams.find_map(|list| list.iter().find(|detail| detail["name"] == stream))?;
    named.pointer("/cluster/leader")?.as_str().map(str::to_owned)
}

/// Ports that are free now.
pub fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}
