//! Reads the limits of a rule, and its plans.

use std::collections::HashMap;

use serde::de::{DeserializeSeed, MapAccess};

use crate::config::{InMap, Read, ReadFields, any_algorithm};

use super::{super::key_source::PlanSource, EachIn, key::KeySeed};

/// The limits of a rule: one algorithm, or a list of them. `of` names the rule in messages.
pub(super) fn limits<'de>(of: &str) -> impl DeserializeSeed<'de, Value = Vec<Read>> {
    EachIn {
        read: move || any_algorithm(of),
        what: format!("{of}`limit` to be an algorithm as a map of its fields, or a list of them"),
    }
}

/// The plans of a rule: the value that selects one, and the limits of each.
pub(super) struct PlansFields<'a, 'b> {
    key: KeySeed<'a, 'b>,
    by: Option<PlanSource>,
    limits: Option<HashMap<String, Vec<Read>>>,
}

impl<'a, 'b> PlansFields<'a, 'b> {
    pub(super) fn new(key: KeySeed<'a, 'b>) -> Self {
        Self {
            key,
            by: None,
            limits: None,
        }
    }
}

impl ReadFields for PlansFields<'_, '_> {
    type Output = (PlanSource, HashMap<String, Vec<Read>>);

    fn about(&self) -> (&str, String, &'static [&'static str]) {
        (self.key.of, "`plans`".to_owned(), &["by", "limits"])
    }

    fn read<'de, A: MapAccess<'de>>(&mut self, field: &str, map: &mut A) -> Result<bool, A::Error> {
        match field {
            "by" => self.by = Some(map.next_value_seed(self.key.source("by"))?.0),
            "limits" => {
                let each = EachPlan(self.key.of, HashMap::new());
                self.limits = Some(map.next_value_seed(InMap(each))?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish(self) -> Result<Self::Output, String> {
        (self.by.zip(self.limits)).ok_or_else(|| "`plans` needs `by` and `limits`".to_owned())
    }
}

/// The limits of each plan, by its value.
struct EachPlan<'a>(&'a str, HashMap<String, Vec<Read>>);

impl ReadFields for EachPlan<'_> {
    type Output = HashMap<String, Vec<Read>>;

    fn about(&self) -> (&str, String, &'static [&'static str]) {
        (self.0, "`limits`".to_owned(), &["the value of a plan"])
    }

    fn read<'de, A: MapAccess<'de>>(&mut self, plan: &str, map: &mut A) -> Result<bool, A::Error> {
        let read = map.next_value_seed(limits(&format!("{}plan `{plan}`: ", self.0)))?;
        self.1.insert(plan.to_owned(), read);
        Ok(true)
    }

    fn finish(self) -> Result<Self::Output, String> {
        Ok(self.1)
    }
}
