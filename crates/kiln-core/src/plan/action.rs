//! A compiled action: what `action.yml` says.

use serde::{Deserialize, Serialize};

use super::{Condition, Step, Template};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Action {
    pub name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<ActionInput>,
    /// Only composite actions compute their outputs; others set them while they run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<(String, Option<Template>)>,
    pub runs: ActionRuns,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ActionInput {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Template>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionRuns {
    #[serde(rename = "javascript")]
    JavaScript {
        /// The version of Node that it was written for: 12, 16, 20 or 24.
        node: u32,
        main: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pre: Option<Script>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        post: Option<Script>,
    },
    Composite(Vec<Step>),
    Docker {
        image: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entrypoint: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        args: Vec<Template>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        env: Vec<(String, Template)>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pre: Option<Script>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        post: Option<Script>,
    },
}

/// A script before the job's first step or after its last one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Script {
    pub path: String,
    /// `always()` when the action says nothing.
    pub condition: Condition,
}
