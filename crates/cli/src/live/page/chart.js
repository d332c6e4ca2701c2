// Charts over time, on canvas.

// Series of one chart that are told apart; more are one that is called others, or are left out.
const SERIES_MOST = 8;

// Names that have colours, in the order of these.
const PALETTES = new Map();

// A dashed line is in sight up to this multiple of what is drawn otherwise.
const BOUND_FACTOR = 3;

// Two readings further apart than this, in milliseconds, have a gap between them.
const GAP = 3_000;

// Most ticks of a vertical axis.
const TICKS = 4;

// Steps of ticks, in each power of ten.
const STEPS = [1, 2, 5, 10];

// Steps of the time axis, in milliseconds.
const TIME_STEPS = [5_000, 10_000, 15_000, 30_000, 60_000, 120_000];

// Ticks from 0 to at least `highest`.
function linearTicks(highest) {
  const raw = (highest > 0 ? highest : 1) / TICKS;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * STEPS.find((factor) => factor * power >= raw * 0.999999);
  const count = Math.ceil((highest > 0 ? highest : 1) / step - 1e-6);
  return Array.from({ length: count + 1 }, (_, index) => index * step);
}

// Ticks in even factors, from at most `lowest` to at least `highest`.
function logTicks(lowest, highest) {
  const ticks = [];
  const [from, to] = [Math.floor(Math.log10(lowest)), Math.ceil(Math.log10(highest))];
  for (let power = from; power <= to; power += 1) {
    for (const factor of to - from > 2 ? [1] : [1, 2, 5]) ticks.push(factor * 10 ** power);
  }
  const first = ticks.findLastIndex((tick) => tick <= lowest * 1.000001);
  const last = ticks.findIndex((tick) => tick >= highest * 0.999999);
  const found = ticks.slice(Math.max(first, 0), last < 0 ? ticks.length : last + 1);
  return found.length > 1 ? found : [found[0] / 2, found[0], found[0] * 2];
}

// One chart: { id, title, unit, kind: "lines" or "stack", log, format, values(picture) }, where
// values gives [name, value, ink, dash] for each series, null for a value that is not known. The
// title may depend on the picture.
class Chart {
  constructor(spec, onHover) {
    this.spec = spec;
    this.names = [];
    this.looks = new Map();
    this.points = [];
    this.isSeen = true;
    this.now = 0;
    this.hover = null;
    this.canvas = element("canvas", { role: "img", tabindex: "0" });
    this.legend = element("ul", { class: "legend" });
    this.values = new Map();
    this.title = element("h2", {}, [typeof spec.title === "string" ? spec.title : ""]);
    const caption = element("figcaption", {}, [
      this.title,
      element("small", {}, [spec.unit]),
    ]);
    const attributes = { id: `chart-${spec.id}`, hidden: "" };
    this.figure = element("figure", attributes, [caption, this.canvas, this.legend]);
    this.canvas.addEventListener("pointermove", (event) => {
      const { left } = this.canvas.getBoundingClientRect();
      onHover(this.timeAt(event.clientX - left));
    });
    this.canvas.addEventListener("pointerleave", () => onHover(null));
    this.canvas.addEventListener("blur", () => onHover(null));
    this.canvas.addEventListener("keydown", (event) => this.key(event, onHover));
    const watch = (entries) => {
      this.isSeen = entries[entries.length - 1].isIntersecting;
    };
    // Those that are about to be seen are drawn, too.
    new IntersectionObserver(watch, { rootMargin: "800px" }).observe(this.figure);
  }

