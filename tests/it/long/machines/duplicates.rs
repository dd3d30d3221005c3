//! The same signed request before and after a power cut: what it has done to the disk, it does not do again.

use std::sync::Arc;
use std::time::Duration;

use muster_bus::{BrokerAddress, BrokerCredentials, Bus, BusOptions};
use muster_tests::requests::unsigned_request;
use muster_tests::simulate_delay;
use muster_wire::identity::Identity;
use muster_wire::request::RequestTarget;
use muster_wire::sign::{EnvelopeKind, Signer, sign_envelope};
use muster_wire::subject::{self, AnswerAddress};
use muster_wire::token::UserCredentials;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

use crate::machines::nodes::{MachineNodes, NodeOptions, node_name};
use crate::machines::organisation::OperatorHost;

const CUTS: usize = 10;
/// The latest moment of the request after the start of a cut.
const LATEST_REQUEST: Duration = Duration::from_millis(300);

/// A connection of `rip` for messages that the client library does not send.
struct RawCaller {
    bus: Bus,
    signer: Signer,
}

impl RawCaller {
    async fn connect(operator: &OperatorHost, host: &str) -> Self {
        let text = std::fs::read_to_string(operator.path("rip/user.creds")).unwrap();
        let signer = Signer::new(UserCredentials::parse(&text).unwrap()).unwrap();
        let broker = BrokerAddress::parse(&format!("tls://{host}:4222"), false).unwrap();
        let mut options = BusOptions::for_command("rip", vec![broker]);
        options.authority = Some(operator.path("rip/ca.pem"));
        options.credentials = Some(BrokerCredentials::from_signer(&signer));
        options.inbox_prefix = Some(subject::inbox_prefix(&signer.public_key().to_string()));
        Self { bus: options.connect().await.unwrap(), signer }
    }

    /// A request that appends this number to a file and syncs it; signed, with its subjects.
    fn sign(&self, node: &str, number: usize) -> SignedRequest {
        let script = format!("echo {number} >>/var/ran; sync -f /var/ran");
        let Value::Object(data) = json!({"script": script}) else { panic!("not an object") };
        let node = Identity::parse(node).unwrap();
        let target = RequestTarget::Nodes([node.clone()].into());
        let mut request =
            unsigned_request(self.signer.identity(), ["muster", "shell", "run"], target);
        request.data = data;
        let key = self.signer.public_key().to_string();
        SignedRequest {
            subject: subject::node_request(
                &request.collective,
                &request.agent,
                &request.action,
                &node,
            ),
            inbox: AnswerAddress::of_request(&key, &request.id).of_node(&node),
            payload: sign_envelope(EnvelopeKind::Request, &request, &self.signer).unwrap().into(),
        }
    }

    async fn send(&self, request: &SignedRequest) {
        let payload = request.payload.to_vec().into();
        self.bus.publish_with_reply(&request.subject, &request.inbox, payload).await.unwrap();
        self.bus.flush().await.unwrap();
    }
}

struct SignedRequest {
    subject: String,
    inbox: String,
    payload: Arc<[u8]>,
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_request_has_no_second_effect_after_a_power_cut() {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let options = NodeOptions {
        configuration: "[plugins.shell]\nenabled = true\n",
        ..NodeOptions::default()
    };
    let Some(nodes) = MachineNodes::start(1, options).await else { return };
    let machines = &nodes.machines;
    machines.sh("m1", "touch /var/ran; sync -f /var").await;
    let caller = RawCaller::connect(&nodes.operator, &machines.host).await;
    let mut begun = 0;
    for number in 0..CUTS {
        let request = caller.sign(&node_name("m1"), number);
        // The cut takes some time to begin: some requests arrive before it, some after it.
        let late_request = async {
            simulate_delay(random.random_range(Duration::ZERO..LATEST_REQUEST)).await;
            caller.send(&request).await;
        };
        tokio::join!(machines.cut_power(&["m1"]), late_request);
        machines.power_on(&["m1"]).await;
        let count = format!("grep -cx {number} /var/ran || true");
        begun += machines.sh("m1", &count).await.parse::<usize>().unwrap();
        nodes.await_answers(1).await;
        caller.send(&request).await;
        // The node handles requests in order: the ping is answered after the repeated request was accepted or refused.
        nodes.await_answers(1).await;
        nodes.call("m1", &["shell", "run", "script=true"]).await;
        let count = machines.sh("m1", &count).await;
        assert!(count == "0" || count == "1", "request {number} ran {count} times");
    }
    println!("{begun} of {CUTS} requests had run before the cut");
}
