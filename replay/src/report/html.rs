//! The report as one page that needs nothing else: no script, no network, light or dark as the
//! reader's machine is.
//!
//! Whatever comes from a log or a file goes through [`html`], which leaves no markup.

use std::fmt::Write;

use base64::{Engine, engine::general_purpose::STANDARD};
use playground::{
    picture::{OverTime, Slot},
    span,
};

use super::{Instant, LimitReport, Quantiles, Report, TimeLine, WhatIf};
use crate::shown::{counted, html, percent};

const STYLE: &str = "\
:root{color-scheme:light dark;--text:#1f2328;--back:#fff;--soft:#59636e;--line:#d1d9e0}\
@media(prefers-color-scheme:dark){:root{--text:#e6edf3;--back:#0d1117;--soft:#9198a1;--line:#3d444d}}\
body{font:16px/1.5 system-ui,sans-serif;color:var(--text);background:var(--back);max-width:60rem;\
margin:2rem auto;padding:0 1rem}h1,h2{line-height:1.2}code{font-family:ui-monospace,monospace;\
overflow-wrap:anywhere}table{border-collapse:collapse;margin:1rem 0}caption{text-align:left;white-space:nowrap;\
font-weight:600}th,td{border-bottom:1px solid var(--line);padding:.2rem .8rem .2rem 0;\
text-align:left}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}\
img{max-width:100%;height:auto}.s{color:var(--soft)}";

impl Report {
    /// The report as a page.
    pub fn html(&self) -> String {
        let mut page = String::new();
        // Writing to a text never fails.
        let _ = self.write_html(&mut page);
        page
    }

    fn write_html(&self, page: &mut String) -> std::fmt::Result {
        let rules = html(&self.rules);
        let logs: Vec<_> = self.logs.iter().map(|log| html(&log.name)).collect();
        write!(
            page,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'; img-src data:\">\n\
             <title>{rules} on {logs}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
             <h1><code>{rules}</code> on <code>{logs}</code></h1>\n",
            logs = logs.join(", ")
        )?;
        for note in &self.notes {
            writeln!(page, "<p><strong>Note:</strong> {}.</p>", html(note))?;
        }
        self.write_unreadable(page)?;
        match (self.from, self.until) {
            (Some(from), Some(until)) => self.write_found(page, from, until)?,
            _ => writeln!(page, "<p>The logs have no requests.</p>")?,
        }
        writeln!(page, "</body>\n</html>")
    }

    fn write_found(&self, page: &mut String, from: Instant, until: Instant) -> std::fmt::Result {
        let it = &self.requests;
        let total = it.total;
        let requests = counted(total, "request");
        writeln!(page, "<p>{requests} from {from} until {until}.</p>")?;
        writeln!(page, "<table>\n<caption>All requests</caption>")?;
        for (name, number) in [
            ("admitted", it.admitted),
            ("refused", it.refused),
            ("would be refused by a limit in shadow", it.would_be_refused),
            ("no rule matches them", it.without_rule),
            ("rejected: they have no key, or no rule", it.rejected),
        ] {
            writeln!(
                page,
                "<tr><th scope=\"row\">{name}</th><td class=\"n\">{number}</td>\
                 <td class=\"n\">{}</td></tr>",
                percent(number, total)
            )?;
        }
        for rejection in &it.rejections {
            writeln!(
                page,
                "<tr><th scope=\"row\" class=\"s\">{}: {}</th><td class=\"n\">{}</td><td></td></tr>",
                rejection.status,
                html(&rejection.why),
                rejection.requests
            )?;
        }
        writeln!(
            page,
            "<tr><th scope=\"row\">callers refused</th><td class=\"n\">{}</td><td></td></tr>\n\
             </table>",
            it.callers_refused
        )?;
        self.over_time.write_html(page, "All requests", false)?;
        if let Some(rows) = &self.what_if {
            write_what_if(page, rows)?;
        }
        for limit in &self.limits {
            limit.write_html(page)?;
        }
        if self.keys.decided_in_shared_bucket > 0 {
            writeln!(
                page,
                "<p>More than {} had a bucket at once: {} were made by the overflow \
                 bucket, which the other keys share.</p>",
                counted(self.keys.max, "key"),
                counted(self.keys.decided_in_shared_bucket, "decision")
            )?;
        }
        Ok(())
    }

