//! Tables with borders.

/// How borders are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Borders {
    /// `+---+`, for everything that reads text.
    Plain,
    /// Lines, for a terminal.
    Lines,
}

struct Strokes {
    top: [char; 3],
    middle: [char; 3],
    bottom: [char; 3],
    across: char,
    down: char,
}

const PLAIN: Strokes = Strokes {
    top: ['+', '+', '+'],
    middle: ['+', '+', '+'],
    bottom: ['+', '+', '+'],
    across: '-',
    down: '|',
};

const LINES: Strokes = Strokes {
    top: ['\u{250c}', '\u{252c}', '\u{2510}'],
    middle: ['\u{251c}', '\u{253c}', '\u{2524}'],
    bottom: ['\u{2514}', '\u{2534}', '\u{2518}'],
    across: '\u{2500}',
    down: '\u{2502}',
};

/// A table with a line below its header.
pub(crate) fn draw(columns: &[String], rows: &[Vec<String>], borders: Borders) -> String {
    let strokes = match borders {
        Borders::Plain => PLAIN,
        Borders::Lines => LINES,
    };
    let width = |at: usize, name: &String| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        let widest = cells.map(|cell| length(cell)).max().unwrap_or_default();
        widest.max(length(name))
    };
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(at, name)| width(at, name))
        .collect();
    let border = |[left, inner, right]: [char; 3]| {
        let parts = widths
            .iter()
            .map(|width| strokes.across.to_string().repeat(width + 2));
        let parts: Vec<String> = parts.collect();
        format!("{left}{}{right}\n", parts.join(&inner.to_string()))
    };
    let line = |cells: &[String]| {
        let padded = widths.iter().enumerate().map(|(at, width)| {
            let cell = cells.get(at).map(String::as_str).unwrap_or_default();
            let fill = " ".repeat(width - length(cell).min(*width));
            format!(" {cell}{fill} ")
        });
        let padded: Vec<String> = padded.collect();
        let down = strokes.down;
        format!("{down}{}{down}\n", padded.join(&down.to_string()))
    };
    let mut text = border(strokes.top) + &line(columns) + &border(strokes.middle);
    for row in rows {
        text.push_str(&line(row));
    }
    text + &border(strokes.bottom)
}

fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let columns = ["name".to_owned(), "n".to_owned()];
        let rows = vec![vec!["a longer one".to_owned(), "1".to_owned()]];
        assert_eq!(
            draw(&columns, &rows, Borders::Plain),
            "+--------------+---+\n| name         | n |\n+--------------+---+\n| a longer one | 1 |\n+--------------+---+\n"
        );
    }
}
