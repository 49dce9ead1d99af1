//! What was admitted against what was promised.

use std::ops::RangeInclusive;

use tollgate_peers::table;

/// Prints a part with the head of its table.
pub(crate) fn history(title: &str, text: &str) {
    history_of(title, text, "admitted");
}

/// The same, where something else than what was admitted is counted.
pub(crate) fn history_of(title: &str, text: &str, counted: &str) {
    table::part(title, text);
    table::head(&["limiter", "promised", counted, ""]);
}

/// By what a number is judged.
#[derive(Clone, Copy)]
pub(crate) enum By {
    /// By the words in the table of promises.
    Promise,
    /// These words allow for another number.
    Words(&'static str),
    /// Nothing is said: this is what another number means.
    Nothing(&'static str),
}

/// Prints a row: right, wrong, or what its documentation says about it.
pub(crate) fn row(limiter: &str, promised: RangeInclusive<u64>, admitted: u64, by: By) {
    let (least, most) = (promised.start(), promised.end());
    let said = match by {
        _ if promised.contains(&admitted) => "right".to_owned(),
        By::Words(words) => format!("as documented: \"{words}\""),
        By::Nothing(meaning) => format!("{meaning}; nothing is said of it"),
        By::Promise if admitted > *most => "**wrong**: too many".to_owned(),
        By::Promise => "**wrong**: too few".to_owned(),
    };
    let promised = match least == most {
        true => format!("{most}"),
        false => format!("{least} to {most}"),
    };
    table::row(&[&limiter, &promised, &admitted, &said]);
}
