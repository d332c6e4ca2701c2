// What is shown of a picture: tiles, charts and tables.

// Stages, classes and containers in a table.
const ROWS_MOST = 30;

function tilesOf(picture) {
  const { containers } = picture;
  if (containers.length > 0 || picture.unitsFree !== null) {
    return [
      { name: "Containers", value: rate(containers.length) },
      { name: "Units free", value: known(picture.unitsFree, rate) },
      { name: "Shed", value: perSecond(containers.reduce((sum, one) => sum + one.shed, 0)) },
      { name: "Boosts", value: perSecond(containers.reduce((sum, one) => sum + one.boosts, 0)) },
    ];
  }
  const { refusedShare, failed, cancelled, spilled } = picture;
  const level = refusedShare >= NOTABLE ? "over" : refusedShare > 0 ? "busy" : "";
  const others = [[failed, "failed"], [cancelled, "given up"], [spilled, "to replicas"]]
    .filter(([count]) => count > 0)
    .map(([count, how]) => `${perSecond(count)} ${how}`);
  const tiles = [
    { name: "Load", value: perSecond(picture.load), beside: "arriving" },
    { name: "Goodput", value: perSecond(picture.goodput), beside: others.join(", ") || "served" },
    { name: "Refused", value: percent(refusedShare), beside: perSecond(picture.refused), level },
  ];
  const optional = (value, tile) => value !== null && tiles.push(tile(value));
  optional(picture.p99, (p99) => ({
    name: "p99",
    value: quantileText(p99),
    beside: `p50 ${quantileText(picture.p50)}`,
  }));
  optional(picture.queueingDelay, (delay) => ({
    name: "Queueing delay",
    value: seconds(delay),
    beside: picture.targetDelay > 0 ? `target ${seconds(picture.targetDelay)}` : "",
    level: isOverTarget(picture) ? "busy" : "",
  }));
  optional(picture.budget, (budget) => ({
    name: "Delay budget",
    value: budget > 0 ? seconds(budget) : "no limit",
    beside: "all stages",
  }));
  optional(picture.outstanding, (count) => ({
    name: "In flight",
    value: rate(count),
    beside: picture.admissionLimit === null ? "" : `limit ${rate(picture.admissionLimit)}`,
  }));
  optional(picture.creditsIssued, (issued) => ({
    name: "Credits issued",
    value: rate(issued),
    beside: picture.creditPool === null ? "" : `pool ${rate(picture.creditPool)}`,
  }));
  optional(picture.sessions, (sessions) => ({
    name: "Sessions",
    value: rate(sessions),
    beside: windowOf(picture) === null ? "" : `window ${rate(windowOf(picture))}`,
  }));
  optional(picture.workersBusy, (busy) => ({
    name: "Workers busy",
    value: busy.toFixed(2),
    beside: "on average",
  }));
  return tiles;
}

// Requests that a session may have outstanding, on average.
function windowOf({ creditsIssued, sessions }) {
  return creditsIssued !== null && sessions > 0 ? creditsIssued / sessions : null;
}

const CHARTS = [
  {
    id: "requests",
    title: "Load and goodput",
    unit: "requests per second",
    kind: "lines",
    format: rate,
    values: (picture) => picture.unitsFree !== null ? [] : [
      ["load", picture.load, "ink-load"],
      ["goodput", picture.goodput, "ink-good"],
      ["refused", picture.refused, "ink-refused"],
      ["failed", picture.failed, "ink-lost"],
      ["given up", picture.cancelled, "ink-5"],
      ["to replicas", picture.spilled, "ink-3"],
    ],
    showsZero: ["load", "goodput"],
  },
  {
    id: "refused",
    palette: "stages",
    title: "Refused by stage",
    unit: "requests per second",
    kind: "stack",
    format: rate,
    values: ({ stages }) => stages.map(({ stage, refused }) => [stage, refused]),
  },
  {
    id: "latency",
    title: "Latency of those served",
    unit: "arrival to reply, logarithmic",
    kind: "lines",
    log: true,
    format: seconds,
    values: ({ p50, p99 }) => [
      ["p50", p50?.seconds, "ink-0"],
      ["p99", p99?.seconds, "ink-1"],
    ],
  },
  {
    id: "delay",
    palette: "stages",
    title: "Queueing delay by stage",
    unit: "oldest waiter, or p99 of waits",
    kind: "lines",
    format: seconds,
    values: (picture) => [
      ["target", picture.targetDelay, "ink-bound", true],
      ["in front of the handlers", picture.queueingDelay, "ink-load"],
      // The slowest first: where there is not room for all, these are shown.
      ...[...picture.stages]
        .sort((a, b) => waitOf(b) - waitOf(a))
        .map((stage) => [stage.stage, waitOf(stage)]),
    ],
  },
  {
    id: "credits",
    title: "In flight and credits",
    unit: "requests at once",
    kind: "lines",
    format: rate,
    values: (picture) => [
      ["pool", picture.creditPool, "ink-bound", true],
      ["issued", picture.creditsIssued, "ink-0"],
      ["limit", picture.admissionLimit, "ink-3", true],
      ["in flight", picture.outstanding, "ink-good"],
    ],
  },
  {
    id: "sessions",
    title: "Sessions and windows",
    unit: "sessions; requests that each may have in flight",
    kind: "lines",
    format: rate,
    values: (picture) => [
      ["sessions", picture.sessions, "ink-load"],
      ["mean window", windowOf(picture), "ink-3"],
    ],
  },
  {
    id: "units",
    palette: "containers",
    title: "CPU by container",
    unit: "units",
    kind: "stack",
    format: rate,
    values: ({ containers }) => containers.map((one) => [one.container, one.units]),
  },
  {
    id: "shed",
    palette: "containers",
    title: "Shed by container",
    unit: "requests per second",
    kind: "stack",
    format: rate,
    values: ({ containers }) => containers.map((one) => [one.container, one.shed]),
  },
];

const TABLES = [
  {
    id: "stages",
    title: "Stages",
    columns: ["Stage", "Refused", "Of all", "Mostly for", "p99 wait", "Oldest waits", "Waiting", "Acquired"],
    rows: ({ stages }) => stages.map((stage) => [stage.stage, [
      stage.stage,
      perSecond(stage.refused),
      percent(stage.refusedShare),
      stage.reason ?? NOTHING,
      quantileText(stage.waitP99),
      known(stage.delay, seconds),
      known(stage.waiters, rate),
      known(stage.acquired, perSecond),
    ], stage.refusedShare >= NOTABLE ? "over" : ""]),
  },
  {
    id: "classes",
    title: "Classes",
    columns: ["Class", "Load", "Goodput", "Refused", "Of all", "p50", "p99"],
    rows: ({ classes }) => (classes.length < 2 ? [] : classes.map((one) => [one.class, [
      one.class,
      perSecond(one.load),
      perSecond(one.goodput),
      perSecond(one.refused),
      percent(one.refusedShare),
      quantileText(one.p50),
      quantileText(one.p99),
    ], one.refusedShare >= NOTABLE ? "over" : ""])),
  },
  {
    id: "containers",
    title: "Containers",
    columns: ["Container", "Units", "Level", "Score", "Lacks CPU", "Shed", "Boosts"],
    rows: ({ containers }) => containers.map((one) => [one.container, [
      one.container,
      rate(one.units),
      rate(one.level),
      rate(one.score),
      one.isUnmet ? "yes" : "no",
      perSecond(one.shed),
      perSecond(one.boosts),
    ], one.isUnmet ? "over" : ""]),
  },
];
