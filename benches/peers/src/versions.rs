//! Which version of a peer is compared.

/// The version of a package that the lock file names; the last one, where it names several.
pub fn version_of(package: &str) -> &'static str {
    let lines: Vec<_> = include_str!("../Cargo.lock").lines().collect();
    let name = format!("name = \"{package}\"");
    let versions = lines.windows(2).filter(|pair| pair[0] == name);
    let mut version = versions.filter_map(|pair| pair[1].strip_prefix("version = "));
    version
        .next_back()
        .map_or("?", |quoted| quoted.trim_matches('"'))
}
