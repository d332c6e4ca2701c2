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
  const { refusedShare, failed, cancelled, spilled, upstreams } = picture;
  const isProxy = upstreams.length > 0;
  const level = refusedShare >= NOTABLE ? "over" : refusedShare > 0 ? "busy" : "";
  const others = [[failed, "failed"], [cancelled, "given up"], [spilled, "to replicas"]]
    .filter(([count]) => count > 0)
    .map(([count, how]) => `${perSecond(count)} ${how}`);
  const tiles = [
    { name: "Load", value: perSecond(picture.load), beside: "arriving" },
    {
      name: isProxy ? "Served" : "Goodput",
      value: perSecond(picture.goodput),
      beside: others.join(", ") || (isProxy ? "in time or late" : "served"),
    },
    { name: "Refused", value: percent(refusedShare), beside: perSecond(picture.refused), level },
  ];
  const optional = (value, tile) => value !== null && tiles.push(tile(value));
  optional(picture.wouldRefuseShare, (share) => ({
    name: "Would refuse",
    value: percent(share),
    beside: perSecond(picture.wouldRefuse),
    level: share >= NOTABLE ? "busy" : "",
  }));
  optional(picture.p99, (p99) => ({
    name: "p99",
    value: quantileText(p99),
    beside: `p50 ${quantileText(picture.p50)}`,
    level: overSlo(upstreams) === null ? "" : "busy",
  }));
  if (isProxy) tiles.push(...proxyTiles(picture));
  const elsewhere = (value) => (isProxy ? null : value);
  optional(elsewhere(picture.queueingDelay), (delay) => ({
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
  optional(elsewhere(picture.outstanding), (count) => ({
    name: "In flight",
    value: rate(count),
    beside: picture.admissionLimit === null ? "" : `limit ${rate(picture.admissionLimit)}`,
  }));
  optional(picture.creditsIssued, (issued) => ({
    name: "Credits issued",
    value: rate(issued),
    beside: picture.creditPool === null ? "" : `pool ${rate(picture.creditPool)}`,
  }));
  // A proxy has sessions only of clients that speak its protocol.
  optional(isProxy && picture.sessions === 0 ? null : picture.sessions, (sessions) => ({
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

// What a proxy has instead of a queue in front of handlers.
function proxyTiles({ upstreams, stages }) {
  const sum = (of) => rate(upstreams.reduce((all, one) => all + of(one), 0));
  const tiles = [{
    name: "Limit",
    value: sum((one) => one.limit),
    beside: `${sum((one) => one.inFlight)} in, ${sum((one) => one.waiting)} waiting`,
  }];
  const within = withinSlo(upstreams);
  const slos = [...new Set(upstreams.map((one) => one.slo).filter((slo) => slo !== null))];
  if (slos.length > 0) {
    const beside = slos.length === 1 ? `SLO ${round(seconds(slos[0]))}` : `${slos.length} SLOs`;
    tiles.push({ name: "Within SLO", value: known(within, percent), beside });
  }
  const gate = stages.find((one) => one.stage === GATE);
  if (gate !== undefined && gate.waitP99 !== null) {
    const beside = gate.delay > 0 ? `oldest ${seconds(gate.delay)}` : "p99";
    tiles.push({ name: "Wait at gate", value: quantileText(gate.waitP99), beside });
  }
  return tiles;
}

// Requests that a session may have outstanding, on average.
function windowOf({ creditsIssued, sessions }) {
  return creditsIssued !== null && sessions > 0 ? creditsIssued / sessions : null;
}

// Requests at the gates of a proxy; each gate has its limit.
function atGates(upstreams) {
  const one = upstreams.length === 1;
  const sum = (of) => upstreams.reduce((all, gate) => all + of(gate), 0);
  return [
    ["in flight", sum((gate) => gate.inFlight), "ink-good"],
    ["waiting", sum((gate) => gate.waiting), "ink-0"],
    ...upstreams.map((gate, place) =>
      [one ? "limit" : `limit of ${gate.upstream}`, gate.limit, inkOf(place + 3), true]),
  ];
}

// What waits in front of handlers. At a proxy that is the gate, which is among the stages.
function frontOf({ upstreams, queueingDelay }) {
  return upstreams.length > 0 ? [] : [["in front of the handlers", queueingDelay, "ink-load"]];
}

const inkOf = (place) => `ink-${place % SERIES_MOST}`;

const CHARTS = [
  {
    id: "requests",
    title: ({ upstreams }) => `Load and ${upstreams.length > 0 ? "served" : "goodput"}`,
    unit: "requests per second",
    kind: "lines",
    format: rate,
    values: (picture) => picture.unitsFree !== null ? [] : [
      ["load", picture.load, "ink-load"],
      [picture.upstreams.length > 0 ? "served" : "goodput", picture.goodput, "ink-good"],
      ["refused", picture.refused, "ink-refused"],
      ["would refuse", picture.wouldRefuse, "ink-4"],
      ["failed", picture.failed, "ink-lost"],
      ["given up", picture.cancelled, "ink-5"],
      ["to replicas", picture.spilled, "ink-3"],
    ],
    showsZero: ["load", "goodput", "served"],
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
    values: ({ p50, p99, upstreams }) => [
      ["p50", p50?.seconds, "ink-0"],
      ["p99", p99?.seconds, "ink-1"],
      ["SLO", upstreams.length === 1 ? upstreams[0].slo : null, "ink-bound", true],
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
      ...frontOf(picture),
      // The slowest first: where there is not room for all, these are shown.
      ...[...picture.stages]
        .sort((a, b) => waitOf(b).seconds - waitOf(a).seconds)
        .map((stage) => [stage.stage, waitOf(stage).seconds]),
    ],
  },
  {
    id: "credits",
    title: ({ creditPool, creditsIssued }) =>
      (creditPool === null && creditsIssued === null ? "In flight" : "In flight and credits"),
    unit: "requests at once",
    kind: "lines",
    format: rate,
    values: (picture) => (picture.upstreams.length > 0 ? atGates(picture.upstreams) : []).concat([
      ["pool", picture.creditPool, "ink-bound", true],
      ["issued", picture.creditsIssued, "ink-0"],
      ["limit", picture.admissionLimit, "ink-3", true],
      ["in flight", picture.upstreams.length > 0 ? null : picture.outstanding, "ink-good"],
    ]),
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

// A cell that stands out where something is so.
const marked = (text, level, isSo) => ({ text, level: isSo ? level : "" });

const isWell = (well) => marked(well ? "yes" : "no", "over", !well);

const TABLES = [
  {
    id: "stages",
    title: "Stages",
    columns: ["Stage", "Refused", "Of all", "Would refuse", "Mostly for", "p99 wait", "Oldest waits",
      "Waiting on average", "Acquired"],
    rows: ({ stages, load }) => stages.map((stage) => {
      const refuses = stage.refusedShare >= NOTABLE;
      const wouldRefuse = part(stage.wouldRefuse ?? 0, load) >= NOTABLE;
      return [stage.stage, [
        stage.stage,
        marked(perSecond(stage.refused), "over", refuses),
        marked(percent(stage.refusedShare), "over", refuses),
        marked(known(stage.wouldRefuse, perSecond), "busy", wouldRefuse),
        stage.reason ?? NOTHING,
        quantileText(stage.waitP99),
        known(stage.delay, seconds),
        known(stage.waiters, rate),
        known(stage.acquired, perSecond),
      ]];
    }),
  },
  {
    id: "classes",
    title: "Classes",
    columns: ["Class", "Load", "Goodput", "Served", "Refused", "Of all", "Would refuse", "p50",
      "p99"],
    rows: ({ classes, upstreams }) => (classes.length < 2 ? [] : classes.map((one) => {
      const refuses = one.refusedShare >= NOTABLE;
      const wouldRefuse = part(one.wouldRefuse ?? 0, one.load) >= NOTABLE;
      const isProxy = upstreams.length > 0;
      return [one.class, [
        one.class,
        perSecond(one.load),
        isProxy ? NOTHING : perSecond(one.goodput),
        isProxy ? perSecond(one.goodput) : NOTHING,
        marked(perSecond(one.refused), "over", refuses),
        marked(percent(one.refusedShare), "over", refuses),
        marked(known(one.wouldRefuse, perSecond), "busy", wouldRefuse),
        quantileText(one.p50),
        marked(quantileText(one.p99), "busy", one.isOverSlo),
      ]];
    })),
  },
  {
    id: "upstreams",
    title: "Upstreams",
    columns: ["Upstream", "Served", "Limit", "In", "Waiting", "p99", "SLO", "Within SLO",
      "Refuses"],
    rows: ({ upstreams }) => (upstreams.length < 2 ? [] : upstreams.map((one) => [one.upstream, [
      one.upstream,
      perSecond(one.served),
      rate(one.limit),
      rate(one.inFlight),
      rate(one.waiting),
      marked(quantileText(one.p99), "busy", slownessOf(one) > 1),
      known(one.slo, (slo) => round(seconds(slo))),
      known(one.withinSloShare, percent),
      one.observes ? "no, observes" : "yes",
    ]])),
  },
  {
    id: "replicas",
    title: "Replicas",
    columns: ["Replica", "Upstream", "Well", "In flight", "Answered", "Refused", "Unsent", "Lost",
      "Timed out"],
    rows: ({ replicas, upstreams }) => replicas.map((one) => [`${one.upstream} ${one.replica}`, [
      one.replica,
      upstreams.length < 2 ? NOTHING : one.upstream,
      isWell(one.isWell),
      rate(one.outstanding),
      known(one.answered, perSecond),
      known(one.refused, perSecond),
      ...[one.unsent, one.lost, one.timedOut].map((count) =>
        marked(known(count, perSecond), "over", count > 0)),
    ]]),
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
      marked(one.isUnmet ? "yes" : "no", "over", one.isUnmet),
      perSecond(one.shed),
      perSecond(one.boosts),
    ]]),
  },
];
