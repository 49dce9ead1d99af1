//! Notes about values that no log has, and that a layer would decide by.

use crate::{extensions::Source, scenario::Setting};

/// The values that the log lacks for the keys of these limits, and what to do about it.
pub fn notes(setting: &Setting) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    let mut add = |note: String| {
        if !notes.contains(&note) {
            notes.push(note);
        }
    };
    for limit in &setting.limits {
        let rule = &limit.rule;
        if limit.key.has_route() {
            add(format!(
                "rule `{rule}`: its key is the matched route, which no log has: all routes share a \
                 bucket here"
            ));
        }
        for name in limit.key.extensions() {
            if *setting.extensions.of(name) == Source::Nowhere {
                add(format!(
                    "rule `{rule}`: its key is the extension `{name}`, which no log has: requests \
                     are decided without it. If another field of the log has its value: --extension \
                     {name}=remote_user, or {name}=header:FIELD"
                ));
            }
        }
    }
    for name in setting.extensions.missing() {
        let is_told = notes
            .iter()
            .any(|note| note.contains(&format!("extension `{name}`")));
        if !is_told {
            notes.push(format!(
                "plans are selected by the extension `{name}`, which no log has: all callers \
                 have the limits without a plan. If another field of the log has its value: \
                 --extension {name}=remote_user, or {name}=header:FIELD"
            ));
        }
    }
    notes
}
