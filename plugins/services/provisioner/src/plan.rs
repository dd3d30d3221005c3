//! The steps that provision a node, and their order. Pure; validated when it is built from the options.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::wire::Millis;
use serde_json::{Map, Value};

use muster_contract::provision::NodeSettings;
use muster_contract::read_values;

use crate::options::{AgentStep, HelperStep, Options, StepName, StepOptions};

const MAX_STEPS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BuiltinStep {
    /// Locks the node for this service.
    Lock,
    /// Delivers settings and policies to the node.
    Configure,
    /// Chooses its master.
    Place,
    /// Writes the master's address to the node's hosts file.
    Host,
    /// Revokes and removes earlier certificates of its name on all masters.
    Clean,
    /// Creates the node's key and certificate request.
    Csr,
    /// Signs exactly that request.
    Sign,
    /// Puppet run that prepares the node.
    Bootstrap,
    /// Puppet run that applies the final configuration.
    Final,
    /// Starts Puppet's agent as a background service.
    Daemonize,
    /// Ends provisioning and unlocks the node.
    Release,
    Notify,
}

/// A built-in step, its name, and the steps that must be done before it.
type StepRule = (BuiltinStep, &'static str, &'static [BuiltinStep]);

impl BuiltinStep {
    /// All steps, in their order of execution.
    const RULES: [StepRule; 12] = [
        (Self::Lock, "lock", &[]),
        (Self::Configure, "configure", &[Self::Lock]),
        (Self::Place, "place", &[]),
        (Self::Host, "set_puppet_host", &[Self::Place]),
        (Self::Clean, "clean", &[Self::Place]),
        (Self::Csr, "request_certificate", &[Self::Lock, Self::Clean]),
        (Self::Sign, "sign", &[Self::Csr]),
        (Self::Bootstrap, "bootstrap", &[Self::Sign]),
        (Self::Final, "final_run", &[Self::Sign]),
        (Self::Daemonize, "daemonize", &[Self::Sign]),
        (Self::Release, "release", &[Self::Lock]),
        (Self::Notify, "notify", &[Self::Release]),
    ];

    pub fn as_str(self) -> &'static str {
        // Every step has a rule.
        Self::RULES.iter().find(|(step, ..)| *step == self).map_or("", |(_, name, _)| name)
    }

    pub fn step_name(self) -> StepName {
        StepName::builtin(self.as_str())
    }

    fn is_for_puppet(self) -> bool {
        match self {
            Self::Lock | Self::Configure | Self::Release | Self::Notify => false,
            Self::Place
            | Self::Host
            | Self::Clean
            | Self::Csr
            | Self::Sign
            | Self::Bootstrap
            | Self::Final
            | Self::Daemonize => true,
        }
    }

    fn find_rule(name: &StepName) -> Option<&'static StepRule> {
        Self::RULES.iter().find(|(_, known, _)| *known == name.as_str())
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum StepKind {
    Builtin(BuiltinStep, Map<String, Value>),
    Agent(AgentStep),
    /// A program.
    Helper(HelperStep),
    /// Delivers these settings, and those that a program returns for the node.
    Configure(NodeSettings, Option<HelperStep>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct PlanStep {
    pub name: StepName,
    /// What executes it.
    pub work: StepKind,
    pub tries: u32,
    /// Timeout of one try; `None` for the default.
    pub timeout: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryBackoff {
    /// Pause before the second try.
    pub initial: Millis,
    pub max: Millis,
}

impl RetryBackoff {
    /// Pause after this number of tries: doubles with each try, up to the longest.
    pub fn delay_after(self, tries: u32) -> Millis {
        // Bounded, because a shift by 64 or more would overflow.
        let doublings = tries.saturating_sub(1).min(20);
        self.initial.saturating_mul(1 << doublings).min(self.max)
    }
}

/// Ordered steps, each after those that it needs.
#[derive(Debug, Clone, PartialEq)]
pub struct ProvisioningPlan {
    steps: Vec<PlanStep>,
}

/// Why the configured steps are not a valid plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProvisioningPlanError {
    #[error("the step {0} is configured twice")]
    Duplicate(StepName),
    #[error("the step {0} is not built in; give it an `agent` or a `helper`, or use the name of a built-in step: {known}", known = builtin_names())]
    Unknown(StepName),
    #[error("the step {0} has both an `agent` and a `helper`; remove one of them")]
    Both(StepName),
    #[error("`after` of the step {step} refers to {after}, which is not a step of the plan")]
    NoSuch {
        step: StepName,
        /// The step that it should follow.
        after: StepName,
    },
    #[error("the step {step} must come after the step {needs}")]
    Order { step: StepName, needs: StepName },
    #[error(
        "the step configure has nothing to deliver; give it `inputs` or a `helper`, or remove it"
    )]
    NothingToDeliver,
    #[error("the `inputs` of the step configure are not valid: {0}")]
    Inputs(String),
    #[error("the `helper` of the step {0} has an empty `command`")]
    NoProgram(StepName),
    #[error("the plan has more than {MAX_STEPS} steps")]
    TooMany,
}

fn builtin_names() -> String {
    BuiltinStep::RULES.map(|(_, name, _)| name).join(", ")
}

