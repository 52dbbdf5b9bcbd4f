//! A picture of the waiting times: self-contained, light or dark as the viewer prefers.

use std::fmt::Write as _;

use kiln_sim::load::{Policy, Report};

use super::table::{largest, span};
use crate::graph::svg::escape;
use crate::output::text::fit;

/// Pixels. The curves stand above the bars, on the same left edge.
const WIDTH: f64 = 760.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 30.0;
const CURVES_TOP: f64 = 126.0;
const CURVES_HEIGHT: f64 = 240.0;
const BARS_TOP: f64 = CURVES_TOP + CURVES_HEIGHT + 92.0;
const BAR: f64 = 9.0;
const BAR_GAP: f64 = 10.0;
/// Columns of a name beside the bars.
const NAME: usize = 18;

/// Colours of the policies, which also differ by their dashes.
const STYLE: &str = "\
text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;\
font-size:12px;fill:#59636e}\
.page{fill:#ffffff}.title{font-size:16px;font-weight:600;fill:#1f2328}\
.head{font-size:13px;font-weight:600;fill:#1f2328}.grid{stroke:#d1d9e0}.axis{stroke:#8c959f}\
.end{text-anchor:end}.middle{text-anchor:middle}\
.line{fill:none;stroke-width:2.5}.p1{stroke-dasharray:8 4}.p2{stroke-dasharray:2 4}\
.c0{stroke:#0969da}.c1{stroke:#bc4c00}.c2{stroke:#6639ba}\
.b0{fill:#0969da}.b1{fill:#bc4c00}.b2{fill:#6639ba}\
@media (prefers-color-scheme:dark){text{fill:#9198a1}.page{fill:#0d1117}.title,.head{fill:#f0f6fc}\
.grid{stroke:#2a313c}.axis{stroke:#656c76}.c0{stroke:#58a6ff}.c1{stroke:#f0883e}.c2{stroke:#bc8cff}\
.b0{fill:#58a6ff}.b1{fill:#f0883e}.b2{fill:#bc8cff}}";

pub(super) fn draw(title: &str, reports: &[Report]) -> String {
    let names = reports.first().map(largest).unwrap_or_default().len();
    let bars_height = float(names) * group(reports.len());
    let height = BARS_TOP + bars_height + 60.0;
    let title = escape(title);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Waiting times of {title}\">\n\
         <style>{STYLE}</style>\n<rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"24\" y=\"32\">Waiting times by policy</text>\n\
         <text x=\"24\" y=\"52\">{title}</text>\n"
    );
    legend(reports, &mut out);
    curves(reports, &mut out);
    bars(reports, bars_height, &mut out);
    out.push_str("</svg>\n");
    out
}

/// The height that the bars of one organization take.
fn group(policies: usize) -> f64 {
    float(policies) * BAR + BAR_GAP
}

/// The same policy has the same colour, whatever it is compared with.
fn color(report: &Report) -> usize {
    Policy::ALL.iter().position(|policy| *policy == report.policy).unwrap_or(0)
}

fn legend(reports: &[Report], out: &mut String) {
    let mut x = LEFT;
    for report in reports {
        let (end, text, number) = (x + 28.0, x + 34.0, color(report));
        let _ = writeln!(
            out,
            "<path class=\"line c{number} p{number}\" d=\"M{x} 76H{end}\"/>\
             <text x=\"{text}\" y=\"80\">{}: Jain’s index {:.3}</text>",
            report.policy, report.jain
        );
        x += 200.0;
    }
}

