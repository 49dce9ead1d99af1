//! A file of rules: read by tollgate itself, also with all quotas halved or doubled.

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
};

use http::{HeaderName, header};
use playground::{algorithms::ALGORITHMS, limit::Limit};
use serde::Serialize;
use serde_json::Value;
use tollgate::{Quota, algorithm::described::Kind, rules::Rules};

use crate::{extensions::ExtensionSources, key_text::KeyText};

/// A file of rules.
#[derive(Debug)]
pub struct RulesFile {
    path: PathBuf,
    text: String,
    form: Form,
    value: Value,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Toml,
    Yaml,
    Json,
}

/// The factor for the quotas, bursts and capacities of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// One half, rounded up.
    Half,
    /// Nothing is changed.
    Same,
    /// Two.
    Double,
}

/// A limit of the file.
#[derive(Debug, Clone)]
pub struct LimitInfo {
    /// Its name.
    pub name: String,
    /// The name of its rule.
    pub rule: String,
    /// Whether the rule is in shadow.
    pub in_shadow: bool,
    /// Its numbers: those of the rule, and those of each of its plans that has this limit too.
    pub numbers: Vec<Limit>,
    /// How its keys are shown.
    pub key: KeyText,
}

impl RulesFile {
    /// Reads the file: YAML if its name ends so, JSON if it ends so, else TOML.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not in this format.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| in_file(path, error))?;
        let extension = path.extension().and_then(|extension| extension.to_str());
        let form = match extension {
            Some("yaml" | "yml") => Form::Yaml,
            Some("json") => Form::Json,
            _ => Form::Toml,
        };
        let value = match form {
            Form::Toml => toml::from_str(&text).map_err(|error| in_file(path, error)),
            Form::Yaml => serde_norway::from_str(&text).map_err(|error| in_file(path, error)),
            Form::Json => serde_json::from_str(&text).map_err(|error| in_file(path, error)),
        }?;
        Ok(Self {
            path: path.to_owned(),
            text,
            form,
            value,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The rules, as the layer reads them.
    ///
    /// # Errors
    ///
    /// tollgate's error about a mistake, with the line if the format knows it.
    pub fn rules(&self, extensions: &ExtensionSources) -> Result<Rules, String> {
        let rules = extensions.register(Rules::new());
        let (text, path) = (&*self.text, &*self.path);
        match self.form {
            Form::Toml => toml::Deserializer::parse(text)
                .and_then(|file| rules.replace(file))
                .map_err(|error| in_file(path, error)),
            Form::Yaml => rules
                .replace(serde_norway::Deserializer::from_str(text))
                .map_err(|error| in_file(path, error)),
            Form::Json => rules
                .replace(&mut serde_json::Deserializer::from_str(text))
                .map_err(|error| in_file(path, error)),
        }?;
        Ok(rules)
    }

    /// The rules with all quotas halved or doubled.
    ///
    /// # Errors
    ///
    /// tollgate's error about the scaled quotas.
    pub fn scaled(&self, scale: Scale, extensions: &ExtensionSources) -> Result<Rules, String> {
        if scale == Scale::Same {
            return self.rules(extensions);
        }
        let mut value = self.value.clone();
        for rule in rules_of(&mut value) {
            for limit in limits_of(rule) {
                scale.apply(limit);
            }
        }
        let rules = extensions.register(Rules::new());
        rules.replace(value).map_err(|error| error.to_string())?;
        Ok(rules)
    }

    /// The names of the extensions that the rules name.
    pub fn extension_names(&self) -> Vec<String> {
        let mut names = BTreeSet::new();
        let rules = self.value.get("rules").and_then(Value::as_array);
        for rule in rules.into_iter().flatten() {
            collect_extensions(rule.get("key"), &mut names);
            collect_extensions(
                rule.get("plans").and_then(|plans| plans.get("by")),
                &mut names,
            );
        }
        names.into_iter().collect()
    }

    /// The header fields that the rules may read: those behind proxies, those of extensions, and
    /// every text of the file that can be a name, as any rule names its own in one.
    pub fn header_names(&self, extensions: &ExtensionSources) -> Vec<HeaderName> {
        let mut names = vec![
            header::FORWARDED,
            HeaderName::from_static("x-forwarded-for"),
        ];
        names.extend(extensions.header_names());
        collect_header_names(&self.value, &mut names);
        let mut known = HashSet::new();
        names.retain(|name| known.insert(name.clone()));
        names
    }

    /// The limits, in the order of the file.
    pub fn limits(&self) -> Vec<LimitInfo> {
        let mut value = self.value.clone();
        let mut found: Vec<LimitInfo> = Vec::new();
        for rule in rules_of(&mut value) {
            let name = text_of(rule, "name").unwrap_or_default();
            let in_shadow = rule.get("shadow").and_then(Value::as_bool) == Some(true);
            let key = KeyText::of(rule.get("key"));
            for fields in limits_of(rule) {
                let own = text_of(fields, "name").unwrap_or_else(|| name.clone());
                let Some(limit) = fields.as_object().cloned().map(Limit::read) else {
                    continue;
                };
                let numbers: Vec<_> = limit.into_iter().collect();
                match found.iter_mut().find(|known| known.name == own) {
                    Some(known) => known.numbers.extend(numbers),
                    None => found.push(LimitInfo {
                        name: own,
                        rule: name.clone(),
                        in_shadow,
                        numbers,
                        key: key.clone(),
                    }),
                }
            }
        }
        found
    }
}

impl Scale {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Half => "half",
            Self::Same => "same",
            Self::Double => "double",
        }
    }

