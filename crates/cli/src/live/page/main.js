// Reads /metrics again and again, and shows what they say.

// How long to wait after a reading, in milliseconds, and how long after one that has failed.
const PERIOD = 300;
const PERIOD_GONE = 1_000;

// How long an answer may take. A server that is overloaded is slow to answer, and not gone.
const PATIENCE = 3_000;

// Without an answer for so long the server is said to be gone.
const GONE = 1_500;

// Minutes that can be shown; as much is kept.
const SPANS = [1, 2, 5];

// What is shown at least, in milliseconds.
const SPAN_LEAST = 30_000;

// How often words change: faster ones cannot be read, or heard.
const WORDS_PERIOD = 700;
const SPOKEN_PERIOD = 10_000;

// Rows of the list of all metrics.
const SERIES_SHOWN = 1_000;

const THEMES = ["auto", "light", "dark"];

const recent = new Recent();
const inks = new Inks();
const tiles = new Tiles(byId("tiles"));
const charts = CHARTS.map((spec) => new Chart(spec, hoverAt));
const tables = TABLES.map((spec) => [spec, new Table(spec)]);
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

const state = {
  minutes: 2,
  theme: "auto",
  hover: null,
  isPaused: false,
  pausedAt: 0,
  picture: null,
  problem: null,
  answered: null,
  wordsAt: 0,
  spokenAt: 0,
  readings: 0,
  began: null,
};

