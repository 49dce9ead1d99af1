//! An algorithm as a file has it, from the Rust that makes it.

/// The fields of a file, each with its value as TOML and JSON write it; `value` is that of a
/// variable of the Rust. `None`: there is a method that no file has a field for.
///
/// What is called `wait_at_most` in Rust is `wait-at-most` in a file, be it a type, a method or the
/// argument of a constructor.
pub fn in_a_file(rust: &str, value: impl Fn(&str) -> String) -> Option<Vec<(String, String)>> {
    let rust: String = rust.split_whitespace().collect();
    let (kind, rest) = rust.split_once("::new(").expect("a constructor");
    let (arguments, methods) = rest.split_once(')').expect("its end");
    let mut algorithm = with_hyphens(kind);
    let mut fields: Vec<_> = arguments
        .split(',')
        .map(|argument| (with_hyphens(argument), value(argument)))
        .collect();
    for method in methods.split(')').filter(|method| !method.is_empty()) {
        let (name, argument) = method[1..].split_once('(').expect("a method");
        match (name, argument) {
            ("per_request", _) => return None,
            // It makes another type.
            ("queue", _) => algorithm += "-queue",
            (name, "") => fields.push((with_hyphens(name), true.to_string())),
            (name, argument) => fields.push((with_hyphens(name), value(argument))),
        }
    }
    fields.insert(0, ("algorithm".to_owned(), format!("{algorithm:?}")));
    Some(fields)
}

/// `TokenBucket` and `token_bucket` as `token-bucket`.
fn with_hyphens(name: &str) -> String {
    let mut text = String::new();
    for character in name.chars() {
        if character.is_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.extend(character.to_lowercase());
    }
    text.replace('_', "-")
}

/// These fields as JSON.
pub fn json(fields: &[(String, String)]) -> String {
    let fields = fields
        .iter()
        .map(|(name, value)| format!("{name:?}:{value}"));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}
