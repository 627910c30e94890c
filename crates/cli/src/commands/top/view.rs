//! What the view shows: a graph of requests, a table by kind, the layout, the devices or members.

use super::rates::Rates;
use crate::commands::status::text::{self, bytes, span, time};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table};

/// Columns of the table of requests.
const COLUMNS: [&str; 8] = ["", "requests/s", "bytes/s", "p50", "p99", "p99.9", "errors", "all"];

/// Draws it.
pub fn draw(frame: &mut Frame<'_>, rates: &Rates, held: bool) {
    let report = &rates.report;
    let below = lines_below(rates);
    let rows = report.requests.len() as u16 + 2;
    let [head, graph, requests, rest, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(6),
        Constraint::Length(rows),
        Constraint::Min(below.len() as u16),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(title(rates)), head);
    let width = usize::from(graph.width);
    let skipped = rates.history.len().saturating_sub(width);
    let history: Vec<u64> = rates.history.iter().skip(skipped).copied().collect();
    let most = history.iter().max().copied().unwrap_or(0);
    let title = format!(" requests/s, most {most} ");
    let graph_of = Sparkline::default().block(Block::bordered().title(title)).data(history);
    frame.render_widget(graph_of.style(Style::new().fg(Color::Cyan)), graph);
    frame.render_widget(table(rates), requests);
    frame.render_widget(Paragraph::new(below), rest);
    let hint = if held { "HELD  space goes on, q ends" } else { "space holds, q ends" };
    frame.render_widget(Paragraph::new(hint).style(Style::new().add_modifier(Modifier::DIM)), foot);
}

fn title(rates: &Rates) -> Vec<Line<'static>> {
    let report = &rates.report;
    let images: Vec<String> = report.images.iter().map(|one| one.display().to_string()).collect();
    let what = if images.is_empty() { "memory".to_owned() } else { images.join(" ") };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let first = format!("{what}: {}, {}", report.description, bytes(report.volume_bytes as f64));
    let second = format!(
        "process {}, for {}, {} connections, {} in flight",
        report.pid,
        span(report.uptime_ns),
        report.connections,
        report.in_flight
    );
    vec![Line::styled(first, bold), Line::from(second)]
}

fn table(rates: &Rates) -> Table<'static> {
    let row = |kind: &String| {
        let rate = rates.of(kind);
        let at = |share| rate.all.latency.quantile_ns(share).map_or("-".to_owned(), time);
        let (count, errors) =
            rates.report.requests.get(kind).map_or((0, 0), |one| (one.count, one.errors));
        let cells = [
            kind.clone(),
            format!("{:.0}", rate.requests),
            format!("{}/s", bytes(rate.bytes)),
            at(0.5),
            at(0.99),
            at(0.999),
            errors.to_string(),
            count.to_string(),
        ];
        let style = if errors > 0 { Style::new().fg(Color::Red) } else { Style::new() };
        Row::new(cells).style(style)
    };
    let rows: Vec<Row<'static>> = rates.report.requests.keys().map(row).collect();
    let widths = [7, 11, 13, 9, 9, 9, 8, 14].map(Constraint::Length);
    let header = Row::new(COLUMNS).style(Style::new().add_modifier(Modifier::DIM));
    Table::new(rows, widths).header(header)
}

/// The layout, what lies below it, and what is wrong.
fn lines_below(rates: &Rates) -> Vec<Line<'static>> {
    let report = &rates.report;
    let red = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
    let mut lines = Vec::new();
    if let Some(failed) = &report.failed {
        lines.push(Line::styled(format!("CHANGES ARE REFUSED: {failed}"), red));
    }
    let (read, written) = rates.below();
    let all = report.write_amplification();
    let all = all.map_or("-".to_owned(), |amplification| format!("{amplification:.2}"));
    lines.push(Line::from(format!(
        "below     {}/s read, {}/s written, write amplification {all}",
        bytes(read),
        bytes(written)
    )));
    for (index, device) in report.devices.iter().enumerate() {
        if let Some(cylinder) = device.cylinder {
            lines.push(Line::from(format!("head {index}    at cylinder {cylinder}")));
        }
    }
    for (name, text) in text::layout(report) {
        lines.push(Line::from(format!("{name:<9} {text}")));
    }
    if let Some(left) = drained_in(rates) {
        lines.push(Line::from(format!("          the log is empty in {left} at this pace")));
    }
    for (index, member) in report.members.iter().enumerate() {
        let text = format!("member    {}", text::member(index, member));
        let sound = member.state == "active" && member.unreadable_blocks == 0;
        lines.push(if sound { Line::from(text) } else { Line::styled(text, red) });
    }
    if let Some(rebuild) = report.rebuild.as_ref().filter(|one| one.stripes > 0) {
        let share = rebuild.done_stripes * 100 / rebuild.stripes;
        let left = rates.rebuild().map_or(String::new(), |(_, seconds)| {
            format!(", {} to go", span((seconds * 1e9) as u64))
        });
        lines.push(Line::from(format!("rebuild   {share} % done{left}")));
    }
    if let Some(scrub) = report.scrub.as_ref().filter(|one| one.state == "running") {
        let left = rates
            .scrub()
            .map_or(String::new(), |seconds| format!(", {} to go", span((seconds * 1e9) as u64)));
        lines.push(Line::from(format!("scrub     {}{left}", text::scrub(scrub))));
    }
    if let Some(file_system) = &report.file_system {
        let files = text::files(file_system).into_iter();
        lines.extend(files.map(|(name, text)| Line::from(format!("{name:<9} {text}"))));
    }
    lines
}

/// When the log of a disk caching disk will be empty, if it is being emptied.
fn drained_in(rates: &Rates) -> Option<String> {
    let dirty = rates.report.layout_counters.get("dirty_blocks").copied()?;
    let pace = -rates.counter("dirty_blocks");
    (pace > 0.0 && dirty > 0.0).then(|| span((dirty / pace * 1e9) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use seekless_serve::status::{MemberReport, Report, Requests};

    #[test]
    fn the_view_shows_requests_members_and_failures() {
        let mut report = Report { failed: Some("block 7".to_owned()), ..Report::default() };
        let writes = Requests { count: 3, errors: 1, ..Requests::default() };
        report.requests.insert("write".to_owned(), writes);
        let out = MemberReport { state: "out".to_owned(), ..MemberReport::default() };
        report.members.push(out);
        let mut terminal = Terminal::new(TestBackend::new(90, 24)).expect("a terminal in memory");
        let rates = Rates::new(report);
        terminal.draw(|frame| draw(frame, &rates, true)).expect("draws");
        let shown = terminal.backend().to_string();
        for text in ["CHANGES ARE REFUSED: block 7", "write", "member    0 -: out", "HELD"] {
            assert!(shown.contains(text), "no `{text}` in\n{shown}");
        }
    }
}