/// Which part of the jobs waited at most so long, on a logarithmic axis that begins at nothing.
fn curves(reports: &[Report], out: &mut String) {
    let longest = reports.iter().map(|report| report.wait.max).fold(1.0, f64::max);
    let x = |seconds: f64| LEFT + (WIDTH - LEFT - RIGHT) * seconds.ln_1p() / longest.ln_1p();
    let y = |part: f64| CURVES_TOP + CURVES_HEIGHT * (1.0 - part);
    let bottom = y(0.0);
    heading("Jobs that waited at most so long", CURVES_TOP, out);
    for percent in [0, 25, 50, 75, 100] {
        let at = y(f64::from(percent) / 100.0);
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{}\"/>\
             <text class=\"end\" x=\"{}\" y=\"{:.1}\">{percent} %</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 4.0
        );
    }
    for tick in [0.0, 1.0, 10.0, 60.0, 600.0, 3_600.0, 36_000.0, 360_000.0, 3_600_000.0] {
        if tick <= longest {
            mark(x(tick), bottom, CURVES_HEIGHT, &plain(tick), out);
        }
    }
    axis("waiting time", bottom, out);
    for report in reports {
        let number = color(report);
        let last = float(report.curve.len().saturating_sub(1)).max(1.0);
        let mut path = String::new();
        for (place, &seconds) in report.curve.iter().enumerate() {
            let letter = if place == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{letter}{:.1} {:.1}", x(seconds), y(float(place) / last));
        }
        let _ = writeln!(out, "<path class=\"line c{number} p{number}\" d=\"{path}\"/>");
    }
}

/// The mean wait of the organizations that work most, by policy.
fn bars(reports: &[Report], height: f64, out: &mut String) {
    let Some(first) = reports.first() else { return };
    let names: Vec<&str> = largest(first).iter().map(|one| one.name.as_str()).collect();
    let means = reports.iter().flat_map(|report| names.iter().map(move |name| mean(report, name)));
    let longest = means.fold(1.0, f64::max);
    let scale = (WIDTH - LEFT - RIGHT) / longest;
    let bottom = BARS_TOP + height;
    heading("Mean wait by organization", BARS_TOP, out);
    let step = step(longest);
    let mut tick = 0.0;
    while tick <= longest {
        mark(LEFT + tick * scale, bottom, height, &plain(tick), out);
        tick += step;
    }
    axis("mean waiting time", bottom, out);
    for (row, name) in names.iter().enumerate() {
        let top = BARS_TOP + float(row) * group(reports.len()) + BAR_GAP / 2.0;
        bars_of(name, reports, top, scale, out);
    }
}

fn mean(report: &Report, name: &str) -> f64 {
    let found = report.organizations.iter().find(|one| one.name == name);
    found.map_or(0.0, |one| one.wait.mean)
}

/// A bar for each policy.
fn bars_of(name: &str, reports: &[Report], top: f64, scale: f64, out: &mut String) {
    let middle = top + float(reports.len()) * BAR / 2.0 + 4.0;
    let (shown, x) = (escape(&fit(name, NAME)), LEFT - 8.0);
    let _ = writeln!(out, "<text class=\"end\" x=\"{x}\" y=\"{middle:.1}\">{shown}</text>");
    for (row, report) in reports.iter().enumerate() {
        let (mean, y) = (mean(report, name), top + float(row) * BAR);
        let _ = writeln!(
            out,
            "<rect class=\"b{}\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" \
             height=\"{}\"><title>{}, {}: {}</title></rect>",
            color(report),
            mean * scale,
            BAR - 1.0,
            escape(name),
            report.policy,
            span(mean)
        );
    }
}

fn heading(text: &str, top: f64, out: &mut String) {
    let _ = writeln!(out, "<text class=\"head\" x=\"{LEFT}\" y=\"{}\">{text}</text>", top - 12.0);
}

/// A line through the whole picture above its time.
fn mark(x: f64, bottom: f64, height: f64, text: &str, out: &mut String) {
    let _ = writeln!(
        out,
        "<path class=\"grid\" d=\"M{x:.1} {bottom}V{}\"/>\
         <text class=\"middle\" x=\"{x:.1}\" y=\"{}\">{text}</text>",
        bottom - height,
        bottom + 18.0
    );
}

fn axis(text: &str, bottom: f64, out: &mut String) {
    let _ = writeln!(
        out,
        "<path class=\"axis\" d=\"M{LEFT} {bottom}H{}\"/>\
         <text class=\"end\" x=\"{}\" y=\"{}\">{text}</text>",
        WIDTH - RIGHT,
        WIDTH - RIGHT,
        bottom + 38.0
    );
}

