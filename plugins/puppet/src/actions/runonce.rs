//! `runonce`: runs Puppet once, and answers how the run ended.
//!
//! A request that names a run which was begun already waits for that one, or is told how it ended: asking again is safe.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use muster_api::wire::identity::Name;
use muster_api::{Action, ActionError, Context};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use uuid::Uuid;

use super::{failed, run_id};
use crate::arguments::Wish;
use crate::options::Engine;
use crate::outcome::Outcome;
use crate::permit::Wanted;
use crate::runs::{Asked, Attached, Begun, Runs, millis};

/// The answer leaves so long before the request's time is up.
const LAST_WORDS: Duration = Duration::from_secs(2);

pub(crate) struct RunOnce(pub(crate) Arc<Runs>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    force: Option<bool>,
    server: Option<String>,
    tags: Option<String>,
    skip_tags: Option<String>,
    noop: Option<bool>,
    splay: Option<bool>,
    splaylimit: Option<i64>,
    environment: Option<String>,
    ignoreschedules: Option<bool>,
    use_cached_catalog: Option<bool>,
    run: Option<String>,
    pool: Option<String>,
    limit: Option<i64>,
    priority: Option<i64>,
    wait: Option<i64>,
    background: Option<bool>,
}

impl Action for RunOnce {
    const NAME: &'static str = "runonce";
    type Input = Input;
    type Output = Outcome;

    async fn run(&self, cx: &Context, input: Input) -> Result<Outcome, ActionError> {
        let asked = asked(cx, &self.0, input)?;
        let (in_background, runs) = (asked.in_background, Arc::clone(&self.0));
        let system = Arc::clone(&cx.system);
        let begun = cx
            .blocking(move |_| runs.begin(asked, &system))
            .await?
            .map_err(failed)?;
        match begun {
            Begun::Over(outcome) => answer(*outcome),
            Begun::Waits(attached, was_begun) if in_background => {
                let mut outcome = attached.live().outcome.borrow().clone();
                outcome.attached = was_begun;
                Ok(outcome)
            }
            Begun::Waits(attached, was_begun) => self.wait(cx, &attached, was_begun).await,
        }
    }
}

impl RunOnce {
    /// Waits for the end of the run, and tells how far it is.
    async fn wait(
        &self,
        cx: &Context,
        attached: &Attached,
        was_begun: bool,
    ) -> Result<Outcome, ActionError> {
        let live = attached.live();
        let mut news = live.outcome.subscribe();
        let tell = |outcome: &Outcome| {
            cx.emit(json!({
                "state": outcome.state.word(),
                "run": outcome.run,
                "at": millis(&*cx.system),
                "elapsed": live.since.elapsed().as_secs_f64(),
            }));
        };
        tell(&news.borrow_and_update());
        let last = cx.deadline - LAST_WORDS;
        loop {
            tokio::select! {
                outcome = next(&mut news) => {
                    tell(&outcome);
                    if outcome.state.is_over() {
                        return answer(Outcome { attached: was_begun, ..outcome });
                    }
                }
                () = tokio::time::sleep_until(last) => return Err(goes_on(live.outcome.borrow().clone(), "the request's time is up")),
                () = self.0.leaving.cancelled() => return Err(goes_on(live.outcome.borrow().clone(), "the daemon is stopping")),
                () = cx.cancel.cancelled() => {
                    attached.cancel();
                    let outcome = news.wait_for(|outcome| outcome.state.is_over()).await;
                    let outcome = outcome.map(|outcome| outcome.clone());
                    return answer(outcome.map_err(|_| ActionError::cancelled())?);
                }
            }
        }
    }
}

/// The outcome, when it has changed.
async fn next(news: &mut watch::Receiver<Outcome>) -> Outcome {
    // The sender lives as long as we are attached.
    let _ = news.changed().await;
    news.borrow_and_update().clone()
}

