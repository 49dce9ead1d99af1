//! What a log does not tell, so that the answers would be others in a layer.

use crate::{extensions::Source, scenario::Setting};

/// What the log does not tell of the keys of these limits, and what to do about it.
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
                "rule `{rule}`: its key has the route that a router has matched, and no log tells \
                 that: all routes share a bucket here"
            ));
        }
        for name in limit.key.extensions() {
            if *setting.extensions.of(name) == Source::Nowhere {
                add(format!(
                    "rule `{rule}`: its key is the extension `{name}`, and no log tells that: \
                     requests are taken to be without. If the log has it elsewhere: --extension \
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
                "plans are chosen by the extension `{name}`, and no log tells that: all callers \
                 have the limits without a plan. If the log has it elsewhere: --extension \
                 {name}=remote_user, or {name}=header:FIELD"
            ));
        }
    }
    notes
}
