//! Columns of plain text.

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

use super::format;

/// A line below the head and no other.
const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// Space behind a column, besides the one of the junction.
const GAP: u16 = 1;

/// Rows below a head, in groups with an empty line between them. The first `names` columns begin at
/// the left; the others, which are numbers, end at the right. No line has spaces at its end, and
/// the last one no line break.
pub fn render<R: AsRef<[String]>>(head: &[&str], names: usize, groups: &[Vec<R>]) -> String {
    let mut table = Table::new();
    table.load_style(STYLE).set_header(cells(head, names));
    for (index, group) in groups.iter().enumerate() {
        if index > 0 {
            table.add_row([""]);
        }
        for row in group {
            table.add_row(cells(row.as_ref(), names));
        }
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index + 1 < head.len() { GAP } else { 0 }));
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

/// The same between an empty line and a `legend`, or nothing where there are no groups.
pub fn explained<R: AsRef<[String]>>(
    head: &[&str],
    names: usize,
    groups: &[Vec<R>],
    legend: &str,
) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let legend: String = format::wrap(legend, 100).into_iter().map(|line| line + "\n").collect();
    format!("\n{}\n{legend}", render(head, names, groups))
}

fn cells<T: std::fmt::Display>(texts: &[T], names: usize) -> impl Iterator<Item = Cell> {
    texts.iter().enumerate().map(move |(index, text)| {
        let side = if index < names { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(text).set_alignment(side)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_at_the_right() {
        let row = |name: &str, number: &str| [name.to_owned(), number.to_owned()];
        let groups = [vec![row("one", "1"), row("eleven", "11")], vec![row("all", "12")]];
        let text = render(&["name", "count"], 1, &groups);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "name    count");
        assert!(lines[1].chars().all(|c| c == '─') && !lines[1].is_empty());
        assert_eq!(lines[2..], ["one         1", "eleven     11", "", "all        12"]);
    }
}
