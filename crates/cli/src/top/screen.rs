//! The terminal.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table, Wrap};

use super::report::{self, Grid, Report};
use super::watch::Watch;
use crate::live::{Level, words};
use crate::report::format;

/// Readings that are kept for the lines: more than any terminal is wide.
const HISTORY: usize = 512;

/// How long a key may wait to be seen.
const BLINK: Duration = Duration::from_millis(50);

/// How wide names and values beside a line are.
const NAME: u16 = 10;
const VALUE: u16 = 10;

/// How wide a column of numbers is at least, so that it stays where it is as they change.
const COLUMN: usize = 8;

/// Microseconds in a second, the unit in which latency is drawn.
const MICROS: f64 = 1e6;

/// What one reading has brought: a report, nothing yet, or why there is none.
type News = Result<Option<Report>>;

/// What is on the screen.
#[derive(Default)]
struct Screen {
    report: Option<Report>,
    /// Why there is no new report.
    problem: Option<String>,
    /// When there was the last answer.
    answered: Option<Instant>,
    load: VecDeque<u64>,
    goodput: VecDeque<u64>,
    refused: VecDeque<u64>,
    p99: VecDeque<u64>,
}

/// Shows the listener until key q.
pub(super) fn run(watch: Watch) -> Result<()> {
    let (tell, news) = mpsc::sync_channel(1);
    // It waits for the network while the terminal waits for keys. It ends with the process.
    thread::spawn(move || {
        let mut watch = watch;
        while tell.send(watch.next()).is_ok() {}
    });
    let mut terminal = ratatui::try_init().context("cannot use this terminal")?;
    let done = show(&mut terminal, &news);
    ratatui::restore();
    done
}