    fn of(self, units: u64) -> u64 {
        match self {
            Self::Half => units.div_ceil(2),
            Self::Same => units,
            Self::Double => units.saturating_mul(2),
        }
    }

    fn apply(self, limit: &mut Value) {
        let algorithm = text_of(limit, "algorithm");
        let Some(entry) =
            (ALGORITHMS.iter()).find(|entry| algorithm.as_deref() == Some(entry.name))
        else {
            return;
        };
        for field in &entry.fields {
            let Some(value) = limit.get_mut(field.name) else {
                continue;
            };
            let scaled = match field.kind {
                Kind::AtOnce => value.as_u64().map(|units| self.of(units).into()),
                Kind::Quota => value.as_str().and_then(|text| self.quota(text)),
                Kind::Interval => value.as_str().and_then(|text| self.interval(text)),
                _ => None,
            };
            if let Some(scaled) = scaled {
                *value = scaled;
            }
        }
    }

    fn quota(self, text: &str) -> Option<Value> {
        let quota: Quota = text.parse().ok()?;
        let scaled = Quota::try_new(self.of(quota.units()), quota.period()).ok()?;
        Some(scaled.to_string().into())
    }

    /// A minimal interval is divided by the factor: half as many requests are twice as far apart.
    fn interval(self, text: &str) -> Option<Value> {
        let micros = playground::span::micros(text).ok()?;
        let scaled = match self {
            Self::Half => micros.saturating_mul(2),
            Self::Same => micros,
            Self::Double => micros.div_ceil(2),
        };
        Some(format!("{scaled}us").into())
    }
}

