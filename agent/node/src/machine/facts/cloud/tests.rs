//! Tests with simulated metadata services on loopback: the four supported clouds and misbehaving servers.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::CloudCollector;
use super::metadata::region_of_zone;
use crate::machine::facts::FactError;

/// One HTTP request as received.
#[derive(Debug, Clone)]
struct Question {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
}

impl Question {
    fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Status, headers and body.
type Reply = (u16, Vec<(&'static str, String)>, Vec<u8>);

fn reply(status: u16, body: impl Into<Vec<u8>>) -> Reply {
    (status, Vec::new(), body.into())
}

/// A server on loopback that records its requests.
struct Stub {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Question>>>,
}

impl Stub {
    fn new(answer: impl Fn(&Question) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stub = Self { address: listener.local_addr().unwrap(), asked: Arc::default() };
        let (asked, answer) = (Arc::clone(&stub.asked), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (asked, answer) = (Arc::clone(&asked), Arc::clone(&answer));
                std::thread::spawn(move || serve(&stream.unwrap(), &asked, &*answer));
            }
        });
        stub
    }

    fn cloud(&self, word: &str, imds_v1: bool) -> CloudCollector {
        CloudCollector::new(word, Some(&format!("http://{}", self.address)), imds_v1).unwrap()
    }

    fn collect(&self, word: &str) -> Value {
        Value::Object(self.cloud(word, false).collect_facts().unwrap())
    }

    fn asked(&self) -> Vec<Question> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(
    stream: &TcpStream,
    asked: &Mutex<Vec<Question>>,
    answer: &(impl Fn(&Question) -> Reply + ?Sized),
) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                break;
            }
            lines.push(line);
        }
        let mut words = lines[0].split(' ').map(str::to_owned);
        let question = Question {
            method: words.next().unwrap(),
            path: words.next().unwrap(),
            headers: lines[1..]
                .iter()
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        };
        asked.lock().unwrap().push(question.clone());
        let (status, headers, body) = answer(&question);
        let mut head = format!("HTTP/1.1 {status} Word\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            head.extend([name, ": ", &value, "\r\n"]);
        }
        head.push_str("\r\n");
        let mut stream = stream;
        if stream.write_all(head.as_bytes()).is_err() || stream.write_all(&body).is_err() {
            return;
        }
    }
}

/// Amazon EC2: a PUT with a TTL returns a token, and each further request needs that token; without it, status 401.
fn ec2(v1_too: bool) -> Stub {
    Stub::new(move |question| {
        let path = question.path.as_str();
        if path == "/latest/api/token" {
            let life = question.header("X-aws-ec2-metadata-token-ttl-seconds");
            return match (question.method.as_str(), life) {
                _ if v1_too => reply(404, ""),
                ("PUT", Some(life)) if life.parse::<u32>().is_ok() => reply(200, "AQAEA-token=="),
                ("PUT", _) => reply(400, ""),
                _ => reply(405, ""),
            };
        }
        let token = question.header("X-aws-ec2-metadata-token");
        if !v1_too && token != Some("AQAEA-token==") {
            return reply(401, "");
        }
        match path.strip_prefix("/latest/meta-data/") {
            Some("instance-id") => reply(200, "i-0123456789abcdef0"),
            Some("instance-type") => reply(200, "m5.large"),
            Some("ami-id") => reply(200, "ami-0abc"),
            Some("hostname") => reply(200, "web-1.example.com"),
            Some("local-hostname") => reply(200, "ip-10-0-0-7.eu-west-1.compute.internal"),
            Some("local-ipv4") => reply(200, "10.0.0.7"),
            Some("placement/availability-zone") => reply(200, "eu-west-1b"),
            Some("tags/instance/") => reply(200, "role\nteam name\nenv"),
            Some("tags/instance/role") => reply(200, "web\u{1b}[31m"),
            Some("tags/instance/env") => reply(200, "production"),
            Some("iam/security-credentials/") => reply(200, "a-role"),
            _ => reply(404, "<html>404</html>"),
        }
    })
}

fn gce() -> Stub {
    Stub::new(|question| {
        if question.header("Metadata-Flavor") != Some("Google") {
            return reply(403, "");
        }
        let body = match question.path.strip_prefix("/computeMetadata/v1/") {
            Some("instance/id") => "4520031799277581759",
            Some("instance/hostname") => "web-2.c.acme.internal",
            Some("instance/zone") => "projects/123/zones/europe-west1-b",
            Some("instance/machine-type") => "projects/123/machineTypes/e2-small",
            Some("instance/image") => "projects/debian-cloud/global/images/debian-12",
            Some("project/project-id") => "acme",
            Some("instance/tags?alt=json") => "[\"http-server\",\"web\"]",
            Some("instance/network-interfaces/0/ip") => "10.132.0.2",
            _ => return reply(404, ""),
        };
        (200, vec![("Metadata-Flavor", "Google".to_owned())], body.into())
    })
}

