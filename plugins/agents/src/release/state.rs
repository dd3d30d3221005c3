//! What the node's record says of releases, under `release`.

use muster_api::StateSource;
use muster_api::state::bounded_text;
use muster_api::system::System;
use muster_wire::catalog::release::{RELEASE_STATE, STATE_CATALOG};
use serde_json::{Map, Value, json};

use super::follow::ReleaseFollower;

#[derive(Debug)]
pub(super) struct ReleaseStateSource(pub(super) ReleaseFollower);

impl StateSource for ReleaseStateSource {
    fn name(&self) -> &'static str {
        RELEASE_STATE
    }

    fn read_state(&self, _: &dyn System) -> Option<Map<String, Value>> {
        let state = self.0.read_state().ok()?;
        let mut map = Map::new();
        let mut set = |name: &str, value: Value| map.insert(name.to_owned(), value);
        if let Some(held) = state.current()
            && let Ok((promotion, release)) = held.read()
        {
            set("name", json!(release.name));
            set("environment", bounded_text(&release.environment));
            set("code", bounded_text(&release.code));
            set(STATE_CATALOG, json!(held.catalog));
            set("promoted_by", json!(promotion.author));
            set("promoted_at", json!(promotion.issued_at));
            set("applies", json!(promotion.apply.is_some()));
        }
        if let Some(run) = &state.last_run {
            set("run", json!(run.catalog));
            set("run_at", json!(run.at));
            set("noop", json!(run.noop));
            set("status", bounded_text(&run.status));
            set("changed", json!(run.changed));
            set("failed", json!(run.failed));
        }
        if let Some(problem) = self.0.problem() {
            set("problem", bounded_text(&problem));
        }
        (!map.is_empty()).then_some(map)
    }
}
