//! Data source `package("openssl")`: whether a package is installed, and its version.

use muster_api::{ActionError, CallContext, DataSource};
use serde::Serialize;

use crate::package::property_text;
use crate::queue::run_blocking;

pub(crate) struct PackageDataSource;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct PackageDataOutput {
    pub(crate) installed: bool,
    pub(crate) version: Option<String>,
    pub(crate) ensure: String,
    pub(crate) held: bool,
}

impl DataSource for PackageDataSource {
    const NAME: &'static str = "package";
    type Output = PackageDataOutput;

    async fn query(
        &self,
        cx: &CallContext,
        query: Option<&str>,
    ) -> Result<PackageDataOutput, ActionError> {
        let name = query.unwrap_or_default().to_owned();
        run_blocking(cx, move |packages| {
            let found = packages.query_package(&name)?;
            let ensure = property_text(&found, "ensure");
            let installed = !matches!(ensure.as_str(), "" | "absent" | "purged");
            Ok(PackageDataOutput {
                installed,
                version: installed.then(|| ensure.clone()),
                held: property_text(&found, "mark") == "hold",
                ensure,
            })
        })
        .await
    }
}