fn azure() -> Stub {
    Stub::new(|question| {
        let known = question.path.starts_with("/metadata/instance?");
        let version = question.path.contains("api-version=2021-02-01");
        if !known || !version || question.header("Metadata") != Some("true") {
            return reply(400, "{\"error\":\"Bad request\"}");
        }
        let document = json!({
            "compute": {
                "vmId": "02aab8a4-74ef-476e-8182-f6d2ba4166a6", "name": "web-3", "location": "westeurope", "zone": "2",
                "vmSize": "Standard_A3", "subscriptionId": "8d10da13", "osProfile": {"computerName": "web-3"},
                "storageProfile": {"imageReference": {"id": "", "publisher": "Debian", "offer": "debian-12", "sku": "12", "version": "latest"}},
                "tagsList": [{"name": "role", "value": "web"}], "userData": "c2VjcmV0",
            },
            "network": {"interface": [{"ipv4": {"ipAddress": [{"privateIpAddress": "10.144.133.132", "publicIpAddress": ""}]}}]},
        });
        reply(200, document.to_string())
    })
}

fn openstack() -> Stub {
    Stub::new(|question| match question.path.as_str() {
        "/openstack/latest/meta_data.json" => {
            let document = json!({
                "uuid": "d8e02d56-2648-49a3-bf97-6be8f1204f38", "name": "web-4", "hostname": "web-4.novalocal",
                "availability_zone": "nova", "project_id": "f7ac731cc11f40efbc03a9f9e1d1d21f",
                "meta": {"role": "web", "essential": false}, "admin_pass": "oops", "public_keys": {"k": "ssh-rsa x"},
            });
            reply(200, document.to_string())
        }
        "/latest/meta-data/instance-id" => reply(200, "i-0000a1b2"),
        "/latest/meta-data/instance-type" => reply(200, "m1.small"),
        "/latest/meta-data/local-ipv4" => reply(200, "192.168.0.9"),
        _ => reply(404, ""),
    })
}

#[test]
fn amazon_is_queried_with_a_session_token() {
    let stub = ec2(false);
    for word in ["ec2", "auto"] {
        let facts = stub.collect(word);
        assert_eq!(
            facts["cloud"],
            json!({
                "provider": "ec2", "instance_id": "i-0123456789abcdef0", "type": "m5.large", "image": "ami-0abc",
                "hostname": "web-1.example.com", "zone": "eu-west-1b", "region": "eu-west-1", "local_ip": "10.0.0.7",
                "tags": {"role": "web[31m", "env": "production"},
            })
        );
        assert_eq!(facts["ec2_placement_region"], "eu-west-1");
        assert_eq!(facts["ec2_placement_availability_zone"], "eu-west-1b");
        assert_eq!(facts["ec2_instance_type"], "m5.large");
    }
}

#[test]
fn user_data_and_credentials_are_never_requested() {
    for stub in [ec2(false), gce(), azure(), openstack()] {
        stub.collect("auto");
        let asked = stub.asked();
        assert!(!asked.is_empty());
        for question in asked {
            let path = &question.path;
            for secret in ["user", "iam", "credential", "attributes", "recursive", "password"] {
                assert!(!path.contains(secret), "{path}");
            }
        }
        assert!(!stub.collect("auto").to_string().contains("oops"));
        assert!(!stub.collect("auto").to_string().contains("c2VjcmV0"));
    }
}

#[test]
fn service_without_tokens_is_queried_only_if_allowed() {
    let stub = ec2(true);
    assert!(matches!(stub.cloud("ec2", false).collect_facts(), Err(FactError::Cloud { .. })));
    let facts = stub.cloud("ec2", true).collect_facts().unwrap();
    assert_eq!(facts["cloud"]["instance_id"], "i-0123456789abcdef0");
}

#[test]
fn google_azure_and_openstack_are_detected() {
    assert_eq!(
        gce_facts(),
        json!({
            "provider": "gce", "instance_id": "4520031799277581759", "hostname": "web-2.c.acme.internal",
            "zone": "europe-west1-b", "region": "europe-west1", "type": "e2-small", "image": "debian-12", "account": "acme",
            "local_ip": "10.132.0.2", "tags": {"http-server": "true", "web": "true"},
        })
    );
    assert_eq!(
        azure().collect("auto")["cloud"],
        json!({
            "provider": "azure", "instance_id": "02aab8a4-74ef-476e-8182-f6d2ba4166a6", "hostname": "web-3",
            "region": "westeurope", "zone": "2", "type": "Standard_A3", "image": "Debian:debian-12:12:latest",
            "account": "8d10da13", "local_ip": "10.144.133.132", "tags": {"role": "web"},
        })
    );
    assert_eq!(
        openstack().collect("auto")["cloud"],
        json!({
            "provider": "openstack", "instance_id": "d8e02d56-2648-49a3-bf97-6be8f1204f38", "hostname": "web-4.novalocal",
            "zone": "nova", "type": "m1.small", "account": "f7ac731cc11f40efbc03a9f9e1d1d21f", "local_ip": "192.168.0.9",
            "tags": {"role": "web"},
        })
    );
}

