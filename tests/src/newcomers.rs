//! The account of machines that are nobody yet: bootstrap tokens, and a service that lets machines in, as small as it can be.

use std::sync::Arc;

use muster_bus::BusSubscription;
use muster_enrol::{
    EnrolmentSettings, HandledEnrolment, MemoryEnrolmentStore, NodeEnroller, NodeEnrollerParts,
};
use muster_wire::enrol::EnrolmentOutcome;
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

use crate::nats_server::NatsServer;
use crate::organisation::{Organisation, connect};

/// Keys and token of the bootstrap account.
#[derive(Debug)]
pub struct Newcomers {
    account: KeyPair,
    newcomer: KeyPair,
    enroller: KeyPair,
    token: String,
    issued_at: u64,
}

impl Newcomers {
    pub(crate) fn new(operator: &KeyPair, issued_at: u64) -> Self {
        let [account, newcomer, enroller] =
            [(); 3].map(|()| KeyPair::generate(KeyKind::Account).unwrap());
        let entry = |key: &KeyPair, role: UserRole| {
            let template = role.newcomers_account_template().unwrap();
            SigningKeyEntry::Scoped(Box::new(ScopedKey::new(key.public_key(), role, template)))
        };
        let keys = vec![entry(&newcomer, UserRole::Newcomer), entry(&enroller, UserRole::Service)];
        let claims = AccountClaims::new(AccountLimits::default(), keys);
        let validity = TokenValidity::without_end(issued_at);
        let token = encode::issue_account_token(
            "newcomers",
            account.public_key(),
            claims,
            validity,
            operator,
        );
        Self { token: token.unwrap(), account, newcomer, enroller, issued_at }
    }

    /// The account.
    pub fn account(&self) -> PublicKey {
        self.account.public_key()
    }

    /// The account's token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// A bootstrap credential with these tags, which ends at this second.
    pub fn bootstrap(&self, tags: &[&str], expires: Option<u64>) -> Signer {
        self.party(&self.newcomer, "bootstrap", tags, expires)
    }

    /// A service that enrols machines, under this name.
    pub fn enroller(&self, name: &str) -> Signer {
        self.party(&self.enroller, name, &[], None)
    }

    fn party(&self, role: &KeyPair, name: &str, tags: &[&str], expires: Option<u64>) -> Signer {
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

/// A service that lets machines in; it ends with its owner.
#[derive(Debug)]
pub struct Door {
    enroller: Arc<NodeEnroller<MemoryEnrolmentStore>>,
    working: JoinHandle<()>,
    /// Who was answered, and how, in order.
    pub answered: mpsc::UnboundedReceiver<(Identity, EnrolmentOutcome)>,
}

impl Door {
    /// Opens it. `provisioning`: whether machines that come in are to be provisioned further.
    pub async fn open(
        organisation: &Organisation,
        server: &NatsServer,
        provisioning: bool,
    ) -> Self {
        let newcomers = organisation.newcomers();
        let service = newcomers.enroller("provisioner");
        let operator = organisation.trust().operator_key();
        let enroller = NodeEnroller::new(NodeEnrollerParts {
            newcomers: AccountTrust::new(operator, newcomers.token()).unwrap(),
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
        let mut wishes = bus.subscribe_all(&[subject::ENROLMENT_SUBJECT.to_owned()]).await.unwrap();
        let mut wishes: BusSubscription = wishes.remove(0);
        let (tell, answered) = mpsc::unbounded_channel();
        let working = Arc::clone(&enroller);
        let working = tokio::spawn(async move {
            while let Some(message) = wishes.next().await {
                let handled = working.handle_message(message.payload(), crate::now()).await;
                let Ok(HandledEnrolment::Answered { request, outcome, bytes }) = handled else {
                    continue;
                };
                let credential = request.request.credential;
                let _ = tell.send((request.request.identity, outcome));
                let key = credential.to_string();
                let reply_to = message.reply_to().unwrap();
                let address = AnswerAddress::from_reply_subject(reply_to, &key).unwrap();
                let answer = address.of_node(working.identity());
                bus.publish(&answer, bytes.into()).await.unwrap();
            }
        });
        Self { enroller, working, answered }
    }

    /// Who came in.
    pub fn roll(&self) -> &MemoryEnrolmentStore {
        self.enroller.enrolment_store()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.working.abort();
    }
}
