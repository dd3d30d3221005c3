//! Three real nats-servers that are one broker: routes between them, `JetStream` on each, and stores with three copies.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::await_answer;
use crate::nats_server::NatsServer;
use crate::organisation::{Broker, Organisation, STORING};

/// How long servers may take to agree on something.
const PATIENCE: Duration = Duration::from_mins(1);

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    server: NatsServer,
    /// Where it says how it is.
    monitoring: u16,
}

impl Cluster {
    /// Starts three servers, and makes the fleet's stores with a copy on each.
    pub async fn start(organisation: &Organisation) -> Self {
        let routes: [u16; 3] = free_ports();
        let monitoring: [u16; 3] = free_ports();
        let listed: Vec<String> =
            routes.iter().map(|port| format!("\"nats://127.0.0.1:{port}\"")).collect();
        let listed = listed.join(", ");
        let start = async |(name, route, monitoring): (&str, u16, u16)| {
            let text = format!(
                "{}{STORING}server_name: {name}\nhttp: \"127.0.0.1:{monitoring}\"\n\
                 cluster: {{ name: fleet, listen: \"127.0.0.1:{route}\", routes: [{listed}] }}\n",
                organisation.broker_configuration()
            );
            let server = NatsServer::start(&text).await;
            Member { server, monitoring }
        };
        let ports = routes.into_iter().zip(monitoring);
        let named = ["one", "two", "three"].into_iter().zip(ports);
        let members = named.map(|(name, (route, monitoring))| start((name, route, monitoring)));
        let members = join_all(members).await;
        let cluster = Self { members };
        cluster.healthy().await;
        organisation.declare_stores(&cluster, 3).await;
        cluster.healthy().await;
        cluster
    }

    /// How many there are.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Kills one.
    pub fn kill(&mut self, number: usize) {
        self.members.get_mut(number).unwrap().server.kill();
    }

    /// Starts it again, and returns when all say that they are well: copies are what they should be.
    pub async fn revive(&mut self, number: usize) {
        let member = self.members.get_mut(number).unwrap();
        member.server.revive().await;
        self.healthy().await;
    }

    async fn healthy(&self) {
        for member in &self.members {
            let what = format!("the server with its monitoring on {} is well", member.monitoring);
            await_answer(&what, PATIENCE, async || health(member.monitoring).await).await;
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

/// Nothing if the server says that it is well, or what it says.
async fn health(port: u16) -> Result<(), String> {
    let asked = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = asked.await.map_err(|error| error.to_string())?;
    if answer.contains("\"status\":\"ok\"") {
        return Ok(());
    }
    Err(answer)
}

/// Ports that nobody has now.
fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}
