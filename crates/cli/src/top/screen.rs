//! The terminal: frames one after the other, and keys.

use std::time::{Duration, Instant};

use anyhow::Result;
use ratatui::{
    crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers},
    layout::{Constraint, Layout, Rect},
    style::{Modifier, Style, Stylize},
    text::Line,
    widgets::{Row, Table},
};

use super::{
    frame::Frame,
    view::{Earlier, Section, View},
};

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The end.
    Quit,
    /// The view changed.
    Redraw,
    /// Nothing.
    Nothing,
}

/// What is on the screen.
pub struct Screen {
    pub view: View,
    /// The row of the process under the cursor.
    pub cursor: usize,
    sections: Vec<Section>,
}

impl Screen {
    pub fn new(view: View) -> Screen {
        Screen { view, cursor: 0, sections: Vec::new() }
    }

    /// The tables of a frame.
    pub fn update(&mut self, frame: &Frame, earlier: Option<&Earlier<'_>>) {
        self.sections = self.view.sections(frame, earlier);
        self.cursor = self.cursor.min(self.pids().len().saturating_sub(1));
    }

    fn pids(&self) -> &[i32] {
        self.sections
            .iter()
            .map(|section| &section.pids[..])
            .find(|pids| !pids.is_empty())
            .unwrap_or(&[])
    }

    /// Follows a key.
    pub fn press(&mut self, key: KeyCode) -> Action {
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Char('s') => self.view.order = self.view.order.next(),
            KeyCode::Char('a') => self.view.pid = None,
            KeyCode::Up => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Down => {
                self.cursor = (self.cursor + 1).min(self.pids().len().saturating_sub(1))
            }
            KeyCode::Enter => {
                let chosen = self.pids().get(self.cursor).copied();
                self.view.pid = if self.view.pid == chosen { None } else { chosen };
            }
            _ => return Action::Nothing,
        }
        Action::Redraw
    }

    /// Draws the tables below each other, as far as there is room.
    pub fn draw(&self, frame: &mut ratatui::Frame<'_>) {
        let heights = self.sections.iter().map(|section| match section.rows.len() {
            0 => Constraint::Length(2),
            rows => Constraint::Max(rows as u16 + 3),
        });
        let areas = Layout::vertical([Constraint::Length(2)].into_iter().chain(heights));
        let areas = areas.split(frame.area());
        frame.render_widget(self.title(), areas[0]);
        for (section, area) in self.sections.iter().zip(areas.iter().skip(1)) {
            self.draw_section(frame, section, *area);
        }
    }

    fn title(&self) -> Line<'static> {
        let what = self.view.pid.map_or("all processes".into(), |pid| format!("process {pid}"));
        Line::from(vec![
            " cairn top ".bold().reversed(),
            format!("  {what}, by {}   ", self.view.order.name()).into(),
            "q".bold(),
            " ends  ".dim(),
            "s".bold(),
            " sorts  ".dim(),
            "up, down, enter".bold(),
            " choose a process  ".dim(),
            "a".bold(),
            " all".dim(),
        ])
    }

    fn draw_section(&self, frame: &mut ratatui::Frame<'_>, section: &Section, area: Rect) {
        let [title, body] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        frame.render_widget(Line::from(section.title.clone()).bold(), title);
        if section.rows.is_empty() {
            return;
        }
        let columns = section.heading.len();
        let width = |column: usize| {
            let cells = section
                .rows
                .iter()
                .chain([&section.heading])
                .map(|row| row[column].chars().count());
            cells.max().unwrap_or(0) as u16 + 1
        };
        let rows = section.rows.iter().enumerate().map(|(index, cells)| {
            let is_chosen = section.pids.get(index).is_some() && index == self.cursor;
            let style = match is_chosen {
                true => Style::new().add_modifier(Modifier::REVERSED),
                false => Style::new(),
            };
            Row::new(cells.iter().enumerate().map(aligned)).style(style)
        });
        let heading = Row::new(section.heading.iter().enumerate().map(aligned)).dim();
        let widths: Vec<_> = (0..columns).map(|column| Constraint::Length(width(column))).collect();
        frame.render_widget(Table::new(rows, widths).header(heading).column_spacing(2), body);
    }
}

/// The first column to the left, the others to the right.
fn aligned((column, cell): (usize, &String)) -> Line<'static> {
    match column {
        0 => Line::from(cell.clone()).left_aligned(),
        _ => Line::from(cell.clone()).right_aligned(),
    }
}

/// Shows frames until the user ends it.
pub fn run(view: View, interval: Duration, take_frame: impl Fn() -> Frame) -> Result<()> {
    let mut terminal = ratatui::try_init()?;
    let result = show(&mut terminal, Screen::new(view), interval, take_frame);
    ratatui::restore();
    result
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    mut screen: Screen,
    interval: Duration,
    take_frame: impl Fn() -> Frame,
) -> Result<()> {
    let mut earlier: Option<(Frame, Instant)> = None;
    loop {
        let (frame, taken) = (take_frame(), Instant::now());
        let before = earlier
            .as_ref()
            .map(|(frame, at)| Earlier { frame, seconds: taken.duration_since(*at).as_secs_f64() });
        loop {
            screen.update(&frame, before.as_ref());
            terminal.draw(|target| screen.draw(target))?;
            let left = interval.saturating_sub(taken.elapsed());
            if left.is_zero() || !event::poll(left)? {
                break;
            }
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
            {
                let is_interrupt =
                    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                if is_interrupt || screen.press(key.code) == Action::Quit {
                    return Ok(());
                }
            }
        }
        earlier = Some((frame, taken));
    }
}
