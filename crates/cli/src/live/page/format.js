// How numbers are written for people: three digits and a unit, as in Seawall's tables.

const NOTHING = "–";

const RATES = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
const TIMES = [[1, " s"], [1e-3, " ms"], [1e-6, " µs"], [1e-9, " ns"]];
const BYTES = [[1e12, " TB"], [1e9, " GB"], [1e6, " MB"], [1e3, " kB"], [1, " B"]];

// Three digits in the largest unit that leaves at least one before the point.
function scaled(value, units) {
  if (!Number.isFinite(value)) return NOTHING;
  const size = Math.abs(value);
  // 999.6 would be written as 1000: it belongs to the next unit.
  const [unit, name] = units.find(([u]) => size >= u * 0.9995) ?? units[units.length - 1];
  const number = value / unit;
  const decimals = Math.abs(number) >= 99.95 ? 0 : Math.abs(number) >= 9.995 ? 1 : 2;
  return number.toFixed(decimals) + name;
}

// Without the zeros that end its fraction.
function round(text) {
  const [, number, unit] = /^(-?[\d.]*)(.*)$/s.exec(text);
  return (number.includes(".") ? number.replace(/\.?0+$/, "") : number) + unit;
}

// With numbers and their units on one line.
function unbroken(text) {
  return text.replace(/(\d) (?=%|[mµn]?s\b)/g, "$1\u00a0");
}

// Requests per second without "/s", or any other number: `12.3k`.
function rate(value) {
  if (!Number.isFinite(value)) return NOTHING;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1) return round(value.toFixed(3));
  if (size < 10) return round(value.toFixed(1));
  return size < 999.5 ? value.toFixed(0) : scaled(value, RATES);
}

// A time given in seconds: `1.41 ms`.
function seconds(value) {
  return value === 0 ? "0 µs" : scaled(value, TIMES);
}

// A quantile, with a mark where it is only a bound.
function quantileText(quantile) {
  if (quantile === null) return NOTHING;
  if (quantile.isBeyond) return `>${round(seconds(quantile.seconds))}`;
  if (quantile.atMost !== null) return `≤ ${round(seconds(quantile.atMost))}`;
  return seconds(quantile.seconds);
}

// A share of one: `96 %`; small ones and those near 100 keep a digit more.
function percent(share) {
  const value = share * 100;
  if (!Number.isFinite(value)) return NOTHING;
  if (value === 0) return "0 %";
  if (value > 0 && value < 0.1) return "<0.1 %";
  if (value < 9.95 || (value >= 99 && value < 100)) {
    // Rounding must not turn "almost all" into all.
    return `${round((value > 99.9 ? 99.9 : value).toFixed(1))} %`;
  }
  return `${value.toFixed(0)} %`;
}

// A value that may not be known.
function known(value, format) {
  return value === null || value === undefined ? NOTHING : format(value);
}

const perSecond = (value) => `${rate(value)}/s`;
const bytesPerSecond = (value) => `${value === 0 ? "0 B" : scaled(value, BYTES)}/s`;
