//! Calls that any instance of a service answers.

use muster_wire::identity::Identity;
use rand::seq::SliceRandom as _;

use crate::call::{CallTarget, RpcCall};
use crate::client::Client;
use crate::error::ClientError;
use crate::event::{CallEvent, ReceivedReply};

/// What a service answered.
#[derive(Debug)]
pub(crate) enum InstanceAnswer {
    /// The first reply.
    Reply(Box<ReceivedReply>),
    /// No instance runs.
    Absent,
    /// No instance replied in time.
    Silent,
}

impl Client {
    /// Sends the call to an instance of the service, and returns its reply.
    ///
    /// The caller chooses among the instances that the account token lists. The broker would choose among subscriptions instead, of which a stolen
    /// key can have any number. Only if none of the listed instances runs, the broker chooses.
    pub(crate) async fn ask_any_instance(
        &self,
        call: RpcCall,
    ) -> Result<InstanceAnswer, ClientError> {
        if call.target == CallTarget::AnyInstance {
            for instance in self.instances_in_random_order(call.agent.as_str()) {
                let target = CallTarget::Nodes([instance].into());
                match self.ask_instance(RpcCall { target, ..call.clone() }).await? {
                    InstanceAnswer::Absent => {}
                    answer => return Ok(answer),
                }
            }
        }
        self.ask_instance(call).await
    }

    fn instances_in_random_order(&self, agent: &str) -> Vec<Identity> {
        let mut instances: Vec<Identity> = self.trust().services_for(agent).cloned().collect();
        instances.shuffle(&mut rand::rng());
        instances
    }

    async fn ask_instance(&self, call: RpcCall) -> Result<InstanceAnswer, ClientError> {
        let mut events = self.call(call);
        loop {
            match events.next().await {
                Some(CallEvent::Reply(reply)) => return Ok(InstanceAnswer::Reply(reply)),
                Some(CallEvent::Finished(stats))
                    if stats.is_unserved || !stats.absent.is_empty() =>
                {
                    return Ok(InstanceAnswer::Absent);
                }
                Some(CallEvent::Failed(error)) => return Err(error),
                Some(CallEvent::Finished(_)) | None => return Ok(InstanceAnswer::Silent),
                Some(_) => {}
            }
        }
    }
}
