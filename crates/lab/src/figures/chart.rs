//! Pictures of figures as SVG: lines over an axis, or bars in groups.

use super::claim::number;
use std::fmt::Write as _;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 210.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 70.0;
/// Ticks of an axis, about.
const TICKS: f64 = 5.0;
/// Powers of ten that a logarithmic axis may span.
const DECADES: i32 = 12;
/// From this ratio of the largest to the smallest value on, the vertical axis is logarithmic.
const WIDE_RATIO: f64 = 30.0;
/// Colours that people with colour blindness can tell apart (Okabe and Ito).
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"];

/// How values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A line for each series.
    Lines,
    /// A bar for each value, in groups.
    Bars,
}

/// Values of one system or quantity, one for each label.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its values.
    pub values: Vec<Option<f64>>,
    /// Of a paper: drawn as a broken line.
    pub published: bool,
}

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Its title.
    pub title: String,
    /// What the labels are.
    pub x: String,
    /// What the values are.
    pub y: String,
    /// Labels along the horizontal axis.
    pub labels: Vec<String>,
    /// The values.
    pub series: Vec<Series>,
    /// How they are drawn.
    pub shape: Shape,
}

/// The vertical axis.
struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Axis {
    fn new(values: &[f64], shape: Shape) -> Axis {
        let high = values.iter().copied().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
        let low = values.iter().copied().filter(|one| *one > 0.0).fold(high, f64::min);
        let logarithmic = shape == Shape::Lines && high / low > WIDE_RATIO;
        let low = if logarithmic { low / 1.2 } else { 0.0 };
        Axis { low, high: high * 1.05, logarithmic }
    }

    /// The height of a value, in the picture.
    fn at(&self, value: f64) -> f64 {
        let scale = |value: f64| match self.logarithmic {
            true => value.max(self.low).ln(),
            false => value,
        };
        let part = (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low));
        HEIGHT - BOTTOM - part.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    }

    /// Round values along it: 1, 2 or 5 times a power of ten apart, or at those if logarithmic.
    fn ticks(&self) -> Vec<f64> {
        let power = |value: f64| 10_f64.powf(value.log10().floor());
        if self.logarithmic {
            let round = |nr: i32| {
                let decade = power(self.low) * 10_f64.powi(nr);
                [1.0, 2.0, 5.0].map(|digit| digit * decade)
            };
            let inside = |value: &f64| (self.low..=self.high).contains(value);
            return (0..=DECADES).flat_map(round).filter(inside).collect();
        }
        let rough = self.high / TICKS;
        let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power(rough));
        let step = steps.into_iter().find(|step| *step >= rough).unwrap_or(rough);
        (0..=(self.high / step) as u32).map(|nr| f64::from(nr) * step).collect()
    }
}

/// A round number as people write it.
fn short(value: f64) -> String {
    // Rounding drops what the arithmetic of steps has added.
    format!("{}", (value * 1e6).round() / 1e6)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => {
        writeln!($out, $($arg)*).expect("a string takes all that is written to it")
    };
}

fn text(out: &mut String, (x, y): (f64, f64), anchor: &str, size: u32, what: &str) {
    let what = escaped(what);
    line!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\">\
         {what}</text>"
    );
}

