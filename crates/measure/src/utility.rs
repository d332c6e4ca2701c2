//! Utilities written as expressions of metrics: what a configuration's text means.

use std::sync::Arc;

use exmex::{Express, FlatEx, MatchLiteral, literal_matcher_from_pattern};
use operators::Operators;
use seawall_control::request::Class;
use seawall_control::utility::{Config, METRICS, Measured, Utility};

mod operators {
    use exmex::{BinOp, MakeOperators, Operator, ops_factory};

    /// How strongly operators bind: `a if b < c + d else e` is `(a if (b < (c + d))) else e`.
    const ELSE: i64 = 0;
    const IF: i64 = 1;
    const OR: i64 = 2;
    const AND: i64 = 3;
    const COMPARE: i64 = 4;
    const SUM: i64 = 5;
    const PRODUCT: i64 = 6;
    const POWER: i64 = 7;

    const fn binary(prio: i64, apply: fn(f64, f64) -> f64) -> BinOp<f64> {
        BinOp { apply, prio, is_commutative: false }
    }

    const fn truth(holds: bool) -> f64 {
        if holds { 1.0 } else { 0.0 }
    }

    ops_factory!(
        Operators,
        f64,
        Operator::make_bin(
            "else",
            binary(ELSE, |value, other| if value.is_nan() { other } else { value })
        ),
        Operator::make_bin(
            "if",
            binary(IF, |value, holds| if holds == 0.0 { f64::NAN } else { value })
        ),
        Operator::make_bin("||", binary(OR, |a, b| truth(a != 0.0 || b != 0.0))),
        Operator::make_bin("&&", binary(AND, |a, b| truth(a != 0.0 && b != 0.0))),
        Operator::make_bin("<", binary(COMPARE, |a, b| truth(a < b))),
        Operator::make_bin("<=", binary(COMPARE, |a, b| truth(a <= b))),
        Operator::make_bin(">", binary(COMPARE, |a, b| truth(a > b))),
        Operator::make_bin(">=", binary(COMPARE, |a, b| truth(a >= b))),
        Operator::make_bin_unary("+", binary(SUM, |a, b| a + b), |a| a),
        Operator::make_bin_unary("-", binary(SUM, |a, b| a - b), |a| -a),
        Operator::make_bin("*", binary(PRODUCT, |a, b| a * b)),
        Operator::make_bin("/", binary(PRODUCT, |a, b| a / b)),
        Operator::make_bin("^", binary(POWER, libm::pow)),
        Operator::make_bin("min", binary(POWER, f64::min)),
        Operator::make_bin("max", binary(POWER, f64::max)),
        Operator::make_unary("log", libm::log),
        Operator::make_unary("sqrt", libm::sqrt),
        Operator::make_unary("abs", f64::abs)
    );
}