fn answer(outcome: Outcome) -> Result<Outcome, ActionError> {
    if outcome.is_good() {
        return Ok(outcome);
    }
    let summary = outcome.summary.clone().unwrap_or_default();
    let class = outcome.class.clone().unwrap_or_default();
    Err(with_data(format!("{class}: {summary}"), outcome))
}

fn goes_on(outcome: Outcome, why: &str) -> ActionError {
    let message = format!(
        "{why}; run {} is {}: ask for it again by its name",
        outcome.run,
        outcome.state.word()
    );
    with_data(message, outcome)
}

fn with_data(message: String, outcome: Outcome) -> ActionError {
    let error = ActionError::failed(message);
    match serde_json::to_value(outcome) {
        Ok(Value::Object(data)) => error.with_data(data),
        _ => error,
    }
}

/// What is asked for, judged before anything is begun.
fn asked(cx: &Context, runs: &Runs, input: Input) -> Result<Asked, ActionError> {
    let options = &runs.options;
    if input.server.is_some() && !options.allow_server_override {
        return Err(ActionError::denied(
            "this node does not let callers choose the server: [plugins.puppet] allow_server_override",
            "plugins.puppet.allow_server_override",
        ));
    }
    let id = input.run.as_deref().map(run_id).transpose()?;
    let pool = match input.pool.as_deref() {
        None => runs.pool.clone(),
        Some(pool) => Name::parse(pool)
            .map_err(|error| ActionError::invalid(format!("pool `{pool}`: {error}")))?,
    };
    let limit = match input.limit {
        None => NonZeroU32::new(options.limit),
        Some(limit) => Some(
            u32::try_from(limit)
                .ok()
                .and_then(NonZeroU32::new)
                .ok_or_else(|| {
                    ActionError::invalid(format!("limit {limit} is no positive number"))
                })?,
        ),
    };
    let wish = Wish {
        noop: input.noop,
        tags: words(input.tags),
        skip_tags: words(input.skip_tags),
        environment: input.environment,
        splay: input.splay,
        splaylimit: input
            .splaylimit
            .map(|value| whole("splaylimit", value))
            .transpose()?,
        server: input.server,
        ignoreschedules: input.ignoreschedules,
        use_cached_catalog: input.use_cached_catalog,
        force: input.force == Some(true),
    };
    if options.engine == Engine::Native {
        refuse_puppets(&wish)?;
    }
    let wait = input.wait.map(|value| whole("wait", value)).transpose()?;
    let priority = input.priority.unwrap_or_default();
    Ok(Asked {
        id: id.unwrap_or_else(Uuid::now_v7),
        request: cx.request,
        caller: cx.caller.to_string(),
        trace: cx.trace.as_ref().map(ToString::to_string),
        host: cx.node.identity().to_string(),
        wish,
        wanted: Wanted {
            pool,
            limit,
            priority: i8::try_from(priority).map_err(|_| {
                ActionError::invalid(format!("priority {priority} is not between -128 and 127"))
            })?,
            patience: Duration::from_secs(wait.unwrap_or(options.wait)),
        },
        in_background: input.background == Some(true),
    })
}

/// What only Puppet knows.
fn refuse_puppets(wish: &Wish) -> Result<(), ActionError> {
    let given = [
        ("environment", wish.environment.is_some()),
        ("server", wish.server.is_some()),
        ("splay", wish.splay == Some(true)),
        ("splaylimit", wish.splaylimit.is_some()),
        ("use_cached_catalog", wish.use_cached_catalog == Some(false)),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => Err(ActionError::invalid(format!(
            "{name} means nothing here: [plugins.puppet] engine is `native`"
        ))),
        None => Ok(()),
    }
}

fn whole(name: &str, value: i64) -> Result<u64, ActionError> {
    u64::try_from(value)
        .ok()
        .filter(|value| *value <= 86_400)
        .ok_or_else(|| {
            ActionError::invalid(format!("{name} {value} is not between 0 and 86400 seconds"))
        })
}

/// Words between commas.
fn words(text: Option<String>) -> Vec<String> {
    let text = text.unwrap_or_default();
    let words = text.split(',').map(str::trim);
    words
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}