/// A round time that divides the axis into a handful of parts.
fn step(longest: f64) -> f64 {
    let round = [1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 10_800.0, 43_200.0, 86_400.0];
    round.into_iter().find(|step| longest / step <= 7.0).unwrap_or_else(|| {
        let days = longest / 86_400.0 / 6.0;
        days.ceil() * 86_400.0
    })
}

/// A round time in one unit.
fn plain(seconds: f64) -> String {
    span(seconds).replace(" 0s", "").replace(" 0m", "").replace(" 0h", "")
}

#[expect(clippy::cast_precision_loss, reason = "a picture has few parts")]
fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use kiln_sim::load::{Fleet, Load, LoadBuilder, simulate};

    use super::*;

    fn reports(load: &Load) -> Vec<Report> {
        let fleet = Fleet::for_load(load, 1).unwrap();
        let report = |policy| {
            let outcome = simulate(load, &fleet, policy, &mut |_| {});
            Report::new(load, &fleet, policy, &outcome)
        };
        Policy::ALL.map(report).to_vec()
    }

    fn load(names: &[&str]) -> Load {
        let mut builder = LoadBuilder::default();
        for name in names {
            let organization = builder.organization(name).unwrap();
            let repository = builder.repository(organization, "r").unwrap();
            let kind = builder.kind(&[]).unwrap();
            let lane = builder.lane(kind, 0, repository, kiln_core::queue::Class::Normal);
            (0..3).for_each(|at| builder.job(at, 60_000, lane).unwrap());
        }
        builder.build()
    }

    /// Follows the tags of a document, and returns its texts.
    fn texts(svg: &str) -> Vec<String> {
        let (mut open, mut texts) = (Vec::new(), Vec::new());
        let mut rest = svg;
        while let Some(start) = rest.find('<') {
            let text = &rest[..start];
            assert!(!text.contains('>'), "{text}");
            texts.extend(Some(text.trim().to_owned()).filter(|text| !text.is_empty()));
            let end = start + rest[start..].find('>').expect("a tag ends");
            let tag = &rest[start + 1..end];
            assert!(!tag.contains('<') && tag.matches('"').count().is_multiple_of(2), "{tag}");
            let name = tag.trim_matches('/').split(' ').next().unwrap();
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name), "{tag}");
            } else if !tag.ends_with('/') {
                open.push(name);
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
        texts
    }

    /// S19
    #[test]
    fn a_plot_is_well_formed_and_says_what_it_shows() {
        let reports = reports(&load(&["a<b>&\"c\"", "other"]));
        let svg = draw("2 <organizations>", &reports);
        let texts = texts(&svg);
        for expect in [
            "waiting time",
            "mean waiting time",
            "50 %",
            "a&lt;b&gt;&amp;&quot;c&quot;",
            "2 &lt;organizations&gt;",
            "Mean wait by organization",
            "10s",
            "1m",
        ] {
            assert!(texts.iter().any(|text| text == expect), "{expect}: {texts:?}");
        }
        assert!(texts.iter().any(|text| text.starts_with("fifo: Jain’s index")), "{texts:?}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(svg.matches("://").count(), 1, "nothing but the name of the format");
        assert_eq!(svg.matches("<rect class=\"b").count(), 6);
    }

    #[test]
    fn nothing_to_show_is_still_a_picture() {
        texts(&draw("nothing", &[]));
        let svg = draw("empty", &reports(&Load::default()));
        texts(&svg);
        assert!(!svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn only_some_of_many_organizations_have_bars() {
        let names: Vec<String> = (0..40).map(|number| format!("o{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let svg = draw("many", &reports(&load(&names)));
        assert_eq!(svg.matches("<rect class=\"b").count(), 3 * 12);
    }

    #[test]
    fn steps_of_an_axis_are_round() {
        for (longest, expect) in [(1.0, 1.0), (20.0, 5.0), (1_600.0, 300.0), (1e6, 172_800.0)] {
            assert!((step(longest) - expect).abs() < 1e-9, "{longest}: {}", step(longest));
        }
    }
}
