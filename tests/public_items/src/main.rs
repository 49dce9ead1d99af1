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
    let kinds = [
        "pub fn ",
        "pub const fn ",
        "pub async fn ",
        "pub type ",
        "pub const ",
    ];
    let path = kinds.iter().find_map(|kind| item.strip_prefix(kind));
    path.is_some_and(|path| !modules.contains(parent(path)))
}

/// What an item is in, with its generics: `my::Limit<A>` of `my::Limit<A>::check<Q>(&self, &Q)`.
fn parent(path: &str) -> &str {
    let (mut depth, mut end) = (0, 0);
    for (at, character) in path.char_indices() {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' | ' ' if depth == 0 => break,
            ':' if depth == 0 && path[at..].starts_with("::") => end = at,
            _ => {}
        }
    }
    &path[..end]
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
            "impl<A, B> my::Store for my::Both<A, B>",
            "pub type my::Both<A, B>::Key = <A as my::Store>::Key",
            "pub const fn my::Both<A, B>::check<Q: my::Of<A>>(&self, &Q)",
            "pub type my::Pair<A> = my::Both<A, A>",
            "impl my::Store for my::Limit",
            "pub fn my::by_request<F>(F)",
        ];
        let items = items.map(String::from);
        assert_eq!(
            told(&items),
            [0, 1, 2, 3, 4, 9, 12, 14].map(|told| &*items[told])
        );
    }
}