    fn write_unreadable(&self, page: &mut String) -> std::fmt::Result {
        for log in &self.logs {
            let name = html(&log.name);
            if log.unreadable > 0 {
                let lines = counted(log.unreadable, "line");
                writeln!(
                    page,
                    "<p>{lines} of <code>{name}</code> could not be read:</p>\n<ul>"
                )?;
                for line in &log.first_unreadable {
                    let (why, text) = (html(&line.why), html(&line.text));
                    let number = line.line;
                    writeln!(page, "<li>line {number}: {why}: <code>{text}</code></li>")?;
                }
                writeln!(page, "</ul>")?;
            }
            if log.out_of_order > 0 {
                writeln!(
                    page,
                    "<p>{} of <code>{name}</code> are too far behind later ones to be \
                     sorted.</p>",
                    counted(log.out_of_order, "request")
                )?;
            }
            if log.ahead > 0 {
                writeln!(
                    page,
                    "<p>{} of <code>{name}</code> dated more than a minute ahead of the lines \
                     around: replayed at the time of those.</p>",
                    counted(log.ahead, "request")
                )?;
            }
        }
        Ok(())
    }
}

impl LimitReport {
    fn write_html(&self, page: &mut String) -> std::fmt::Result {
        let name = html(&self.name);
        let shadow = if self.shadow { ", in shadow" } else { "" };
        writeln!(page, "<h2>Limit <code>{name}</code>{shadow}</h2>")?;
        let numbers: Vec<_> = self.numbers.iter().map(|line| html(line)).collect();
        let rule = html(&self.rule);
        writeln!(
            page,
            "<p><code>{}</code> of rule <code>{rule}</code></p>",
            numbers.join("</code>, or by plan <code>")
        )?;
        writeln!(page, "<table>")?;
        for (name, number) in [
            ("requests", self.requests),
            ("refused", self.refused),
            ("would be refused", self.would_be_refused),
            ("refused by other limits", self.refused_by_others),
            ("delayed", self.delayed),
            ("cost more than can ever fit", self.never_fit),
        ] {
            if number > 0 || name == "requests" {
                writeln!(
                    page,
                    "<tr><th scope=\"row\">{name}</th><td class=\"n\">{number}</td>\
                     <td class=\"n\">{}</td></tr>",
                    percent(number, self.requests)
                )?;
            }
        }
        writeln!(page, "</table>")?;
        self.over_time
            .write_html(page, &format!("Limit {}", self.name), self.shadow)?;
        self.write_waits_and_worst(page)?;
        if !self.most_refused.is_empty() {
            let callers = self.callers_refused;
            let exactness = match self.most_refused_is_exact {
                true => "",
                false => " (approximately, as there are too many to count each)",
            };
            writeln!(
                page,
                "<table>\n<caption>Refused most often{exactness}; callers refused: {callers}</caption>\n\
                 <tr><th scope=\"col\">key</th><th scope=\"col\" class=\"n\">refused</th></tr>"
            )?;
            for top in &self.most_refused {
                let times = match top.at_least == top.refused {
                    true => top.refused.to_string(),
                    false => format!("{} to {}", top.at_least, top.refused),
                };
                let key = html(&top.key);
                writeln!(
                    page,
                    "<tr><td><code>{key}</code></td><td class=\"n\">{times}</td></tr>"
                )?;
            }
            writeln!(page, "</table>")?;
        }
        Ok(())
    }

    fn write_waits_and_worst(&self, page: &mut String) -> std::fmt::Result {
        let waits = [
            ("Refused callers wait", &self.wait),
            ("Delayed requests wait", &self.delay),
        ];
        for (name, quantiles) in waits {
            if let Some(quantiles) = quantiles {
                quantiles.write_html(page, name)?;
            }
        }
        let Some(worst) = &self.worst_span else {
            return Ok(());
        };
        let bound = worst
            .bound
            .map_or("not known".to_owned(), |bound| bound.to_string());
        write!(
            page,
            "<p>At most {} {} of one key in any {}; the bound is {bound} ({})",
            worst.most,
            worst.counts,
            worst.span(),
            html(worst.formula)
        )?;
        if let (Some(key), Some(until)) = (&worst.key, worst.until) {
            write!(page, ". It was <code>{}</code>, until {until}", html(key))?;
        }
        if worst.overlooked > 0 {
            let overlooked = counted(worst.overlooked, "admission");
            write!(
                page,
                ". Not examined, because too many keys were active at once: {overlooked}"
            )?;
        }
        writeln!(page, ".</p>")
    }
}

