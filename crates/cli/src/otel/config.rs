//! Where to export to, as flags and the standard environment variables of OpenTelemetry say.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use opentelemetry_proto::tonic::resource::v1::Resource;

use super::message::attribute;

/// By the specification of the periodic exporting reader.
const INTERVAL_MS: &str = "60000";

/// By the specification of the OTLP exporter.
const TIMEOUT_MS: &str = "10000";

/// What an export needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The URL that metrics are posted to.
    pub(super) endpoint: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
    pub(super) resource: Resource,
}

impl Config {
    /// The export that was asked for, by `--otlp-endpoint` or in the environment; `None` if none
    /// was.
    ///
    /// # Errors
    ///
    /// Names the variable that is wrong, and what it may be.
    pub(crate) fn read(endpoint: Option<&str>) -> Result<Option<Self>> {
        // A variable that is empty is as one that is not set.
        Self::from(endpoint, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn from(flag: Option<&str>, var: impl Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        // That of the signal goes before that of all signals.
        let of_signal = |name: &str| {
            let own = var(&format!("OTEL_EXPORTER_OTLP_METRICS_{name}"));
            own.or_else(|| var(&format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        let is_off = var("OTEL_SDK_DISABLED").is_some_and(|off| off.eq_ignore_ascii_case("true"))
            || var("OTEL_METRICS_EXPORTER").is_some_and(|exporter| exporter == "none");
        let below = |base: &str| format!("{}/v1/metrics", base.trim_end_matches('/'));
        let endpoint = flag
            .map(below)
            .or_else(|| var("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"))
            .or_else(|| var("OTEL_EXPORTER_OTLP_ENDPOINT").map(|base| below(&base)));
        let Some(endpoint) = endpoint.filter(|_| !is_off || flag.is_some()) else {
            return Ok(None);
        };
        if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
            bail!(
                "{endpoint} is no endpoint for OTLP; write http://HOST:4318 or https://HOST:4318"
            );
        }
        if let Some(protocol) = of_signal("PROTOCOL")
            && protocol != "http/protobuf"
        {
            bail!("OTEL_EXPORTER_OTLP_PROTOCOL is {protocol}; Seawall speaks http/protobuf alone");
        }
        let millis = |name: &str, value: Option<String>, default: &str| {
            let text = value.unwrap_or_else(|| default.into());
            let millis = text.parse().ok().filter(|millis| *millis > 0);
            let millis = millis.with_context(|| {
                format!("{name} is {text}; it is a number of milliseconds, at least 1")
            })?;
            anyhow::Ok(Duration::from_millis(millis))
        };
        let interval = var("OTEL_METRIC_EXPORT_INTERVAL");
        Ok(Some(Self {
            headers: pairs("OTEL_EXPORTER_OTLP_HEADERS", of_signal("HEADERS").as_deref())?,
            interval: millis("OTEL_METRIC_EXPORT_INTERVAL", interval, INTERVAL_MS)?,
            timeout: millis("OTEL_EXPORTER_OTLP_TIMEOUT", of_signal("TIMEOUT"), TIMEOUT_MS)?,
            resource: resource(&var)?,
            endpoint,
        }))
    }
}

/// What the process is, for whoever collects from many.
fn resource(var: &impl Fn(&str) -> Option<String>) -> Result<Resource> {
    let own = [
        ("service.name", "seawall"),
        ("telemetry.sdk.name", "seawall"),
        ("telemetry.sdk.language", "rust"),
        ("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
    ];
    let mut all: BTreeMap<String, String> =
        own.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let given = var("OTEL_RESOURCE_ATTRIBUTES");
    all.extend(pairs("OTEL_RESOURCE_ATTRIBUTES", given.as_deref())?);
    all.extend(var("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name)));
    let attributes = all.into_iter().map(|(key, value)| attribute(key, value)).collect();
    Ok(Resource { attributes, ..Resource::default() })
}

/// `key=value` with commas between them, values percent-encoded, as in W3C Baggage.
fn pairs(name: &str, text: Option<&str>) -> Result<BTreeMap<String, String>> {
    let given = text.into_iter().flat_map(|text| text.split(','));
    let given = given.map(str::trim).filter(|pair| !pair.is_empty());
    given
        .map(|pair| {
            let pair = pair.split_once('=').filter(|(key, _)| !key.trim().is_empty());
            let (key, value) = pair
                .with_context(|| format!("{name} is not understood; write KEY=VALUE,KEY=VALUE"))?;
            let value = decoded(value.trim()).with_context(|| {
                format!("{name} has a percent sign in {key} without two hexadecimal digits")
            })?;
            Ok((key.trim().to_owned(), value))
        })
        .collect()
}

/// Without its percent-encoding; `None` if that is wrong.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(flag: Option<&str>, vars: &[(&str, &str)]) -> Result<Option<Config>> {
        Config::from(flag, |name| {
            vars.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
        })
    }

    #[test]
    fn nothing_is_exported_unless_somebody_asks() {
        assert!(config(None, &[]).unwrap().is_none());
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318");
        assert!(config(None, &[base, ("OTEL_SDK_DISABLED", "true")]).unwrap().is_none());
        assert!(config(None, &[base, ("OTEL_METRICS_EXPORTER", "none")]).unwrap().is_none());
    }

    #[test]
    fn endpoints_are_those_of_the_specification() {
        let endpoint = |flag, vars: &[_]| config(flag, vars).unwrap().unwrap().endpoint;
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318/");
        let own = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://b/x");
        assert_eq!(endpoint(None, &[base]), "http://a:4318/v1/metrics");
        assert_eq!(endpoint(None, &[base, own]), "http://b/x");
        assert_eq!(endpoint(Some("https://c"), &[base, own]), "https://c/v1/metrics");
    }

    #[test]
    fn the_environment_says_who_and_how_often() {
        let vars = [
            ("OTEL_SERVICE_NAME", "orders"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other, deployment.environment.name=a%20b"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "250"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=k%3D1"),
        ];
        let config = config(Some("http://a"), &vars).unwrap().unwrap();
        assert_eq!(config.interval, Duration::from_millis(250));
        assert_eq!(config.timeout, Duration::from_secs(10));
        assert_eq!(config.headers["api-key"], "k=1");
        let attributes = &config.resource.attributes;
        assert!(attributes.contains(&attribute("service.name", "orders")));
        assert!(attributes.contains(&attribute("deployment.environment.name", "a b")));
    }

    #[test]
    fn errors_name_the_variable_and_what_it_may_be() {
        let error = |flag, name, value| config(flag, &[(name, value)]).unwrap_err().to_string();
        let a = Some("http://a");
        let interval = error(a, "OTEL_METRIC_EXPORT_INTERVAL", "0");
        assert!(interval.contains("OTEL_METRIC_EXPORT_INTERVAL is 0"), "{interval}");
        let protocol = error(a, "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        assert!(protocol.contains("http/protobuf"), "{protocol}");
        let attributes = error(a, "OTEL_RESOURCE_ATTRIBUTES", "a");
        assert!(attributes.contains("KEY=VALUE"), "{attributes}");
        let percent = error(a, "OTEL_EXPORTER_OTLP_HEADERS", "a=%2");
        assert!(percent.contains("hexadecimal"), "{percent}");
        let scheme = error(None, "OTEL_EXPORTER_OTLP_ENDPOINT", "a:4318");
        assert!(scheme.contains("http://HOST:4318"), "{scheme}");
    }
}
