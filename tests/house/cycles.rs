//! Finds cycles of imports among the files and folders of one folder.
//!
//! An import of a re-export counts as an import from the file that defines the item. Imports
//! between a module and its own submodules do not count.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::source::Source;

/// A module as its path: `["store", "local", "table"]`.
type Module = Vec<String>;

/// Entries of a folder whose imports form a cycle.
pub(crate) struct Circle {
    pub(crate) folder: String,
    pub(crate) files: Vec<String>,
    /// The imports between entries.
    places: Vec<String>,
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.places.join("\n    ");
        write!(
            f,
            "{}: {}\n    {places}",
            self.folder,
            self.files.join(", ")
        )
    }
}

/// The cycles of all folders.
pub(crate) fn cycles(sources: &[Source]) -> Vec<Circle> {
    let modules: BTreeMap<Module, &Source> = sources
        .iter()
        .map(|source| (module_of(&source.path), source))
        .collect();
    let taken: BTreeMap<&Module, Vec<Taken>> = modules
        .iter()
        .map(|(module, source)| (module, taken_by(module, source, &modules)))
        .collect();
    let mut folders: BTreeMap<Module, BTreeMap<(String, String), String>> = BTreeMap::new();
    for (from, source) in &modules {
        for one in &taken[from] {
            let to = defined_in(&one.path, &modules, &taken, 0);
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            // The front page and the floors above it have a test of their own.
            if common == 0 || common == from.len() || common == to.len() {
                continue;
            }
            folders
                .entry(from[..common].to_vec())
                .or_default()
                .entry((from[common].clone(), to[common].clone()))
                .or_insert_with(|| {
                    format!("{}:{} names {}", source.path, one.line, one.path.join("::"))
                });
        }
    }
    let mut found = Vec::new();
    for (folder, arrows) in folders {
        for circle in circles(&arrows) {
            let inside =
                |(from, to): &(String, String)| circle.contains(from) && circle.contains(to);
            let places = arrows
                .iter()
                .filter(|(arrow, _)| inside(arrow))
                .map(|(_, place)| place.clone())
                .collect();
            found.push(Circle {
                folder: folder.join("/"),
                files: circle.into_iter().collect(),
                places,
            });
        }
    }
    found
}

/// A path in a file, from the crate's root on.
struct Taken {
    path: Vec<String>,
    /// Its name in the file.
    name: String,
    line: usize,
}

fn module_of(path: &str) -> Module {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    path.split('/')
        .filter(|name| !["mod", "lib"].contains(name))
        .map(str::to_owned)
        .collect()
}

fn taken_by(module: &Module, source: &Source, modules: &BTreeMap<Module, &Source>) -> Vec<Taken> {
    let mut taken = Vec::new();
    for (path, line) in source.paths() {
        let supers = path.iter().take_while(|name| *name == "super").count();
        let (base, rest) = match path[0].as_str() {
            "crate" => (0, &path[1..]),
            "self" => (module.len(), &path[1..]),
            "super" if supers > module.len() => continue,
            "super" => (module.len() - supers, &path[supers..]),
            // A module that lies in this one.
            name if modules.contains_key(&[&module[..], &[name.to_owned()]].concat()) => {
                (module.len(), &path[..])
            }
            _ => continue,
        };
        let mut path = [&module[..base], rest].concat();
        let name = match &path[..] {
            [.., _, keyword, alias] if keyword == "as" => {
                let alias = alias.clone();
                path.truncate(path.len() - 2);
                alias
            }
            _ => path.last().cloned().unwrap_or_default(),
        };
        taken.push(Taken { path, name, line });
    }
    taken
}

/// The module that defines the item, and not one that re-exports it.
fn defined_in(
    path: &[String],
    modules: &BTreeMap<Module, &Source>,
    taken: &BTreeMap<&Module, Vec<Taken>>,
    depth: usize,
) -> Module {
    let length = (0..=path.len())
        .rev()
        .find(|length| *length == 0 || modules.contains_key(&path[..*length]));
    let module = path[..length.unwrap_or(0)].to_vec();
    let Some(item) = path.get(module.len()) else {
        return module;
    };
    let passed_on = taken.get(&module).into_iter().flatten().find(|one| {
        one.name == *item && one.path.starts_with(&module) && one.path.len() > module.len() + 1
    });
    match passed_on {
        Some(one) if depth < 8 => defined_in(&one.path, modules, taken, depth + 1),
        _ => module,
    }
}

/// The largest sets of names in which each leads to each other one.
fn circles(arrows: &BTreeMap<(String, String), String>) -> Vec<BTreeSet<String>> {
    let reached = |start: &String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![start.clone()]);
        while let Some(name) = next.pop() {
            for (from, to) in arrows.keys() {
                if *from == name && seen.insert(to.clone()) {
                    next.push(to.clone());
                }
            }
        }
        seen
    };
    let from: BTreeMap<_, _> = arrows
        .keys()
        .map(|(from, _)| (from.clone(), reached(from)))
        .collect();
    let leads = |a: &String, b: &String| from.get(a).is_some_and(|seen| seen.contains(b));
    let mut circles: BTreeSet<BTreeSet<String>> = BTreeSet::new();
    for name in from.keys().filter(|name| leads(name, name)) {
        let all = from
            .keys()
            .filter(|other| leads(name, other) && leads(other, name));
        circles.insert(all.cloned().collect());
    }
    circles.into_iter().collect()
}
