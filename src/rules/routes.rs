//! Finds the rules that match a request, by its method and its route.

use std::{
    collections::{BTreeSet, HashMap},
    hash::BuildHasherDefault,
};

use ahash::AHasher;
use http::Method;

/// By text of the file: no caller can put anything in, so it needs no seed of its own.
type ByText<T> = HashMap<Box<str>, T, BuildHasherDefault<AHasher>>;

/// The methods and the pattern of one entry of `routes`, such as `GET,POST /users/{id}`.
#[derive(Debug)]
pub(super) struct Route {
    /// The entry itself.
    text: Box<str>,
    methods: Methods,
    /// Without the slash that it begins with. `None` matches every path.
    pattern: Option<Box<str>>,
}

/// A set of methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Methods(u16);

/// The HTTP methods, each with a bit.
const METHODS: [Method; 9] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::DELETE,
    Method::PATCH,
    Method::OPTIONS,
    Method::CONNECT,
    Method::TRACE,
];

impl Methods {
    const ALL: Self = Self(u16::MAX);
    /// The bit of every other method.
    const OTHER: Self = Self(1 << METHODS.len());
    const GET_AND_HEAD: u16 = 0b11;

    pub(super) fn of(method: &Method) -> Self {
        let bit = METHODS.iter().position(|known| known == method);
        bit.map_or(Self::OTHER, |bit| Self(1 << bit))
    }

    #[inline]
    fn include(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// `GET` includes `HEAD`: routers serve it with the same handler.
    fn parse(list: &str) -> Result<Self, String> {
        let mut methods = 0;
        for name in list.split(',') {
            match METHODS.iter().position(|known| known.as_str() == name) {
                Some(0) => methods |= Self::GET_AND_HEAD,
                Some(bit) => methods |= 1 << bit,
                None => return Err(format!("{name:?} is not a method of HTTP, such as \"GET\"")),
            }
        }
        Ok(Self(methods))
    }
}

impl Route {
    /// Every request.
    pub(super) fn every() -> Self {
        Self {
            text: "".into(),
            methods: Methods::ALL,
            pattern: None,
        }
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (methods, pattern) = match text.split_once(' ') {
            Some((methods, pattern)) => (Some(methods), Some(pattern)),
            None if text.starts_with('/') => (None, Some(text)),
            None => (Some(text), None),
        };
        Ok(Self {
            text: text.into(),
            methods: methods.map_or(Ok(Methods::ALL), Methods::parse)?,
            pattern: pattern.map(parse_pattern).transpose()?,
        })
    }

    /// Its text in the file, if it has a pattern.
    pub(super) fn with_pattern(&self) -> Option<&str> {
        self.pattern.as_ref().map(|_| &*self.text)
    }
}

/// A pattern in the syntax of axum's routes.
fn parse_pattern(text: &str) -> Result<Box<str>, String> {
    let Some(pattern) = text.strip_prefix('/') else {
        return Err(format!("the path {text:?} does not begin with \"/\""));
    };
    let mut segments = pattern.split('/').peekable();
    while let Some(segment) = segments.next() {
        let name = segment.split_once('{').map(|(_, name)| name);
        let is_well_formed = match name {
            None => !segment.contains('}'),
            Some(name) => {
                let is_last = segments.peek().is_none();
                let rest = is_last && segment.starts_with('{');
                let name = name.strip_suffix('}').unwrap_or_default();
                let name = name.strip_prefix('*').filter(|_| rest).unwrap_or(name);
                !name.is_empty() && !name.contains(['{', '}', '*'])
            }
        };
        if !is_well_formed {
            return Err(format!(
                "{text:?} is not a pattern of paths: {segment:?} is neither a text, nor a \
                 parameter such as \"{{id}}\", nor \"{{*rest}}\" at the end"
            ));
        }
    }
    Ok(pattern.into())
}

/// A rule that matches a path, and maybe the method.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// The number of the rule, counted from 0.
    pub(super) rule: u32,
    /// The number of the route, among those of all rules.
    pub(super) route: u32,
    /// The cost of a request of this route.
    pub(super) cost: u32,
    methods: Methods,
}

impl Candidate {
    #[inline]
    pub(super) fn is_for(&self, method: Methods) -> bool {
        self.methods.include(method)
    }
}

/// All rules, found by path: in a tree of the segments of their patterns.
#[derive(Default)]
pub(super) struct Routes {
    tree: Node,
    /// The rules that match every path.
    every_path: Vec<Candidate>,
    /// The rules that match each of the patterns, taken as a path: axum spells a matched route so.
    known: ByText<Box<[Candidate]>>,
    count: u32,
}

/// What follows after the same segments. All rules are in the order of the file.
#[derive(Default)]
struct Node {
    literals: ByText<Node>,
    /// `{name}` or `v{name}`: what is not empty, after this prefix.
    parameters: Vec<(Box<str>, Node)>,
    /// The rules whose pattern ends here.
    end: Vec<Candidate>,
    /// The rules whose pattern ends with `{*rest}`.
    rest: Vec<Candidate>,
}

impl Routes {
    /// Adds a route of a rule, after all those of the rules before it.
    pub(super) fn add(&mut self, route: &Route, rule: u32, cost: u32) {
        let end = match &route.pattern {
            None => &mut self.every_path,
            Some(pattern) => {
                self.known
                    .insert(format!("/{pattern}").into(), Box::default());
                self.tree.end_of(pattern)
            }
        };
        end.push(Candidate {
            rule,
            route: self.count,
            cost,
            methods: route.methods,
        });
        self.count += 1;
    }