  key(event, onHover) {
    const times = this.points.map((point) => point.time);
    if (times.length === 0) return;
    const at = this.hover === null ? times.length - 1 : this.index(this.hover);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: times.length - 1 }[event.key];
    if (event.key === "Escape") onHover(null);
    if (to === undefined) return;
    event.preventDefault();
    const time = times[Math.min(Math.max(to, 0), times.length - 1)];
    onHover(time);
    announce(`${ago(this.now - time)}: ${this.describe(this.index(time))}`);
  }

  // A picture that was seen then; null where there was none.
  add(time, picture, oldest) {
    while (this.points.length > 0 && this.points[0].time < oldest) this.points.shift();
    if (picture !== null && typeof this.spec.title === "function") {
      setText(this.title, this.spec.title(picture));
    }
    const values = [];
    for (const [name, value, ink, dash] of picture === null ? [] : this.spec.values(picture)) {
      if (value === null || value === undefined) continue;
      let index = this.names.indexOf(name);
      if (index < 0 && value === 0 && !(this.spec.showsZero ?? []).includes(name)) continue;
      if (index < 0) index = this.begin(name, ink, dash);
      if (index >= 0) values[index] = (values[index] ?? 0) + value;
    }
    this.points.push({ time, values });
  }

  // Gives a series its place, and how it looks; -1 if there is none left.
  begin(name, ink, dash) {
    let known = name;
    if (this.names.length >= SERIES_MOST - 1 && ink === undefined) {
      if (this.spec.kind !== "stack") return -1;
      known = "others";
    }
    const found = this.names.indexOf(known);
    if (found >= 0) return found;
    const index = this.names.push(known) - 1;
    this.looks.set(known, { ink: ink ?? this.ink(known), dash: dash === true });
    const swatch = element("span", { class: "swatch", "data-block": `${this.isStack}` });
    const value = element("span", { class: "value" });
    const label = element("span", { class: "name" }, [known]);
    this.values.set(known, { value, swatch });
    this.legend.append(element("li", {}, [swatch, label, value]));
    this.figure.hidden = false;
    return index;
  }

  // The colour of a name, which is the same in all charts of one palette.
  ink(name) {
    const palette = this.spec.palette ?? this.spec.id;
    if (!PALETTES.has(palette)) PALETTES.set(palette, []);
    const names = PALETTES.get(palette);
    if (name === "others") return "ink-load";
    if (!names.includes(name)) names.push(name);
    return `ink-${names.indexOf(name) % SERIES_MOST}`;
  }

  get isStack() {
    return this.spec.kind === "stack";
  }

  // The point nearest to a time.
  index(time) {
    let [low, high] = [0, this.points.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.points[middle].time < time) low = middle + 1;
      else high = middle;
    }
    const before = this.points[low - 1];
    return before && time - before.time < this.points[low].time - time ? low - 1 : low;
  }

  timeAt(x) {
    const { left, width, from, now } = this.plot ?? { left: 0, width: 1, from: 0, now: 0 };
    const share = Math.min(Math.max((x - left) / width, 0), 1);
    return from + share * (now - from);
  }

  // The values of a point, in words.
  describe(index) {
    const { values } = this.points[index] ?? { values: [] };
    const words = this.names.map((name, place) => {
      const value = values[place];
      return value === undefined ? null : `${name} ${this.spec.format(value)}`;
    });
    return words.filter((word) => word !== null).join(", ") || "nothing";
  }

  // Brings legend and drawing up to date. Times are milliseconds.
  draw(now, span, hover, inks) {
    this.now = now;
    this.hover = hover;
    if (this.figure.hidden || !this.isSeen) return;
    const shown = hover === null ? this.points.length - 1 : this.index(hover);
    this.names.forEach((name, place) => {
      const { value, swatch } = this.values.get(name);
      const number = this.points[shown]?.values[place];
      setText(value, number === undefined ? NOTHING : this.spec.format(number));
      swatch.style.backgroundColor = inks.of(this.looks.get(name).ink);
    });
    const box = this.canvas.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
    if (width === 0 || height === 0) return;
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, box.width, box.height);
    const from = now - span;
    const first = this.points.findIndex((point) => point.time >= from);
    const points = first < 0 ? [] : this.points.slice(Math.max(first - 1, 0));
    const stacked = this.isStack ? points.map((point) => this.pile(point)) : points;
    this.frame(context, box, stacked, now, span, inks);
    this.names.forEach((_, place) => this.line(context, stacked, place, inks));
    if (hover !== null) this.cross(context, hover, inks);
  }

  // The sums up to each series, for a stack.
  pile({ time, values }) {
    let sum = 0;
    const sums = this.names.map((_, place) => (sum += values[place] ?? 0));
    return { time, values: values.length > 0 || this.names.length === 0 ? sums : [] };
  }

  // Axes; sets what maps values and times to places.
  frame(context, box, points, now, span, inks) {
    const isBound = this.names.map((name) => this.looks.get(name).dash);
    const drawn = (_, place) => !isBound[place];
    const numbers = points.flatMap(({ values }) => values.filter(drawn));
    const solid = Math.max(0, ...numbers);
    // A bound that is far away would press flat what it bounds: then only the legend has it.
    const bounds = points.flatMap(({ values }) => values.filter((one, place) =>
      isBound[place] && one <= BOUND_FACTOR * solid));
    const highest = Math.max(solid, ...bounds);
    const lowest = Math.min(...[...numbers, ...bounds].filter((value) => value > 0));
    const isLog = this.spec.log === true && Number.isFinite(lowest);
    const ticks = isLog ? logTicks(lowest, highest) : linearTicks(highest);
    const labels = ticks.map((tick) => round(this.spec.format(tick)));
    context.font = "12px system-ui, sans-serif";
    const gutter = Math.max(...labels.map((label) => context.measureText(label).width)) + 8;
    const plot = { left: gutter, top: 8, width: box.width - gutter - 4, height: box.height - 26 };
    const [bottom, top] = [ticks[0], ticks[ticks.length - 1]];
    const up = isLog
      ? (value) => Math.log(Math.max(value, bottom) / bottom) / Math.log(top / bottom)
      : (value) => value / top;
    this.plot = { ...plot, from: now - span, now };
    this.x = (time) => plot.left + (plot.width * (time - now + span)) / span;
    this.y = (value) => plot.top + plot.height * (1 - up(value));
    context.lineWidth = 1;
    context.textBaseline = "middle";
    ticks.forEach((tick, index) => {
      const y = Math.round(this.y(tick)) + 0.5;
      context.strokeStyle = inks.of(index === 0 ? "axis" : "line");
      context.beginPath();
      context.moveTo(plot.left, y);
      context.lineTo(plot.left + plot.width, y);
      context.stroke();
      context.fillStyle = inks.of("quiet");
      context.textAlign = "right";
      context.fillText(labels[index], plot.left - 6, y);
    });
    const step = TIME_STEPS.find((one) => span / one <= plot.width / 90) ?? span;
    for (let before = 0; before <= span * 1.001; before += step) {
      const x = this.x(now - before);
      context.textAlign = before === 0 ? "right" : x < plot.left + 24 ? "left" : "center";
      const text = before === 0 ? "now" : `−${minutes(before)}`;
      context.fillText(text, x, plot.top + plot.height + 11);
    }
  }

  // One series: the parts of it that have no gaps in them.
  line(context, points, place, inks) {
    const { ink, dash } = this.looks.get(this.names[place]);
    const colour = inks.of(ink);
    context.save();
    context.beginPath();
    context.rect(this.plot.left, 0, this.plot.width, this.plot.top + this.plot.height + 1);
    context.clip();
    context.lineJoin = "round";
    for (const part of this.parts(points, place)) {
      context.beginPath();
      part.forEach(({ time, values }) => context.lineTo(this.x(time), this.y(values[place])));
      if (this.isStack) {
        const below = (values) => (place === 0 ? 0 : values[place - 1]);
        [...part].reverse().forEach(({ time, values }) => {
          context.lineTo(this.x(time), this.y(below(values)));
        });
        context.closePath();
        context.fillStyle = colour;
        context.globalAlpha = 0.85;
        context.fill();
        context.globalAlpha = 1;
      } else {
        context.strokeStyle = colour;
        context.lineWidth = dash ? 1.25 : 1.75;
        context.setLineDash(dash ? [5, 4] : []);
        context.stroke();
      }
    }
    context.restore();
  }

  parts(points, place) {
    const parts = [];
    let last = null;
    for (const point of points) {
      if (point.values[place] === undefined) {
        last = null;
        continue;
      }
      if (last === null || point.time - last > GAP) parts.push([]);
      parts[parts.length - 1].push(point);
      last = point.time;
    }
    return parts;
  }

  cross(context, hover, inks) {
    const point = this.points[this.index(hover)];
    if (point === undefined) return;
    const x = Math.round(this.x(point.time)) + 0.5;
    if (x < this.plot.left) return;
    context.strokeStyle = inks.of("axis");
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, this.plot.top);
    context.lineTo(x, this.plot.top + this.plot.height);
    context.stroke();
    const text = ago(this.now - point.time);
    context.fillStyle = inks.of("text");
    const isRight = x > this.plot.left + this.plot.width / 2;
    context.textAlign = isRight ? "right" : "left";
    context.fillText(text, x + (isRight ? -5 : 5), this.plot.top + 5);
  }

  // What somebody who does not see the drawing is told of it.
  label() {
    const now = this.points.length > 0 ? this.describe(this.points.length - 1) : "nothing yet";
    this.canvas.setAttribute("aria-label", `${this.title.textContent}, now: ${now}`);
  }
}

// Colours of the theme that is shown.
class Inks {
  constructor() {
    this.known = new Map();
  }

  forget() {
    this.known.clear();
  }

  of(name) {
    if (!this.known.has(name)) {
      const style = getComputedStyle(document.documentElement);
      this.known.set(name, style.getPropertyValue(`--${name}`).trim());
    }
    return this.known.get(name);
  }
}

function minutes(milliseconds) {
  const all = Math.round(milliseconds / 1000);
  const [whole, rest] = [Math.floor(all / 60), all % 60];
  return whole === 0 ? `${rest} s` : rest === 0 ? `${whole} min` : `${whole} min ${rest} s`;
}

function ago(milliseconds) {
  return milliseconds < 1000 ? "now" : `${minutes(milliseconds)} ago`;
}
