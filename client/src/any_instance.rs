//! Calls that any instance of a service answers.

use crate::call::RpcCall;
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
    /// Sends the call, and returns the first reply.
    pub(crate) async fn ask_any_instance(
        &self,
        call: RpcCall,
    ) -> Result<InstanceAnswer, ClientError> {
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
