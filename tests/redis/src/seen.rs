//! One line of `CLUSTER NODES`: what a node says about another, or about itself.

use crate::server::Server;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) id: String,
    flags: Vec<String>,
    /// Ranges, each with its first and its last slot.
    pub(crate) slots: Vec<(u16, u16)>,
}

impl Seen {
    /// What this node says about all nodes that it knows.
    pub(crate) async fn by(node: &Server) -> Option<Vec<Self>> {
        let lines: String = node.try_command("CLUSTER", &["NODES"]).await.ok()?;
        lines.lines().map(Self::read).collect()
    }

    pub(crate) fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|is| is == flag)
    }

    pub(crate) fn owns(&self, slot: u16) -> bool {
        let mut slots = self.slots.iter();
        slots.any(|(first, last)| (*first..=*last).contains(&slot))
    }

    fn read(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split(' ').collect();
        // A slot that is migrated is in brackets after the ranges.
        let ranges = words.get(8..)?.iter().filter(|word| !word.starts_with('['));
        let slots = ranges.map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((first.parse().ok()?, last.parse().ok()?))
        });
        Some(Self {
            id: words[0].to_owned(),
            flags: words[2].split(',').map(str::to_owned).collect(),
            slots: slots.collect::<Option<_>>()?,
        })
    }
}