impl Chart {
    /// As SVG.
    pub fn to_svg(&self) -> String {
        let values = self.series.iter().flat_map(|one| &one.values).flatten();
        let axis = Axis::new(&values.copied().collect::<Vec<_>>(), self.shape);
        let mut out = String::new();
        line!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" role=\"img\">"
        );
        line!(out, "<title>{}</title>", escaped(&self.title));
        line!(out, "<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>");
        text(&mut out, (LEFT, TOP - 22.0), "start", 16, &self.title);
        self.axes(&mut out, &axis);
        for (nr, series) in self.series.iter().enumerate() {
            match self.shape {
                Shape::Lines => self.line(&mut out, &axis, nr, series),
                Shape::Bars => self.bars(&mut out, &axis, nr, series),
            }
            self.key(&mut out, nr, series);
        }
        out.push_str("</svg>\n");
        out
    }

    fn inner(&self) -> f64 {
        WIDTH - LEFT - RIGHT
    }

    /// The middle of a label.
    fn x(&self, label: usize) -> f64 {
        LEFT + self.inner() * (label as f64 + 0.5) / self.labels.len().max(1) as f64
    }

    fn axes(&self, out: &mut String, axis: &Axis) {
        let (base, end) = (HEIGHT - BOTTOM, LEFT + self.inner());
        for value in axis.ticks() {
            let y = axis.at(value);
            line!(
                out,
                "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{end}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>"
            );
            text(out, (LEFT - 8.0, y + 4.0), "end", 12, &short(value));
        }
        line!(
            out,
            "<line x1=\"{LEFT}\" y1=\"{base}\" x2=\"{end}\" y2=\"{base}\" stroke=\"black\"/>"
        );
        for (nr, label) in self.labels.iter().enumerate() {
            text(out, (self.x(nr), base + 18.0), "middle", 12, label);
        }
        text(out, (LEFT + self.inner() / 2.0, base + 44.0), "middle", 13, &self.x);
        let scale = if axis.logarithmic { ", logarithmic" } else { "" };
        text(out, (LEFT, TOP - 6.0), "start", 12, &format!("{}{scale}", self.y));
    }

    fn line(&self, out: &mut String, axis: &Axis, nr: usize, series: &Series) {
        let colour = COLOURS[nr % COLOURS.len()];
        let points = series.values.iter().enumerate();
        let points: Vec<(f64, f64)> =
            points.filter_map(|(at, value)| Some((self.x(at), axis.at((*value)?)))).collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let dash = if series.published { " stroke-dasharray=\"6 4\"" } else { "" };
        line!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>",
            path.join(" ")
        );
        for (x, y) in points {
            line!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
    }

    fn bars(&self, out: &mut String, axis: &Axis, nr: usize, series: &Series) {
        let colour = COLOURS[nr % COLOURS.len()];
        let group = self.inner() / self.labels.len().max(1) as f64 * 0.8;
        let width = group / self.series.len().max(1) as f64;
        for (at, value) in series.values.iter().enumerate() {
            let Some(value) = *value else { continue };
            let x = self.x(at) - group / 2.0 + width * nr as f64;
            let y = axis.at(value);
            let height = HEIGHT - BOTTOM - y;
            line!(
                out,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\" \
                 fill=\"{colour}\"/>",
                width * 0.9
            );
            text(out, (x + width * 0.45, y - 4.0), "middle", 10, &number(value));
        }
    }

    fn key(&self, out: &mut String, nr: usize, series: &Series) {
        let (x, y) = (WIDTH - RIGHT + 20.0, TOP + 20.0 * nr as f64);
        let colour = COLOURS[nr % COLOURS.len()];
        line!(
            out,
            "<rect x=\"{x}\" y=\"{:.1}\" width=\"14\" height=\"10\" fill=\"{colour}\"/>",
            y - 9.0
        );
        text(out, (x + 20.0, y), "start", 12, &series.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(shape: Shape, values: Vec<Option<f64>>) -> String {
        let labels = values.iter().map(|_| "a<b".to_owned()).collect();
        let series = vec![Series { name: "x & y".to_owned(), values, published: false }];
        let (title, x, y) = ("t".to_owned(), "x".to_owned(), "y".to_owned());
        Chart { title, x, y, labels, series, shape }.to_svg()
    }

    #[test]
    fn what_is_larger_is_drawn_higher_and_what_is_missing_is_not() {
        let svg = chart(Shape::Lines, vec![Some(1.0), None, Some(2.0)]);
        let heights: Vec<f64> = svg
            .lines()
            .filter_map(|line| line.strip_prefix("<circle")?.split("cy=\"").nth(1))
            .filter_map(|rest| rest.split('"').next()?.parse().ok())
            .collect();
        assert_eq!(heights.len(), 2);
        assert!(heights[0] > heights[1], "y counts downwards: {heights:?}");
        assert!(svg.contains("a&lt;b") && svg.contains("x &amp; y") && !svg.contains("a<b"));
    }

    #[test]
    fn ticks_are_round() {
        let ticks = |values: &[f64], shape| Axis::new(values, shape).ticks();
        assert_eq!(ticks(&[7.3], Shape::Bars), [0.0, 2.0, 4.0, 6.0]);
        let logarithmic: Vec<String> =
            ticks(&[0.3, 70.0], Shape::Lines).into_iter().map(short).collect();
        assert_eq!(logarithmic, ["0.5", "1", "2", "5", "10", "20", "50"]);
    }

    #[test]
    fn a_bar_is_as_long_as_its_value() {
        let svg = chart(Shape::Bars, vec![Some(10.0), Some(5.0)]);
        let heights: Vec<f64> = svg
            .lines()
            .filter(|line| line.starts_with("<rect x=") && !line.contains("height=\"10\""))
            .filter_map(|line| line.split("height=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert_eq!(heights.len(), 2);
        assert!((heights[0] / heights[1] - 2.0).abs() < 0.01, "{heights:?}");
    }
}
