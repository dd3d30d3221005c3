//! The steps that provision a node, and their order. Pure; validated when it is built from the options.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::options::{AgentStep, HelperStep, Options, StepName, StepOptions};

/// Maximum number of steps in a plan.
const MAX_STEPS: usize = 64;

/// Steps that this service implements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BuiltinStep {
    /// Locks the node for this service.
    Lock,
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
    /// Sends the notifications.
    Notify,
}

impl BuiltinStep {
    /// All steps, in their order of execution.
    pub const ALL: [Self; 11] = [
        Self::Lock,
        Self::Place,
        Self::Host,
        Self::Clean,
        Self::Csr,
        Self::Sign,
        Self::Bootstrap,
        Self::Final,
        Self::Daemonize,
        Self::Release,
        Self::Notify,
    ];

    /// Name of the step.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Place => "place",
            Self::Host => "set_puppet_host",
            Self::Clean => "clean",
            Self::Csr => "request_certificate",
            Self::Sign => "sign",
            Self::Bootstrap => "bootstrap",
            Self::Final => "final_run",
            Self::Daemonize => "daemonize",
            Self::Release => "release",
            Self::Notify => "notify",
        }
    }

    /// Name of the step as a [`StepName`].
    pub fn step_name(self) -> StepName {
        StepName(self.as_str().to_owned())
    }

    fn from_name(name: &StepName) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.as_str() == name.0)
    }

    /// Steps that must be done before this one.
    fn required_steps(self) -> &'static [Self] {
        match self {
            Self::Lock | Self::Place => &[],
            Self::Host | Self::Clean => &[Self::Place],
            Self::Csr => &[Self::Lock, Self::Clean],
            Self::Sign => &[Self::Csr],
            Self::Bootstrap | Self::Final | Self::Daemonize => &[Self::Sign],
            Self::Release => &[Self::Lock],
            Self::Notify => &[Self::Release],
        }
    }
}

/// What executes a step.
#[derive(Debug, Clone, PartialEq)]
pub enum StepKind {
    /// This service.
    Builtin(BuiltinStep, Map<String, Value>),
    /// An agent's action.
    Agent(AgentStep),
    /// A program.
    Helper(HelperStep),
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanStep {
    /// Name of the step.
    pub name: StepName,
    /// What executes it.
    pub work: StepKind,
    /// Number of tries.
    pub tries: u32,
    /// Timeout of one try; `None` for the default.
    pub timeout: Option<Duration>,
}

/// Ordered steps, each after those that it needs.
#[derive(Debug, Clone, PartialEq)]
pub struct ProvisioningPlan {
    steps: Vec<PlanStep>,
}

/// Why the configured steps are not a valid plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProvisioningPlanError {
    /// A step is configured twice.
    #[error("the step {0} is configured twice")]
    Duplicate(StepName),
    /// A step that is not built in has neither an agent nor a helper.
    #[error("the step {0} is not built in; give it an `agent` or a `helper`, or use the name of a built-in step: {known}", known = builtin_names())]
    Unknown(StepName),
    /// A step has both an agent and a helper.
    #[error("the step {0} has both an `agent` and a `helper`; remove one of them")]
    Both(StepName),
    /// A step is to follow one that is not in the plan.
    #[error("`after` of the step {step} refers to {after}, which is not a step of the plan")]
    NoSuch {
        /// The step.
        step: StepName,
        /// The step that it should follow.
        after: StepName,
    },
    /// A step comes before one that it needs.
    #[error("the step {step} must come after the step {needs}")]
    Order {
        /// The step.
        step: StepName,
        /// The step that it needs.
        needs: StepName,
    },
    /// A helper has an empty command.
    #[error("the `helper` of the step {0} has an empty `command`")]
    NoProgram(StepName),
    /// The plan has more than `MAX_STEPS` steps.
    #[error("the plan has more than {MAX_STEPS} steps")]
    TooMany,
}

fn builtin_names() -> String {
    BuiltinStep::ALL.map(BuiltinStep::as_str).join(", ")
}

impl ProvisioningPlan {
    /// Builds and validates the plan that the options describe.
    pub fn from_options(options: &Options) -> Result<Self, ProvisioningPlanError> {
        let mut seen = BTreeSet::new();
        for step in &options.steps {
            if !seen.insert(&step.name) {
                return Err(ProvisioningPlanError::Duplicate(step.name.clone()));
            }
        }
        let configured = |name: &StepName| options.steps.iter().find(|step| step.name == *name);
        let mut steps = Vec::new();
        for builtin in BuiltinStep::ALL {
            let name = builtin.step_name();
            let step_options = configured(&name);
            // Off by default: Puppet's own daemon competes with orchestrated runs.
            let is_enabled =
                step_options.map_or(builtin != BuiltinStep::Daemonize, |step| step.enabled);
            if is_enabled {
                steps.push(build_step(name, step_options, options.tries)?);
            }
        }
        for step_options in options.steps.iter().filter(|step| step.enabled) {
            if BuiltinStep::from_name(&step_options.name).is_none() {
                steps.push(build_step(
                    step_options.name.clone(),
                    Some(step_options),
                    options.tries,
                )?);
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

    /// Moves a step behind the one that it is to follow.
    fn place_step(&mut self, step_options: &StepOptions) -> Result<(), ProvisioningPlanError> {
        let Some(after) = &step_options.after else {
            // An additional step without `after` runs before the node is released.
            let is_further = BuiltinStep::from_name(&step_options.name).is_none();
            if let (true, Some(from)) = (is_further, self.step_position(&step_options.name)) {
                let step = self.steps.remove(from);
                let to = self.step_position(&BuiltinStep::Release.step_name());
                self.steps.insert(to.unwrap_or(self.steps.len()), step);
            }
            return Ok(());
        };
        let Some(from) = self.step_position(&step_options.name) else {
            return Ok(());
        };
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
        let is_disabled = |name: &StepName| {
            let step_options = options.steps.iter().find(|step| step.name == *name);
            step_options.is_some_and(|step| !step.enabled)
        };
        for (index, step) in self.steps.iter().enumerate() {
            let Some(builtin) = BuiltinStep::from_name(&step.name) else {
                continue;
            };
            for needed in builtin.required_steps() {
                let needs = needed.step_name();
                let is_before = self.step_position(&needs).is_some_and(|at| at < index);
                if !is_before && !is_disabled(&needs) {
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
        Some(StepOptions { helper: Some(helper), .. }) => StepKind::Helper(helper.clone()),
        _ => {
            let builtin = BuiltinStep::from_name(&name)
                .ok_or_else(|| ProvisioningPlanError::Unknown(name.clone()))?;
            let inputs =
                step_options.map(|step_options| step_options.inputs.clone()).unwrap_or_default();
            StepKind::Builtin(builtin, inputs)
        }
    };
    let tries = step_options.and_then(|step_options| step_options.tries).unwrap_or(tries).max(1);
    let timeout =
        step_options.and_then(|step_options| step_options.timeout).map(Duration::from_secs);
    Ok(PlanStep { name, work, tries, timeout })
}