fn in_file(path: &Path, error: impl std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

fn text_of(value: &Value, field: &str) -> Option<String> {
    Some(value.get(field)?.as_str()?.to_owned())
}

fn rules_of(file: &mut Value) -> impl Iterator<Item = &mut Value> {
    let rules = file.get_mut("rules").and_then(Value::as_array_mut);
    rules.into_iter().flatten()
}

/// The limits of a rule, then those of its plans.
fn limits_of(rule: &mut Value) -> Vec<&mut Value> {
    fn each(limits: &mut Value) -> Vec<&mut Value> {
        match limits {
            Value::Array(limits) => limits.iter_mut().collect(),
            one => vec![one],
        }
    }
    let (mut own, mut of_plans) = (Vec::new(), Vec::new());
    for (field, value) in rule.as_object_mut().into_iter().flatten() {
        match &**field {
            "limit" => own = each(value),
            "plans" => {
                let plans = value.get_mut("limits").and_then(Value::as_object_mut);
                for (_, limits) in plans.into_iter().flatten() {
                    of_plans.extend(each(limits));
                }
            }
            _ => {}
        }
    }
    own.extend(of_plans);
    own
}

fn collect_header_names(value: &Value, names: &mut Vec<HeaderName>) {
    match value {
        Value::String(text) => names.extend(text.parse::<HeaderName>().ok()),
        Value::Array(values) => values.iter().for_each(|it| collect_header_names(it, names)),
        Value::Object(fields) => fields
            .values()
            .for_each(|it| collect_header_names(it, names)),
        _ => {}
    }
}

fn collect_extensions(source: Option<&Value>, names: &mut BTreeSet<String>) {
    match source {
        Some(Value::Array(sources)) => {
            for source in sources {
                collect_extensions(Some(source), names);
            }
        }
        Some(source) => names.extend(text_of(source, "extension")),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn half_and_double_change_how_much_and_nothing_else() {
        let limit = json!({
            "algorithm": "token-bucket", "name": "a", "quota": "5/10s", "burst": 7,
            "wait-at-most": "3s", "precision": "1s",
        });
        let scaled = |scale: Scale, limit: &Value| {
            let mut scaled = limit.clone();
            scale.apply(&mut scaled);
            scaled
        };
        let half = json!({
            "algorithm": "token-bucket", "name": "a", "quota": "3/10s", "burst": 4,
            "wait-at-most": "3s", "precision": "1s",
        });
        assert_eq!(scaled(Scale::Half, &limit), half);
        let double = scaled(Scale::Double, &limit);
        assert_eq!(
            (&double["quota"], &double["burst"]),
            (&json!("10/10s"), &json!(14))
        );
        assert_eq!(scaled(Scale::Same, &limit), limit);
        // Half as many are twice as far apart.
        let spaced = json!({ "algorithm": "min-interval", "interval": "3ms" });
        assert_eq!(scaled(Scale::Half, &spaced)["interval"], "6000us");
        assert_eq!(scaled(Scale::Double, &spaced)["interval"], "1500us");
    }

    #[test]
    fn every_header_field_that_a_rule_reads_is_named() {
        let value = json!({
            "proxies": { "trusted": ["10.0.0.0/8"], "header": "X-Real-IP" },
            "rules": [{
                "name": "one",
                "key": ["client", { "header": "X-Api-Key", "missing": "next" }],
                "plans": { "by": { "header": "x-plan" }, "limits": {} },
            }],
        });
        let file = RulesFile {
            path: PathBuf::new(),
            text: String::new(),
            form: Form::Json,
            value,
        };
        let given = ["user=header:X-User".to_owned()];
        let extensions = ExtensionSources::new(vec!["user".to_owned()], &given).unwrap();
        let names = file.header_names(&extensions);
        let read = [
            "x-real-ip",
            "x-api-key",
            "x-plan",
            "x-user",
            "x-forwarded-for",
            "forwarded",
        ];
        for name in read {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
        assert!(!names.contains(&header::USER_AGENT));
    }

    #[test]
    fn limits_extensions_and_numbers_of_plans_are_found() {
        let value = json!({ "rules": [
            {
                "name": "one", "key": ["address", { "extension": "user" }],
                "limit": { "algorithm": "gcra", "quota": "5/s" },
                "plans": { "by": { "extension": "plan" }, "limits": {
                    "gold": { "algorithm": "gcra", "quota": "50/s" },
                } },
            },
            {
                "name": "two", "key": "everyone", "shadow": true,
                "limit": [
                    { "name": "a", "algorithm": "gcra", "quota": "5/s" },
                    { "name": "b", "algorithm": "min-interval", "interval": "1s" },
                ],
            },
        ] });
        let file = RulesFile {
            path: PathBuf::new(),
            text: String::new(),
            form: Form::Json,
            value,
        };
        assert_eq!(file.extension_names(), ["plan", "user"]);
        let limits = file.limits();
        let found: Vec<_> = limits
            .iter()
            .map(|it| (&*it.name, &*it.rule, it.in_shadow, it.numbers.len()))
            .collect();
        let expected = [
            ("one", "one", false, 2),
            ("a", "two", true, 1),
            ("b", "two", true, 1),
        ];
        assert_eq!(found, expected);
    }
}