// Settings that outlive the page, where the browser keeps any.
function stored(name, value) {
  try {
    if (value !== undefined) localStorage.setItem(name, value);
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

function hoverAt(time) {
  state.hover = time;
  draw();
}

function setTheme(theme) {
  state.theme = THEMES.includes(theme) ? theme : "auto";
  const isDark = state.theme === "auto" ? prefersDark.matches : state.theme === "dark";
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  setText(byId("theme"), `Theme: ${state.theme}`);
  inks.forget();
  draw();
}

function setMinutes(minutes) {
  state.minutes = minutes;
  for (const button of byId("spans").children) {
    setAttribute(button, "aria-pressed", `${Number(button.value) === minutes}`);
  }
  draw();
}

function setPaused(isPaused) {
  state.isPaused = isPaused;
  state.pausedAt = performance.now();
  setAttribute(byId("pause"), "aria-pressed", `${isPaused}`);
  show();
}

// One reading, and when the next one is due.
async function read() {
  const signal = AbortSignal.timeout(PATIENCE);
  try {
    const response = await fetch("metrics", { signal, cache: "no-store" });
    if (!response.ok) throw new Error(`the server answers ${response.status}`);
    const text = await response.text();
    const now = performance.now();
    const said = Number(response.headers.get("seawall-at") ?? NaN);
    const at = Number.isFinite(said) ? said : now / 1000;
    take(now, { at, metrics: parseText(text) });
    setText(byId("about"), decoded(response.headers.get("seawall-about") ?? ""));
    [state.answered, state.problem] = [now, null];
    return PERIOD;
  } catch (error) {
    state.problem = error instanceof Error ? error.message : String(error);
    return PERIOD_GONE;
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function take(now, sample) {
  state.readings += 1;
  state.began ??= now;
  // Where a server has ended and the next one has not begun there is nothing.
  const picture = sample.metrics.size > 0 ? recent.add(sample) : null;
  state.picture = picture;
  const oldest = now - Math.max(...SPANS) * 60_000 - GAP;
  charts.forEach((chart) => chart.add(now, picture, oldest));
}

function verdictNow(now) {
  const since = now - (state.answered ?? 0);
  if (state.problem !== null && since > GONE) {
    const level = "gone";
    const lost = state.answered === null ? "" : ` for ${minutes(since)}`;
    const detail = `It has ended, or cannot be reached (${state.problem}). Trying again.`;
    return { level, sentence: `No answer from the server${lost}`, detail };
  }
  if (state.picture === null) {
    const isEmpty = state.readings > 2;
    const sentence = isEmpty ? "No server runs right now" : "Waiting for the first two readings";
    return { level: "waiting", sentence, detail: "" };
  }
  return verdictOf(state.picture);
}

function isGone(now) {
  return state.problem !== null && now - (state.answered ?? 0) > GONE;
}

function show() {
  const now = performance.now();
  const gone = isGone(now);
  document.body.dataset.state = gone ? "gone" : state.isPaused ? "paused" : "live";
  const age = state.answered === null ? null : now - state.answered;
  const fresh = gone ? "no answer" : state.isPaused ? "paused" : age === null ? "connecting" : "live";
  setText(byId("fresh"), fresh);
  if (state.isPaused && !gone) return;
  if (now - state.wordsAt >= WORDS_PERIOD || gone) {
    state.wordsAt = now;
    showWords(now);
  }
  if (!state.isPaused) draw();
}

function showWords(now) {
  const verdict = verdictNow(now);
  setAttribute(byId("status"), "data-level", verdict.level);
  setText(byId("sentence"), unbroken(verdict.sentence));
  setText(byId("detail"), verdict.detail);
  document.title = `${verdict.sentence.split(";")[0]} · Seawall`;
  if (now - state.spokenAt >= SPOKEN_PERIOD && state.hover === null) {
    state.spokenAt = now;
    announce(verdict.sentence);
    charts.forEach((chart) => chart.label());
  }
  if (state.picture === null || verdict.level === "gone") return;
  tiles.update(tilesOf(state.picture));
  for (const [spec, table] of tables) table.update(spec.rows(state.picture).slice(0, ROWS_MOST));
  showSeries();
}

function draw() {
  const now = state.isPaused ? state.pausedAt : performance.now();
  // A page that is young has little to show, and shows that large.
  const age = Math.max(now - (state.began ?? now), SPAN_LEAST);
  const span = Math.min(state.minutes * 60_000, age);
  const isYoung = state.began !== null && span < state.minutes * 60_000 && !isGone(now);
  setText(byId("sofar"), isYoung ? `, ${minutes(now - state.began)} so far` : "");
  charts.forEach((chart) => chart.draw(now, span, state.hover, inks));
}

// All metrics, while somebody looks at them.
const seriesTable = new Table({
  id: "series",
  title: "Series",
  columns: ["Series", "Value", "Per second"],
});

function showSeries() {
  if (!byId("all").open) return;
  const wanted = byId("filter").value.trim().toLowerCase();
  const rows = recent.table().map(({ name, labels, value, rate: growth }) => {
    const series = labels === "" ? name : `${name}{${labels}}`;
    return [series, [series, plain(value), growth === null ? "" : rate(growth)]];
  });
  const found = rows.filter(([series]) => series.toLowerCase().includes(wanted));
  seriesTable.update(found.slice(0, SERIES_SHOWN));
}

// A value as it is, without more digits than mean something.
function plain(value) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(9))) : String(value);
}

function prepare() {
  for (const count of SPANS) {
    const button = element("button", { type: "button", value: `${count}` }, [`${count} min`]);
    button.addEventListener("click", () => setMinutes(count));
    byId("spans").append(button);
  }
  charts.forEach((chart) => byId("charts").append(chart.figure));
  tables.forEach(([, table]) => byId("tables").append(table.section));
  byId("series").append(seriesTable.section);
  byId("all").addEventListener("toggle", showSeries);
  byId("filter").addEventListener("input", showSeries);
  byId("pause").addEventListener("click", () => setPaused(!state.isPaused));
  byId("theme").addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(state.theme) + 1) % THEMES.length];
    stored("seawall-theme", next);
    setTheme(next);
  });
  prefersDark.addEventListener("change", () => setTheme(state.theme));
  addEventListener("resize", draw);
  setTheme(stored("seawall-theme") ?? "auto");
  setMinutes(state.minutes);
}

async function run() {
  prepare();
  for (;;) {
    const pause = await read();
    show();
    await new Promise((done) => setTimeout(done, pause));
  }
}

run();
