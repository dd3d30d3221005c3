//! The account of bootstrapping nodes: bootstrap tokens, and a minimal service that enrols nodes.

use std::sync::Arc;

use muster_bus::BusSubscription;
use muster_wire::enrol::EnrolmentOutcome;
use muster_wire::enrolment::{
    EnrolmentSettings, HandledEnrolment, NodeEnroller, NodeEnrollerParts,
};
use muster_wire::identity::Identity;
use muster_wire::sign::Signer;
use muster_wire::subject::{self, AnswerAddress};
use muster_wire::token::claims::{
    AccountClaims, AccountLimits, ScopedKey, SigningKeyEntry, UserClaims,
};
use muster_wire::token::encode::{self, TokenValidity};
use muster_wire::token::{AccountTrust, KeyKind, KeyPair, PublicKey, UserCredentials, UserRole};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::memory_enrolment_store::MemoryEnrolmentStore;
use crate::nats_server::NatsServer;
use crate::organisation::{Organisation, connect};

/// Keys and token of the account.
#[derive(Debug)]
pub struct BootstrapAccount {
    account: KeyPair,
    bootstrap_key: KeyPair,
    enroller: KeyPair,
    token: String,
    issued_at: u64,
}

impl BootstrapAccount {
    pub(crate) fn new(operator: &KeyPair, issued_at: u64) -> Self {
        let [account, bootstrap_key, enroller] =
            [(); 3].map(|()| KeyPair::generate(KeyKind::Account).unwrap());
        let entry = |key: &KeyPair, role: UserRole| {
            let template = role.newcomers_account_template().unwrap();
            SigningKeyEntry::Scoped(Box::new(ScopedKey::new(key.public_key(), role, template)))
        };
        let keys =
            vec![entry(&bootstrap_key, UserRole::Newcomer), entry(&enroller, UserRole::Service)];
        let claims = AccountClaims::new(AccountLimits::default(), keys);
        let validity = TokenValidity::without_end(issued_at);
        let token = encode::issue_account_token(
            "newcomers",
            account.public_key(),
            claims,
            validity,
            operator,
        );
        Self { token: token.unwrap(), account, bootstrap_key, enroller, issued_at }
    }

    /// The account's public key.
    pub fn account(&self) -> PublicKey {
        self.account.public_key()
    }

    /// The account's token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// A bootstrap credential with these tags, which expires at this Unix time in seconds.
    pub fn bootstrap(&self, tags: &[&str], expires: Option<u64>) -> Signer {
        self.issue_user(&self.bootstrap_key, "bootstrap", tags, expires)
    }

    /// A service with this name that enrols nodes.
    pub fn enroller(&self, name: &str) -> Signer {
        self.issue_user(&self.enroller, name, &[], None)
    }

    fn issue_user(
        &self,
        role: &KeyPair,
        name: &str,
        tags: &[&str],
        expires: Option<u64>,
    ) -> Signer {
        let key = KeyPair::generate(KeyKind::User).unwrap();
        let tags = tags.iter().map(ToString::to_string).collect();
        let claims = UserClaims::new(self.account(), tags);
        let validity = TokenValidity { issued_at: self.issued_at, expires };
        let name = Identity::parse(name).unwrap();
        let token =
            encode::issue_user_token(&name, key.public_key(), claims, validity, role).unwrap();
        Signer::new(UserCredentials::new(&token, key).unwrap()).unwrap()
    }
}

/// A service that enrols nodes; dropping it ends it.
#[derive(Debug)]
pub struct EnrolmentService {
    enroller: Arc<NodeEnroller<MemoryEnrolmentStore>>,
    task: JoinHandle<()>,
    /// The identities that were answered, with the outcome, in order.
    pub answered: mpsc::UnboundedReceiver<(Identity, EnrolmentOutcome)>,
}

impl EnrolmentService {
    /// Starts the service. `provisioning`: whether enrolled nodes are to be provisioned.
    pub async fn start(
        organisation: &Organisation,
        server: &NatsServer,
        provisioning: bool,
    ) -> Self {
        let bootstrap_account = organisation.bootstrap_account();
        let service = bootstrap_account.enroller("provisioner");
        let operator = organisation.trust().operator_key();
        let enroller = NodeEnroller::new(NodeEnrollerParts {
            newcomers: AccountTrust::new(operator, bootstrap_account.token()).unwrap(),
            fleet: organisation.trust(),
            service: service.clone(),
            node_role: organisation.role_key(UserRole::Node).clone(),
            settings: EnrolmentSettings {
                collectives: vec![organisation.collective().clone()],
                urls: Vec::new(),
                lifetime: None,
                provisioning,
            },
            store: MemoryEnrolmentStore::default(),
        });
        let enroller = Arc::new(enroller.unwrap());
        let bus = connect(server, &service).await;
        let mut requests =
            bus.subscribe_all(&[subject::ENROLMENT_SUBJECT.to_owned()]).await.unwrap();
        let mut requests: BusSubscription = requests.remove(0);
        let (sender, answered) = mpsc::unbounded_channel();
        let worker = Arc::clone(&enroller);
        let task = tokio::spawn(async move {
            while let Some(message) = requests.next().await {
                let handled = worker.handle_message(message.payload(), crate::now()).await;
                let Ok(HandledEnrolment::Answered { request, outcome, bytes }) = handled else {
                    continue;
                };
                let credential = request.request.credential;
                let _ = sender.send((request.request.identity, outcome));
                let key = credential.to_string();
                let reply_to = message.reply_to().unwrap();
                let address = AnswerAddress::from_reply_subject(reply_to, &key).unwrap();
                let answer = address.of_node(worker.identity());
                bus.publish(&answer, bytes.into()).await.unwrap();
            }
        });
        Self { enroller, task, answered }
    }

    /// The store of enrolled nodes.
    pub fn enrolment_store(&self) -> &MemoryEnrolmentStore {
        self.enroller.enrolment_store()
    }
}

impl Drop for EnrolmentService {
    fn drop(&mut self) {
        self.task.abort();
    }
}