impl Quantiles {
    fn write_html(&self, page: &mut String, name: &str) -> std::fmt::Result {
        writeln!(
            page,
            "<p>{name}: half of them at most {}, 90 % at most {}, 99 % at most {}; the longest {}.</p>",
            span::told(self.p50_micros),
            span::told(self.p90_micros),
            span::told(self.p99_micros),
            span::told(self.longest_micros)
        )
    }
}

impl TimeLine {
    fn write_html(&self, page: &mut String, of: &str, in_shadow: bool) -> std::fmt::Result {
        if self.bins.is_empty() {
            return Ok(());
        }
        let slots = self.bins.iter().map(|bin| {
            let refused = if in_shadow {
                bin.would_be_refused
            } else {
                bin.refused
            };
            Slot {
                admitted: bin
                    .requests
                    .saturating_sub(refused + bin.refused_otherwise + bin.delayed),
                delayed: bin.delayed,
                refused,
            }
        });
        let slots: Vec<_> = slots.collect();
        let refused: u64 = slots.iter().map(|slot| slot.refused).sum();
        let requests: u64 = self.bins.iter().map(|bin| bin.requests).sum();
        let (begin, end) = (self.begins(0), self.begins(self.bins.len()));
        let width = span::told(self.bin_micros);
        let called = if in_shadow {
            "would be refused"
        } else {
            "refused"
        };
        let worst = slots.iter().enumerate().max_by_key(|(place, slot)| {
            // The first of several.
            (slot.refused, usize::MAX - place)
        });
        let mut description = format!(
            "{of} from {begin} until {end}, {width} each: {requests} came, {refused} {called}"
        );
        let otherwise: u64 = self.bins.iter().map(|bin| bin.refused_otherwise).sum();
        if otherwise > 0 {
            description += &format!(", {otherwise} rejected or refused by others");
        }
        if let Some((place, slot)) = worst.filter(|_| refused > 0) {
            description += &format!(
                "; most refusals, {}, from {} on",
                slot.refused,
                self.begins(place)
            );
        }
        let description = crate::shown::printable(&description);
        let picture = OverTime {
            title: &format!("{} over time", crate::shown::printable(of)),
            told: &description,
            bins: &slots,
            refused: called,
            ends: (&begin.to_string(), &end.to_string()),
        };
        let data = STANDARD.encode(picture.svg());
        writeln!(
            page,
            "<p><img width=\"720\" height=\"124\" alt=\"{}\" src=\"data:image/svg+xml;base64,{data}\"></p>",
            html(&description)
        )
    }
}

fn write_what_if(page: &mut String, rows: &[WhatIf]) -> std::fmt::Result {
    writeln!(
        page,
        "<table>\n<caption>What if all quotas, bursts and capacities were …</caption>\n\
         <tr><th scope=\"col\"></th><th scope=\"col\" class=\"n\">refused</th>\
         <th scope=\"col\" class=\"n\">callers refused</th>\
         <th scope=\"col\" class=\"n\">would be refused (shadow)</th></tr>"
    )?;
    for row in rows {
        let name = row.quotas.name();
        if let Some(error) = &row.error {
            let error = html(error);
            writeln!(
                page,
                "<tr><th scope=\"row\">{name}</th><td colspan=\"3\">{error}</td></tr>"
            )?;
            continue;
        }
        writeln!(
            page,
            "<tr><th scope=\"row\">{name}</th><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td></tr>",
            row.refused, row.callers_refused, row.would_be_refused
        )?;
        if row.limits.len() > 1 {
            for limit in &row.limits {
                writeln!(
                    page,
                    "<tr><th scope=\"row\" class=\"s\"><code>{}</code></th>\
                     <td class=\"n s\">{}</td><td class=\"n s\">{}</td><td></td></tr>",
                    html(&limit.name),
                    limit.refused,
                    limit.callers_refused
                )?;
            }
        }
    }
    writeln!(page, "</table>")
}