literal_matcher_from_pattern!(Numbers, r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?");

/// Reads the expression of a configuration, for `admission::Config::build_with`.
///
/// # Errors
///
/// As [`Expression::read`].
pub fn read(text: &str) -> Result<Arc<dyn Utility>, String> {
    Ok(Arc::new(Expression::read(text)?))
}

/// Whether a utility asks for `power` or `bandwidth`, those of [`METRICS`] that a server does not
/// measure by itself.
pub fn asks_for(utility: &Config, metric: &str) -> bool {
    match utility {
        Config::Power(_) => metric == "power",
        Config::Expression(text) => Expression::read(text)
            .is_ok_and(|read| read.parsed.var_names().iter().any(|name| name == metric)),
        Config::Throughput | Config::Goodput | Config::Drops(_) | Config::Delay(_) => false,
    }
}

/// The text after parsing, with where its variables come from.
#[derive(Clone, Debug)]
pub struct Expression {
    parsed: FlatEx<f64, Operators, Numbers>,
    variables: Vec<Variable>,
}

#[derive(Clone, Copy, Debug)]
enum Variable {
    Of(fn(&Measured) -> f64),
    ThroughputOf(usize),
    GoodputOf(usize),
}

impl Variable {
    fn named(name: &str) -> Option<Self> {
        let row = |prefix| {
            let row = name.strip_prefix(prefix)?.parse().ok()?;
            (row < Class::COUNT).then_some(row)
        };
        METRICS
            .iter()
            .find(|(known, ..)| *known == name)
            .map(|(_, _, value)| Self::Of(*value))
            .or_else(|| row("throughput_").map(Self::ThroughputOf))
            .or_else(|| row("goodput_").map(Self::GoodputOf))
    }

    fn value(self, measured: &Measured) -> f64 {
        match self {
            Self::Of(value) => value(measured),
            Self::ThroughputOf(row) => measured.throughput_of[row],
            Self::GoodputOf(row) => measured.goodput_of[row],
        }
    }
}

impl Expression {
    /// Reads an expression of [`METRICS`], numbers, `+ - * / ^`, comparisons, `&&`, `||`, `min`,
    /// `max`, `log`, `sqrt`, `abs`, parentheses, and `value if condition else other`, where `other`
    /// also stands in for a value that is not a number.
    ///
    /// # Errors
    ///
    /// Says what cannot be read, or which names there are.
    pub fn read(text: &str) -> Result<Self, String> {
        let parsed = FlatEx::<f64, Operators, Numbers>::parse(text)
            .map_err(|error| format!("\"{text}\" is no expression: {error}"))?;
        let variables = parsed.var_names().iter().map(|name| {
            Variable::named(name).ok_or_else(|| {
                let known: Vec<_> = METRICS.iter().map(|(name, ..)| *name).collect();
                format!(
                    "\"{name}\" is no metric; there are {}, and throughput_0 to throughput_{last} \
                     and goodput_0 to goodput_{last} of one class",
                    known.join(", "),
                    last = Class::COUNT - 1
                )
            })
        });
        let variables = variables.collect::<Result<Vec<_>, _>>()?;
        let expression = Self { parsed, variables };
        expression.evaluate(&Measured::default())?; // what cannot be computed shows now
        Ok(expression)
    }

    fn evaluate(&self, measured: &Measured) -> Result<f64, String> {
        // One for each variable, most often two or three.
        let values: Vec<_> = self.variables.iter().map(|var| var.value(measured)).collect();
        self.parsed.eval(&values).map_err(|error| error.to_string())
    }
}

impl Utility for Expression {
    fn of(&self, measured: &Measured) -> f64 {
        self.evaluate(measured).unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Measured {
        let mut measured = Measured::default();
        (measured.throughput, measured.drops) = (900.0, 100.0);
        (measured.arrivals, measured.drop_rate) = (1_000.0, 0.1);
        measured.goodput_of[3] = 40.0;
        measured
    }

    fn value(text: &str) -> f64 {
        Expression::read(text).unwrap().of(&measured())
    }

    #[test]
    fn tells_what_somebody_else_has_to_measure() {
        let asks = |utility: &Config| ["power", "bandwidth"].map(|name| asks_for(utility, name));
        assert_eq!(asks(&Config::Power(55.0)), [true, false]);
        let expression = |text: &str| asks(&Config::Expression(text.into()));
        assert_eq!(expression("goodput / max(power, 1)"), [true, false]);
        assert_eq!(expression("goodput - bandwidth / 1e6 - power"), [true, true]);
        assert_eq!(expression("throughput"), [false, false]);
        assert_eq!(asks(&Config::Drops(0.1)), [false, false]);
    }

    #[test]
    fn computes_with_metrics() {
        assert_eq!(value("throughput - 2 * drops"), 700.0);
        assert_eq!(value("goodput_3 * 10 + throughput"), 1_300.0);
        assert_eq!(value("throughput * (1 - drop_rate) ^ 2"), 900.0 * 0.9 * 0.9);
        assert_eq!(value("min(throughput, 500) + abs(-3) + 1e3"), 1_503.0);
        assert_eq!(value("1 / 2 * throughput"), 450.0);
    }

    #[test]
    fn decides_by_conditions() {
        assert_eq!(value("throughput if drop_rate < 0.2 else -drops"), 900.0);
        assert_eq!(value("throughput if drop_rate < 0.1 else -drops"), -100.0);
        let bands = "1 if drop_rate < 0.05 else 2 if drop_rate < 0.15 else 3";
        assert_eq!(value(bands), 2.0);
        assert_eq!(value("throughput / power * 0 else 7"), 7.0, "what is not a number");
        assert_eq!(value("(drops > 50 && drops <= 100) + (drops < 1 || drops >= 100)"), 2.0);
    }

    #[test]
    fn says_what_it_does_not_understand() {
        let problem = |text| Expression::read(text).unwrap_err();
        assert!(problem("thruput").contains("\"thruput\" is no metric; there are arrivals, "));
        assert!(problem("goodput_8").contains("goodput_0 to goodput_7"));
        assert!(problem("throughput -").starts_with("\"throughput -\" is no expression: "));
        assert!(problem("").starts_with("\"\" is no expression: "));
    }
}