impl ProvisioningPlan {
    pub fn from_options(options: &Options) -> Result<Self, ProvisioningPlanError> {
        let mut seen = BTreeSet::new();
        for step in &options.steps {
            if !seen.insert(&step.name) {
                return Err(ProvisioningPlanError::Duplicate(step.name.clone()));
            }
        }
        let configured = |name: &StepName| options.steps.iter().find(|step| step.name == *name);
        let mut steps = Vec::new();
        for (builtin, ..) in BuiltinStep::RULES {
            let name = builtin.step_name();
            let step_options = configured(&name);
            // Off by default: Puppet's own daemon competes with orchestrated runs, and there is nothing to deliver.
            let is_optional = matches!(builtin, BuiltinStep::Daemonize | BuiltinStep::Configure);
            let is_default = !is_optional && (options.puppet || !builtin.is_for_puppet());
            let is_enabled = step_options.map_or(is_default, |step| step.enabled);
            if is_enabled {
                steps.push(build_step(name, step_options, options.tries)?);
            }
        }
        for step_options in options.steps.iter().filter(|step| step.enabled) {
            if BuiltinStep::find_rule(&step_options.name).is_none() {
                let name = step_options.name.clone();
                steps.push(build_step(name, Some(step_options), options.tries)?);
            }
        }
        if steps.len() > MAX_STEPS {
            return Err(ProvisioningPlanError::TooMany);
        }
        let mut plan = Self { steps };
        for step_options in &options.steps {
            plan.place_step(step_options)?;
        }
        plan.check_order(options)?;
        Ok(plan)
    }

    /// The steps, in order of execution.
    pub fn steps(&self) -> &[PlanStep] {
        &self.steps
    }

    fn place_step(&mut self, step_options: &StepOptions) -> Result<(), ProvisioningPlanError> {
        let Some(after) = &step_options.after else {
            // An additional step without `after` runs before the node is released.
            let is_further = BuiltinStep::find_rule(&step_options.name).is_none();
            if let (true, Some(from)) = (is_further, self.step_position(&step_options.name)) {
                let step = self.steps.remove(from);
                let to = self.step_position(&BuiltinStep::Release.step_name());
                self.steps.insert(to.unwrap_or(self.steps.len()), step);
            }
            return Ok(());
        };
        let Some(from) = self.step_position(&step_options.name) else { return Ok(()) };
        let step = self.steps.remove(from);
        let Some(predecessor) = self.step_position(after) else {
            return Err(ProvisioningPlanError::NoSuch {
                step: step_options.name.clone(),
                after: after.clone(),
            });
        };
        self.steps.insert(predecessor + 1, step);
        Ok(())
    }

    /// Checks that each step comes after those that it needs. Disabled steps count as done.
    fn check_order(&self, options: &Options) -> Result<(), ProvisioningPlanError> {
        let is_disabled = |needed: BuiltinStep| {
            let name = needed.step_name();
            let step_options = options.steps.iter().find(|step| step.name == name);
            let is_default = options.puppet || !needed.is_for_puppet();
            step_options.map_or(!is_default, |step| !step.enabled)
        };
        for (index, step) in self.steps.iter().enumerate() {
            let Some((.., required_steps)) = BuiltinStep::find_rule(&step.name) else { continue };
            for needed in *required_steps {
                let needs = needed.step_name();
                let is_before = self.step_position(&needs).is_some_and(|at| at < index);
                if !is_before && !is_disabled(*needed) {
                    return Err(ProvisioningPlanError::Order { step: step.name.clone(), needs });
                }
            }
        }
        Ok(())
    }

    fn step_position(&self, name: &StepName) -> Option<usize> {
        self.steps.iter().position(|step| step.name == *name)
    }
}

fn build_step(
    name: StepName,
    step_options: Option<&StepOptions>,
    tries: u32,
) -> Result<PlanStep, ProvisioningPlanError> {
    let work = match step_options {
        Some(StepOptions { agent: Some(_), helper: Some(_), .. }) => {
            return Err(ProvisioningPlanError::Both(name));
        }
        Some(StepOptions { agent: Some(agent), .. }) => StepKind::Agent(agent.clone()),
        Some(StepOptions { helper: Some(helper), .. }) if helper.command.is_empty() => {
            return Err(ProvisioningPlanError::NoProgram(name));
        }
        Some(step_options) if name == BuiltinStep::Configure.step_name() => {
            configure_step(step_options)?
        }
        Some(StepOptions { helper: Some(helper), .. }) => StepKind::Helper(helper.clone()),
        _ => {
            let rule = BuiltinStep::find_rule(&name);
            let (builtin, ..) = rule.ok_or_else(|| ProvisioningPlanError::Unknown(name.clone()))?;
            let inputs = step_options.map(|options| options.inputs.clone()).unwrap_or_default();
            StepKind::Builtin(*builtin, inputs)
        }
    };
    let tries = step_options.and_then(|options| options.tries).unwrap_or(tries).max(1);
    let timeout = step_options.and_then(|options| options.timeout).map(Duration::from_secs);
    Ok(PlanStep { name, work, tries, timeout })
}

/// The step `configure`. Its helper does not replace it, but returns what is delivered.
fn configure_step(step_options: &StepOptions) -> Result<StepKind, ProvisioningPlanError> {
    let (inputs, helper) = (step_options.inputs.clone(), step_options.helper.clone());
    if inputs.is_empty() && helper.is_none() {
        return Err(ProvisioningPlanError::NothingToDeliver);
    }
    let settings =
        read_values(&inputs).map_err(|error| ProvisioningPlanError::Inputs(error.to_string()))?;
    Ok(StepKind::Configure(settings, helper))
}