    /// Makes the table of all patterns, when all routes are added.
    pub(super) fn finish(&mut self) {
        let patterns: Vec<_> = self.known.drain().map(|(path, _)| path).collect();
        for path in patterns {
            let found = self.matching(&path, &mut Vec::new()).into();
            self.known.insert(path, found);
        }
    }

    /// The rules that match a path, whatever the method. What is not in the table is put into
    /// `room`.
    #[inline]
    pub(super) fn matching<'a>(
        &'a self,
        path: &str,
        room: &'a mut Vec<Candidate>,
    ) -> &'a [Candidate] {
        if let Some(known) = self.known.get(path) {
            return known;
        }
        room.extend(&self.every_path);
        if let Some(path) = path.strip_prefix('/') {
            self.tree.each(path, &mut |list| room.extend(list));
        }
        room.sort_by_key(|candidate| candidate.route);
        room
    }

    /// The first of these rules that matches every request of this route.
    pub(super) fn covering(&self, route: &Route, of: impl Fn(u32) -> bool) -> Option<u32> {
        let mut first = None;
        let mut found = |list: &[Candidate]| {
            let covers = |it: &&Candidate| it.is_for(route.methods) && of(it.rule);
            let covering = list.iter().find(covers).map(|it| it.rule);
            first = first.into_iter().chain(covering).min();
        };
        found(&self.every_path);
        if let Some(pattern) = &route.pattern {
            // As a path, `{name}` is a segment that only parameters match, and an empty segment is
            // one that only `{*rest}` matches.
            match pattern.split_once("{*") {
                Some((before, _)) => self.tree.each(&format!("{before}/"), &mut found),
                None => self.tree.each(pattern, &mut found),
            }
        }
        first
    }

    /// The most that the rules which match one request weigh.
    pub(super) fn heaviest(&self, weight: impl Fn(BTreeSet<u32>) -> usize) -> usize {
        let of_method = |matched: &[Candidate], method| -> usize {
            let rules = matched.iter().filter(|it| it.is_for(method));
            weight(rules.map(|it| it.rule).collect())
        };
        heaviest(&[&self.tree], &self.every_path, &|matched| {
            let methods = (0..=METHODS.len()).map(|bit| Methods(1 << bit));
            methods.fold(0, |most, method| most.max(of_method(matched, method)))
        })
    }
}

impl Node {
    /// The rules with this pattern.
    fn end_of(&mut self, pattern: &str) -> &mut Vec<Candidate> {
        let mut node = self;
        for segment in pattern.split('/') {
            node = match segment.split_once('{') {
                None => node.literals.entry(segment.into()).or_default(),
                Some((_, name)) if name.starts_with('*') => return &mut node.rest,
                Some((prefix, _)) => {
                    let mut known = node.parameters.iter();
                    let place = known.position(|(other, _)| **other == *prefix);
                    let place = place.unwrap_or_else(|| {
                        node.parameters.push((prefix.into(), Self::default()));
                        node.parameters.len() - 1
                    });
                    &mut node.parameters[place].1
                }
            };
        }
        &mut node.end
    }

    fn each<'a>(&'a self, path: &str, found: &mut impl FnMut(&'a [Candidate])) {
        if !path.is_empty() {
            found(&self.rest);
        }
        let (segment, others) = match path.split_once('/') {
            Some((segment, others)) => (segment, Some(others)),
            None => (path, None),
        };
        for node in self.after(segment) {
            match others {
                Some(others) => node.each(others, found),
                None => found(&node.end),
            }
        }
    }

    fn after(&self, segment: &str) -> impl Iterator<Item = &Self> {
        let is_one = |prefix: &str| segment.len() > prefix.len() && segment.starts_with(prefix);
        let parameters = self
            .parameters
            .iter()
            .filter(move |(prefix, _)| is_one(prefix));
        let literal = self.literals.get(segment).into_iter();
        literal.chain(parameters.map(|(_, node)| node))
    }
}

/// The most that the rules can weigh which match a path that has come to these nodes, and ends or
/// goes on; these have matched already.
fn heaviest(
    nodes: &[&Node],
    matched: &[Candidate],
    weight: &impl Fn(&[Candidate]) -> usize,
) -> usize {
    let with = |list: fn(&Node) -> &Vec<Candidate>| {
        let lists = nodes.iter().flat_map(|node| list(node));
        matched.iter().chain(lists).copied().collect::<Vec<_>>()
    };
    let further = with(|node| &node.rest);
    let segments: BTreeSet<_> = (nodes.iter().flat_map(|node| {
        let literals = node.literals.keys().map(ToString::to_string);
        // With a brace it is no literal.
        let others = node
            .parameters
            .iter()
            .map(|(prefix, _)| format!("{prefix}{{"));
        literals.chain(others)
    }))
    .collect();
    let longer = segments.iter().map(|segment| {
        let after: Vec<_> = nodes.iter().flat_map(|node| node.after(segment)).collect();
        heaviest(&after, &further, weight)
    });
    let ends = weight(&with(|node| &node.end));
    longer.fold(ends.max(weight(&further)), usize::max)
}