fn gce_facts() -> Value {
    gce().collect("auto")["cloud"].clone()
}

#[test]
fn machine_without_a_cloud_has_no_cloud_facts_and_no_error() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let url = format!("http://{address}");
    let begun = Instant::now();
    let auto = CloudCollector::new("auto", Some(&url), false).unwrap();
    assert!(auto.collect_facts().unwrap().is_empty());
    assert!(begun.elapsed() < Duration::from_secs(5));
    let named = CloudCollector::new("azure", Some(&url), false).unwrap();
    assert!(matches!(named.collect_facts(), Err(FactError::Cloud { .. })));
    assert!(CloudCollector::new("off", None, false).is_none());
    // A web server that answers every request but is not a metadata service.
    for body in ["<html>welcome</html>", "{}", ""] {
        let stub = Stub::new(move |_| reply(200, body));
        assert_eq!(stub.collect("auto"), json!({}), "{body}");
    }
}

/// After a first success, a cloud that does not answer is an error, so that its facts do not vanish.
#[test]
fn cloud_that_stops_answering_is_an_error() {
    let gone = Arc::new(Mutex::new(false));
    let seen = Arc::clone(&gone);
    let stub = Stub::new(move |question| {
        if *seen.lock().unwrap() || !question.path.starts_with("/openstack") {
            return reply(503, "");
        }
        reply(200, json!({"uuid": "1", "name": "web-4"}).to_string())
    });
    let cloud = stub.cloud("auto", false);
    assert_eq!(cloud.collect_facts().unwrap()["cloud"]["instance_id"], "1");
    *gone.lock().unwrap() = true;
    assert!(matches!(cloud.collect_facts(), Err(FactError::Cloud { .. })));
}

#[test]
fn oversized_slow_and_malicious_replies_are_contained() {
    // A document larger than the limit.
    let huge = Stub::new(|question| match question.path.as_str() {
        "/openstack/latest/meta_data.json" => {
            let document = json!({"uuid": "1", "name": "x".repeat(1 << 20)});
            reply(200, document.to_string())
        }
        _ => reply(404, ""),
    });
    assert!(matches!(huge.cloud("openstack", false).collect_facts(), Err(FactError::Cloud { .. })));
    // A value larger than the limit, and one with control characters and a line break.
    let odd = Stub::new(|question| match question.path.as_str() {
        "/openstack/latest/meta_data.json" => {
            let name = format!("a\u{1b}[2J\r\nb\0{}", "y".repeat(5000));
            let tags: serde_json::Map<_, _> =
                (0..500).map(|n| (format!("t{n}\u{7}"), json!("v"))).collect();
            reply(200, json!({"uuid": "1", "name": name, "meta": tags}).to_string())
        }
        "/latest/meta-data/instance-type" => reply(200, vec![b'z'; 1 << 20]),
        _ => reply(404, ""),
    });
    let facts = odd.collect("openstack");
    let name = facts["cloud"]["hostname"].as_str().unwrap();
    assert!(name.starts_with("a[2Jby") && name.chars().count() == 1024);
    assert_eq!(facts["cloud"]["tags"].as_object().unwrap().len(), 64);
    assert!(!facts.to_string().contains("\\u00"), "{facts}");
    assert!(facts["cloud"].get("type").is_none());
    // A server that accepts connections and never answers.
    let slow = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", slow.local_addr().unwrap());
    let begun = Instant::now();
    let cloud = CloudCollector::new("auto", Some(&url), false).unwrap();
    assert!(cloud.collect_facts().unwrap().is_empty());
    assert!(begun.elapsed() < Duration::from_secs(20));
    // A token with a line break, which would inject a header into the next request.
    let liar = Stub::new(|question| match question.path.as_str() {
        "/latest/api/token" => reply(200, "a\r\nHost: evil"),
        _ => reply(200, "i-0123456789abcdef0"),
    });
    assert!(matches!(liar.cloud("ec2", false).collect_facts(), Err(FactError::Cloud { .. })));
    // Redirects are not followed.
    let moved =
        Stub::new(|_| (302, vec![("location", "http://127.0.0.1:1/".to_owned())], Vec::new()));
    assert_eq!(moved.collect("auto"), json!({}));
}

#[test]
fn derives_the_region_from_a_zone() {
    assert_eq!(region_of_zone("eu-west-1b").as_deref(), Some("eu-west-1"));
    assert_eq!(region_of_zone("us-gov-west-1a").as_deref(), Some("us-gov-west-1"));
    assert_eq!(region_of_zone("nova"), None);
    assert_eq!(region_of_zone("us-west-2-lax-1"), None);
}