fn show(terminal: &mut ratatui::DefaultTerminal, news: &Receiver<News>) -> Result<()> {
    let mut screen = Screen::default();
    loop {
        terminal.draw(|frame| screen.draw(frame)).context("cannot draw")?;
        loop {
            if event::poll(Duration::ZERO).context("cannot read keys")? {
                match event::read().context("cannot read keys")? {
                    Event::Key(key) if ends(key) => return Ok(()),
                    Event::Resize(..) => break,
                    _ => {}
                }
            }
            match news.recv_timeout(BLINK) {
                Ok(news) => {
                    screen.take(news);
                    break;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }
}

/// Whether a key means that somebody has seen enough.
fn ends(key: KeyEvent) -> bool {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press
        && match key.code {
            KeyCode::Char('q') | KeyCode::Esc => true,
            KeyCode::Char('c') => is_control,
            _ => false,
        }
}

impl Screen {
    fn take(&mut self, news: News) {
        let now = Instant::now();
        match news {
            Ok(report) => {
                (self.problem, self.answered) = (None, Some(now));
                let Some(report) = report else { return };
                let picture = &report.picture;
                let p99 = picture.p99_s.map_or(0.0, |p99| p99.seconds * MICROS);
                push(&mut self.load, picture.load);
                push(&mut self.goodput, picture.goodput);
                push(&mut self.refused, picture.refused);
                push(&mut self.p99, p99);
                self.report = Some(report);
            }
            Err(error) => self.problem = Some(format!("{error:#}")),
        }
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let [head, body, foot] =
            Layout::vertical([Constraint::Length(4), Constraint::Min(0), Constraint::Length(1)])
                .areas(frame.area());
        frame.render_widget(Paragraph::new(self.words()).wrap(Wrap { trim: true }), head);
        frame.render_widget(Paragraph::new("q: end").style(dim()), foot);
        let Some(report) = &self.report else { return };
        let numbers = report::numbers(&report.picture);
        let columns = (usize::from(body.width) / 36).max(1);
        let height = numbers.len().div_ceil(columns) as u16;
        let lines = if report.picture.units_free.is_some() { 0 } else { 4 };
        let [top, _, middle, _, bottom] = Layout::vertical([
            Constraint::Length(height),
            Constraint::Length(1),
            Constraint::Length(lines),
            Constraint::Length(u16::from(lines > 0)),
            Constraint::Min(0),
        ])
        .areas(body);
        draw_numbers(frame, top, &numbers, columns);
        if lines > 0 {
            self.draw_lines(frame, middle, report);
        }
        draw_grids(frame, bottom, &report::grids_of(&report.picture));
    }

    /// What runs there, how it is, and where the bottleneck is.
    fn words(&self) -> Vec<Line<'_>> {
        let Some(report) = &self.report else {
            let waiting = self.problem.as_deref().unwrap_or("waiting for the first two readings");
            return vec![Line::from("Seawall").style(bold(Color::Reset)), Line::from(waiting)];
        };
        let about = Line::from(report.about.as_str()).style(dim());
        if let Some(problem) = &self.problem {
            let since = self.answered.map_or(Duration::ZERO, |answered| answered.elapsed());
            let gone = format!("No answer for {}: {problem}", words::seconds(since.as_secs_f64()));
            return vec![about, Line::from(gone).style(bold(Color::Red))];
        }
        let colour = match report.verdict.level {
            Level::Idle => Color::Reset,
            Level::Good => Color::Green,
            Level::Busy => Color::Yellow,
            Level::Over => Color::Red,
        };
        let sentence = Line::from(report.verdict.sentence.as_str()).style(bold(colour));
        vec![about, sentence, Line::from(report.verdict.detail.as_str())]
    }

    fn draw_lines(&self, frame: &mut Frame<'_>, area: Rect, report: &Report) {
        let picture = &report.picture;
        let rate = |rate: f64| format!("{}/s", format::rate(rate));
        let p99 = picture.p99_s.map_or_else(|| format::NOTHING.into(), words::quantile);
        // Rates share a scale, so that they can be compared.
        let highest = self.load.iter().chain(&self.goodput).chain(&self.refused).max().copied();
        let rows = [
            ("load", rate(picture.load), &self.load, Color::Gray, highest),
            (
                report::served_name(picture),
                rate(picture.goodput),
                &self.goodput,
                Color::Green,
                highest,
            ),
            ("refused", rate(picture.refused), &self.refused, Color::Red, highest),
            ("p99", p99, &self.p99, Color::Yellow, None),
        ];
        let areas = Layout::vertical([Constraint::Length(1); 4]).split(area);
        for ((name, value, data, colour, most), area) in rows.into_iter().zip(areas.iter()) {
            let [left, middle, right] = Layout::horizontal([
                Constraint::Length(NAME),
                Constraint::Length(VALUE),
                Constraint::Min(0),
            ])
            .areas(*area);
            frame.render_widget(Paragraph::new(name).style(dim()), left);
            frame.render_widget(Paragraph::new(value), middle);
            // The newest is at the right end.
            let shown = data.iter().rev().take(usize::from(right.width));
            let shown: Vec<u64> = shown.copied().collect::<Vec<_>>().into_iter().rev().collect();
            let line = Sparkline::default().data(shown).style(Style::new().fg(colour));
            let line = most.map_or(line.clone(), |most| line.max(most.max(1)));
            frame.render_widget(line, right);
        }
    }
}

fn draw_numbers(frame: &mut Frame<'_>, area: Rect, numbers: &[(&str, String)], columns: usize) {
    let lines = numbers.chunks(columns).map(|row| {
        let cells = row.iter().flat_map(|(name, value)| {
            [
                Span::styled(format!("{name:<15}"), dim()),
                Span::styled(format!("{value:<21}"), Style::new().add_modifier(Modifier::BOLD)),
            ]
        });
        Line::from(cells.collect::<Vec<_>>())
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

/// One below the other, as far as there is room.
fn draw_grids(frame: &mut Frame<'_>, area: Rect, grids: &[Grid]) {
    let heights = grids.iter().map(|grid| Constraint::Max(grid.rows.len() as u16 + 2));
    let areas = Layout::vertical(heights).split(area);
    for (grid, area) in grids.iter().zip(areas.iter()) {
        let widths = grid.head.iter().enumerate().map(|(column, name)| {
            let cells = grid.rows.iter().filter_map(|row| row.get(column));
            let longest = cells.map(|text| text.chars().count()).max().unwrap_or(0);
            let least = if column == 0 { 0 } else { COLUMN };
            Constraint::Length(longest.max(name.len()).max(least) as u16)
        });
        let right = |text: &str, column: usize| {
            let line = Line::from(text.to_owned());
            Cell::from(if column == 0 { line } else { line.right_aligned() })
        };
        let cells = |texts: &[String]| {
            Row::new(texts.iter().enumerate().map(|(at, text)| right(text, at)).collect::<Vec<_>>())
        };
        let head = grid.head.iter().enumerate().map(|(at, text)| right(text, at));
        let table = Table::new(grid.rows.iter().map(|row| cells(row)), widths)
            .header(Row::new(head.collect::<Vec<_>>()).style(dim()))
            .column_spacing(2);
        frame.render_widget(table, *area);
    }
}

fn push(history: &mut VecDeque<u64>, value: f64) {
    if history.len() == HISTORY {
        history.pop_front();
    }
    history.push_back(value.round() as u64);
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn bold(colour: Color) -> Style {
    Style::new().fg(colour).add_modifier(Modifier::BOLD)
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::live::{Picture, Quantile, Stage, Verdict};

    fn report() -> Report {
        let stage = Stage {
            stage: "lock:orders".into(),
            refused: 480.0,
            refused_share: 0.48,
            delay_s: Some(0.012),
            ..Stage::default()
        };
        let picture = Picture {
            seconds: 1.0,
            load: 1_000.0,
            goodput: 520.0,
            refused: 480.0,
            refused_share: 0.48,
            p99_s: Some(Quantile::exact(0.014)),
            stages: vec![stage],
            ..Picture::default()
        };
        Report { about: "a service".into(), verdict: Verdict::of(&picture), picture }
    }

    fn drawn(screen: &Screen, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let rows = buffer.content().chunks(usize::from(width));
        let row = |cells: &[ratatui::buffer::Cell]| {
            cells.iter().map(ratatui::buffer::Cell::symbol).collect::<String>() + "\n"
        };
        rows.map(row).collect()
    }

    #[test]
    fn everything_stands_on_the_screen() {
        let mut screen = Screen::default();
        assert!(drawn(&screen, 80, 24).contains("waiting for the first two readings"));
        screen.take(Ok(Some(report())));
        screen.take(Ok(Some(report())));
        let text = drawn(&screen, 100, 30);
        for expected in [
            "a service",
            "Refusing 48 % at lock:orders; goodput 520/s; p99 14.0 ms",
            "Longest wait: 12.0 ms at lock:orders",
            "48 % (480/s)",
            "oldest waits",
            "q: end",
        ] {
            assert!(text.contains(expected), "{expected}:\n{text}");
        }
        // The line of the load: as high as its scale.
        let load = text.lines().find(|line| line.starts_with("load      1.00k/s")).unwrap();
        assert!(load.trim_end().ends_with("██"), "{text}");
        // Small terminals show what there is room for.
        assert!(drawn(&screen, 30, 8).contains("Refusing 48 %"));
        drawn(&screen, 1, 1);
    }

    #[test]
    fn a_server_that_is_gone_is_told() {
        let mut screen = Screen::default();
        screen.take(Err(anyhow!("cannot connect")));
        assert!(drawn(&screen, 80, 24).contains("cannot connect"));
        screen.take(Ok(Some(report())));
        screen.take(Err(anyhow!("cannot connect")));
        let text = drawn(&screen, 80, 24);
        assert!(text.contains("No answer for") && text.contains("cannot connect"), "{text}");
        screen.take(Ok(None));
        assert!(!drawn(&screen, 80, 24).contains("No answer"));
    }

    #[test]
    fn keys_that_end_it() {
        let key = |code, modifiers| ends(KeyEvent::new(code, modifiers));
        assert!(key(KeyCode::Char('q'), KeyModifiers::NONE));
        assert!(key(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(!key(KeyCode::Char('c'), KeyModifiers::NONE));
    }

    #[test]
    fn only_so_much_is_kept() {
        let mut history = VecDeque::new();
        (0..2 * HISTORY).for_each(|value| push(&mut history, value as f64));
        assert_eq!((history.len(), history.back()), (HISTORY, Some(&(2 * HISTORY as u64 - 1))));
    }
}
