//! `package("openssl")`: whether a package is installed, and in which version.

use muster_api::{ActionError, Context, DataSource};
use serde::Serialize;

use crate::package::word;
use crate::queue::look;

pub(crate) struct PackageData;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    pub(crate) installed: bool,
    pub(crate) version: Option<String>,
    pub(crate) ensure: String,
    pub(crate) held: bool,
}

impl DataSource for PackageData {
    const NAME: &'static str = "package";
    type Output = Output;

    async fn query(&self, cx: &Context, query: Option<&str>) -> Result<Output, ActionError> {
        let name = query.unwrap_or_default().to_owned();
        look(cx, move |packages| {
            let found = packages.find(&name)?;
            let ensure = word(&found, "ensure");
            let installed = !matches!(ensure.as_str(), "" | "absent" | "purged");
            Ok(Output {
                installed,
                version: installed.then(|| ensure.clone()),
                held: word(&found, "mark") == "hold",
                ensure,
            })
        })
        .await
    }
}
