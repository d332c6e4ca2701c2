//! The colours of the charts: told apart with every kind of colour vision, in light and dark.
//!
//! A chart is drawn in its light colours. The page repeats the dark ones as style rules that match
//! the light ones, so that one drawing serves both.

use std::fmt::{self, Write};

/// A colour: red, green and blue. Written as SVG and CSS have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rgb(u8, u8, u8);

impl fmt::Display for Rgb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(red, green, blue) = self;
        write!(f, "#{red:02X}{green:02X}{blue:02X}")
    }
}

/// One colour in its two shades.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ink {
    /// On white; no two inks share it.
    pub(super) light: Rgb,
    /// On near black.
    pub(super) dark: Rgb,
}

const fn ink(light: (u8, u8, u8), dark: (u8, u8, u8)) -> Ink {
    Ink { light: Rgb(light.0, light.1, light.2), dark: Rgb(dark.0, dark.1, dark.2) }
}

/// The ground behind a chart.
pub(super) const PAPER: Ink = ink((255, 255, 255), (22, 27, 34));
/// Labels.
pub(super) const TEXT: Ink = ink((52, 62, 74), (201, 209, 217));
/// Axes and ticks.
pub(super) const AXIS: Ink = ink((120, 132, 145), (110, 120, 132));
/// Lines of the mesh.
pub(super) const MESH: Ink = ink((228, 232, 236), (42, 49, 58));
/// What was asked for: offered load.
pub(super) const OFFERED: Ink = ink((154, 165, 177), (125, 136, 148));
/// Bounds: SLO, capacity and the moments of a spike.
pub(super) const BOUND: Ink = ink((32, 38, 46), (232, 237, 243));
/// Points that are not valid.
pub(super) const INVALID: Ink = ink((140, 150, 161), (139, 148, 158));

/// No control (vermilion of Okabe and Ito's palette).
pub(super) const WITHOUT: Ink = ink((213, 94, 0), (255, 140, 66));
/// The algorithms in order of appearance, from the same palette; a fifth shares the first's colour.
pub(super) const WITH: [Ink; 4] = [
    ink((0, 114, 178), (86, 170, 235)),
    ink((0, 138, 101), (64, 196, 152)),
    ink((170, 74, 137), (226, 142, 196)),
    ink((112, 92, 30), (214, 190, 100)),
];

/// Served within the SLO.
pub(super) const GOOD: Ink = ink((0, 158, 115), (45, 175, 130));
/// Served too late.
pub(super) const LATE: Ink = ink((230, 159, 0), (235, 172, 40));
/// Given up at the client.
pub(super) const DROPPED: Ink = ink((86, 180, 233), (100, 186, 235));
/// Refused by the server.
pub(super) const REFUSED: Ink = ink((204, 121, 167), (208, 128, 172));
/// No answer, or an error.
pub(super) const LOST: Ink = ink((84, 92, 102), (120, 129, 140));

const FIXED: [Ink; 13] =
    [PAPER, TEXT, AXIS, MESH, OFFERED, BOUND, INVALID, WITHOUT, GOOD, LATE, DROPPED, REFUSED, LOST];

/// Style rules that turn every ink inside `selector` from light to dark.
pub(super) fn dark_rules(selector: &str) -> String {
    let mut rules = String::new();
    for ink in FIXED.iter().chain(&WITH) {
        let Ink { light, dark } = ink;
        for property in ["fill", "stroke"] {
            writeln!(rules, "{selector} [{property}=\"{light}\"]{{{property}:{dark}}}")
                .expect("writing to a string cannot fail");
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_colours_differ() {
        let mut colours: Vec<String> =
            FIXED.iter().chain(&WITH).map(|ink| ink.light.to_string()).collect();
        let count = colours.len();
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), count);
    }

    #[test]
    fn rules_match_what_is_drawn() {
        let rules = dark_rules(".chart");
        assert!(rules.contains(".chart [stroke=\"#0072B2\"]{stroke:#56AAEB}"), "{rules}");
        assert_eq!(rules.lines().count(), 2 * (FIXED.len() + WITH.len()));
    }
}
