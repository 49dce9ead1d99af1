//! Prints all public items of a crate, one a line, from the file of rustdoc's JSON that is named.
//!
//! Left out is what other lines say already: blanket implementations, auto traits, derived
//! implementations, and what belongs to the implementation of a trait. Each line stands once, also
//! that of an implementation, which is found with its type and with its trait.

use std::{collections::BTreeSet, env, error::Error};

fn main() -> Result<(), Box<dyn Error>> {
    let json = env::args_os()
        .nth(1)
        .ok_or("usage: tollgate-public-items FILE")?;
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()?;
    let items: Vec<String> = api.items().map(ToString::to_string).collect();
    for item in told(&items) {
        println!("{item}");
    }
    Ok(())
}

/// The items, without those that belong to the implementation of a trait.
fn told(items: &[String]) -> Vec<&str> {
    let modules: BTreeSet<_> = items
        .iter()
        .filter_map(|item| item.strip_prefix("pub mod "))
        .collect();
    let mut of_a_trait = false;
    let mut seen = BTreeSet::new();
    let mut told = Vec::new();
    for item in items {
        if item.starts_with("impl") {
            of_a_trait = item.contains(" for ");
        } else if !(of_a_trait && is_associated(item, &modules)) {
            of_a_trait = false;
        } else {
            continue;
        }
        if seen.insert(item) {
            told.push(&**item);
        }
    }
    told
}

/// Whether this is a function, a type or a constant that is not in a module itself.
fn is_associated(item: &str, modules: &BTreeSet<&str>) -> bool {
    let mut words = item
        .split(' ')
        .skip_while(|word| ["pub", "async", "const", "unsafe"].contains(word));
    let kind = words.next();
    let is_constant = item.starts_with("pub const ") && kind != Some("fn");
    let path = if is_constant { kind } else { words.next() };
    let is_kind = is_constant || matches!(kind, Some("fn" | "type"));
    let parent = path.and_then(|path| path.split(['(', '<']).next()?.rsplit_once("::"));
    is_kind && !parent.is_some_and(|(parent, _)| modules.contains(parent))
}

#[cfg(test)]
mod tests {
    use super::told;

    #[test]
    fn what_a_trait_asks_for_is_left_out_and_all_else_is_told() {
        let items = [
            "pub mod my",
            "pub struct my::Limit",
            "impl my::Limit",
            "pub fn my::Limit::new() -> Self",
            "impl my::Store for my::Limit",
            "pub type my::Limit::Key = u64",
            "pub const my::Limit::MAX: usize",
            "pub fn my::Limit::check<Q>(&self, &Q)",
            "pub async fn my::Limit::peek(&self)",
            "pub fn my::by_request<F>(F)",
        ];
        let twice = [&items[..], &items[4..6]].concat();
        let items: Vec<_> = twice.into_iter().map(String::from).collect();
        assert_eq!(
            told(&items).join("\n"),
            [&items[..5], &items[9..10]].concat().join("\n")
        );
    }
}
