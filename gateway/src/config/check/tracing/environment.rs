//! OpenTelemetry's variables, as its specification of environment variables and of the OTLP exporter names them.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use url::Url;

use super::{usable, with_path};
use crate::config::checked::TracingProtocol;
use crate::config::context::Context;
use crate::config::place::At;
use crate::config::secret::Secret;

/// The variables of one environment.
pub(super) struct Otel<'a, 'c> {
    at: &'a At,
    context: &'a mut Context<'c>,
}

impl<'a, 'c> Otel<'a, 'c> {
    pub(super) fn new(at: &'a At, context: &'a mut Context<'c>) -> Otel<'a, 'c> {
        Otel { at, context }
    }

    /// A variable; one that is empty is as good as absent.
    fn get(&self, name: &str) -> Option<String> {
        if self.context.world.elsewhere {
            return None;
        }
        (self.context.world.env)(name).filter(|value| !value.trim().is_empty())
    }

    /// The variable of traces, or the one of all signals.
    fn signal(&self, rest: &str) -> Option<(String, String)> {
        let names = [format!("OTEL_EXPORTER_OTLP_TRACES_{rest}"), format!("OTEL_EXPORTER_OTLP_{rest}")];
        names.into_iter().find_map(|name| self.get(&name).map(|value| (name, value)))
    }

    fn ignored(&mut self, name: &str, fix: &str) {
        self.context.warning(self.at, format!("{name} says nothing usable and is ignored"), fix);
    }

    /// Whether somebody switched everything off.
    pub(super) fn off(&mut self) -> bool {
        let disabled = self.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        disabled || self.get("OTEL_TRACES_EXPORTER").is_some_and(|value| value.trim() == "none")
    }

    pub(super) fn protocol(&mut self) -> Option<TracingProtocol> {
        let (name, value) = self.signal("PROTOCOL")?;
        match value.trim() {
            "grpc" => Some(TracingProtocol::Grpc),
            "http/protobuf" => Some(TracingProtocol::Http),
            _ => {
                self.ignored(&name, "set it to grpc or http/protobuf");
                None
            }
        }
    }

    pub(super) fn endpoint(&mut self, protocol: TracingProtocol) -> Option<Url> {
        let (name, value) = self.signal("ENDPOINT")?;
        let Some(url) = usable(value.trim()) else {
            self.ignored(&name, "set it to an http or https URL without credentials in it");
            return None;
        };
        // What names traces is meant as it stands; the other one is the base of all signals.
        let base = !name.contains("TRACES");
        Some(if protocol == TracingProtocol::Http && base { with_path(url, true) } else { url })
    }

    /// Part of the traces, and whether a caller's decision goes before it.
    pub(super) fn sampler(&mut self) -> Option<(f64, bool)> {
        let name = self.get("OTEL_TRACES_SAMPLER")?;
        let name = name.trim();
        let (kind, parent) = match name.strip_prefix("parentbased_") {
            Some(kind) => (kind, true),
            None => (name, false),
        };
        match kind {
            "always_on" => Some((1.0, parent)),
            "always_off" => Some((0.0, parent)),
            "traceidratio" => {
                let Some(text) = self.get("OTEL_TRACES_SAMPLER_ARG") else { return Some((1.0, parent)) };
                let part = text.trim().parse::<f64>().ok().filter(|part| (0.0..=1.0).contains(part));
                if part.is_none() {
                    self.ignored("OTEL_TRACES_SAMPLER_ARG", "set it to a number from 0 to 1");
                }
                Some((part.unwrap_or(1.0), parent))
            }
            _ => {
                self.ignored("OTEL_TRACES_SAMPLER", "set it to parentbased_traceidratio, or one of its like");
                None
            }
        }
    }

    pub(super) fn timeout(&mut self) -> Option<Duration> {
        let (name, value) = self.signal("TIMEOUT")?;
        self.number(&name, &value).map(|ms| Duration::from_millis(ms).max(Duration::from_millis(1)))
    }

    pub(super) fn millis(&mut self, name: &str) -> Option<Duration> {
        let value = self.get(name)?;
        self.number(name, &value).map(Duration::from_millis)
    }

    pub(super) fn count(&mut self, name: &str) -> Option<usize> {
        let value = self.get(name)?;
        self.number(name, &value).and_then(|number| usize::try_from(number).ok())
    }

    fn number(&mut self, name: &str, value: &str) -> Option<u64> {
        let number = value.trim().parse().ok();
        if number.is_none() {
            self.ignored(name, "set it to a whole number");
        }
        number
    }

    pub(super) fn ca(&mut self) -> Option<PathBuf> {
        let (_, path) = self.signal("CERTIFICATE")?;
        Some(self.context.path(path.trim()))
    }

    pub(super) fn headers(&mut self) -> Vec<(HeaderName, Secret)> {
        let Some((name, text)) = self.signal("HEADERS") else { return Vec::new() };
        let pairs = pairs(&text).map(|pairs| {
            let header = |(key, value): (String, String)| {
                HeaderValue::from_str(&value).ok()?;
                Some((key.parse::<HeaderName>().ok()?, Secret::new(value)))
            };
            pairs.into_iter().map(header).collect::<Option<Vec<_>>>()
        });
        let Some(headers) = pairs.flatten() else {
            self.ignored(&name, "set it to name=value,name=value");
            return Vec::new();
        };
        headers
    }

    pub(super) fn resource(&mut self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        if let Some(text) = self.get("OTEL_RESOURCE_ATTRIBUTES") {
            match pairs(&text) {
                Some(pairs) => all = pairs,
                None => self.ignored("OTEL_RESOURCE_ATTRIBUTES", "set it to key=value,key=value"),
            }
        }
        if let Some(name) = self.get("OTEL_SERVICE_NAME") {
            all.retain(|(key, _)| key != "service.name");
            all.push(("service.name".into(), name));
        }
        all
    }
}

/// `key=value,key=value`; values may be percent-encoded.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let members = text.split(',').map(str::trim).filter(|member| !member.is_empty());
    let pair = |member: &str| {
        let (key, value) = member.split_once('=')?;
        let (key, value) = (key.trim(), decoded(value.trim())?);
        (!key.is_empty()).then(|| (key.to_owned(), value))
    };
    members.map(pair).collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(part.get(2..)?.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_pairs_are_decoded() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(pairs("a=1, b = x%20y ,"), Some(vec![pair("a", "1"), pair("b", "x y")]));
        assert_eq!(pairs("authorization=Basic%20a=="), Some(vec![pair("authorization", "Basic a==")]));
        for wrong in ["a", "=1", "a=%", "a=%zz", "a=%ff"] {
            assert_eq!(pairs(wrong), None, "{wrong}");
        }
    }
}
