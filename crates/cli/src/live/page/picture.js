// What two readings of the metrics, some time apart, say about the process, and that in words.
//
// `seawall top` has the same in picture.rs and verdict.rs; both are held to cases.json.

// The outcome of requests that were served with a result.
const SERVED = "done";

// A share of requests from which on a process that refuses or fails them is said to be overloaded.
const NOTABLE = 0.01;

// A process falls behind when this share more arrives than ends, and by more than chance would have
// it: arrivals that are independent scatter by the square root of their number.
const BEHIND = 0.05;
const BEHIND_DEVIATIONS = 4;

// Waits of this many seconds are worth a word, whatever the target.
const LONG_WAIT = 1;

// Above this share one stage is said to refuse all.
const NEARLY_ALL = 0.9;

// How many stages are named with what they refuse.
const STAGES_NAMED = 3;

// A bucket is wide if its end is more than so many times its beginning: then a quantile within it
// is a guess, and its end is what is known.
const WIDE = 1.25;

const OBSERVED = ["seawall_observed_refusals_total", "seawall_proxy_unrefused_total"];

const ANYWHERE = () => true;
const labelled = (label, value) => (labels) => labels.get(label) === value;

// Two samples, { at, metrics }, and the time between them.
class Span {
  constructor(before, after) {
    this.before = new Map();
    this.beforeMetrics = before.metrics;
    this.after = after.metrics;
    this.seconds = after.at - before.at;
  }

  // Series of a name in the first sample, by their keys.
  earlier(name) {
    if (!this.before.has(name)) {
      const series = this.beforeMetrics.get(name) ?? [];
      this.before.set(name, new Map(series.map((one) => [one.key, one.value])));
    }
    return this.before.get(name);
  }

  series(name, meant = ANYWHERE) {
    return (this.after.get(name) ?? []).filter((one) => meant(one.labels));
  }

  // By how much a series has grown. A counter that has fallen has begun anew.
  growth(name, one) {
    const then = this.earlier(name).get(one.key);
    return then !== undefined && then <= one.value ? one.value - then : one.value;
  }

  // Growth per second of all meant series of a counter.
  rate(name, meant) {
    const growth = this.series(name, meant).map((one) => this.growth(name, one));
    return growth.reduce((sum, more) => sum + more, 0) / this.seconds;
  }

  rateIfAny(name, meant) {
    return this.series(name, meant).length > 0 ? this.rate(name, meant) : null;
  }

  sum(name) {
    const values = this.series(name).map((one) => one.value);
    return values.length > 0 ? values.reduce((sum, value) => sum + value) : null;
  }

  highest(name, meant) {
    const values = this.series(name, meant).map((one) => one.value);
    return values.length > 0 ? Math.max(...values) : null;
  }

  // The values of a label that these metrics have now, in order.
  values(label, names) {
    const series = names.flatMap((name) => this.series(name));
    const values = series.map((one) => one.labels.get(label)).filter((v) => v !== undefined);
    return [...new Set(values)].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  }

  // What a histogram was told in the meantime: counts up to each bound, by bound.
  buckets(metric, meant) {
    const name = `${metric}_bucket`;
    const counts = new Map();
    for (const one of this.series(name, meant)) {
      const text = one.labels.get("le");
      const bound = VALUES.has(text) ? VALUES.get(text) : Number(text);
      counts.set(bound, (counts.get(bound) ?? 0) + this.growth(name, one));
    }
    return [...counts].sort(([a], [b]) => a - b);
  }
}

function totalOf(buckets) {
  return buckets.length > 0 ? buckets[buckets.length - 1][1] : 0;
}

// What a share `q` did not exceed, as Prometheus' `histogram_quantile` finds it: values are spread
// evenly in their bucket, and the first bucket begins at 0. Null if there is nothing.
function quantileOf(buckets, q) {
  const total = totalOf(buckets);
  if (!(total > 0)) return null;
  const rank = q * total;
  let [begin, below] = [0, 0];
  for (const [bound, count] of buckets) {
    if (bound === Infinity) break;
    if (count >= rank && count > below) {
      const within = begin + ((bound - begin) * (rank - below)) / (count - below);
      return { seconds: within, isBeyond: false, atMost: bound > WIDE * begin ? bound : null };
    }
    [begin, below] = [bound, count];
  }
  return { seconds: begin, isBeyond: true, atMost: null };
}

// The part that took at most so long, with values spread in the same way. What is longer than all
// buckets with a bound is longer than that.
function shareWithin(buckets, time) {
  const total = totalOf(buckets);
  if (!(total > 0)) return null;
  let [begin, below] = [0, 0];
  for (const [bound, count] of buckets) {
    if (bound === Infinity) break;
    if (bound >= time) {
      return (below + ((count - below) * (time - begin)) / (bound - begin)) / total;
    }
    [begin, below] = [bound, count];
  }
  return below / total;
}

// The picture of a process between two samples; null if the second is not later, as when the
// process has begun anew. Rates are per second; null stands for what is not shown.
function pictureBetween(before, after) {
  if (!(after.at > before.at)) return null;
  const span = new Span(before, after);
  const ended = endings(span);
  const [goodput, refused, failed, cancelled] = ended;
  const load = span.rate("seawall_requests_total");
  const served = latency(span, ANYWHERE);
  const upstreams = upstreamsOf(span);
  const wouldRefuse = wouldRefuseOf(span, upstreams);
  return {
    seconds: span.seconds,
    load,
    goodput,
    refused,
    refusedShare: share(refused, ended),
    wouldRefuse,
    // One request may be found too much twice: at the entry, and at the gate.
    wouldRefuseShare: wouldRefuse === null ? null : Math.min(part(wouldRefuse, load), 1),
    failed,
    failedShare: share(failed, ended),
    cancelled,
    spilled: span.rate("seawall_spilled_total"),
    p50: quantileOf(served, 0.5),
    p99: quantileOf(served, 0.99),
    queueingDelay: span.highest("seawall_queueing_delay_seconds"),
    targetDelay: span.highest("seawall_target_delay_seconds"),
    budget: span.highest("seawall_delay_budget_seconds"),
    outstanding: span.sum("seawall_outstanding_requests"),
    sessions: span.sum("seawall_sessions"),
    creditPool: span.sum("seawall_credit_pool"),
    creditsIssued: span.sum("seawall_credits_issued"),
    admissionLimit: span.sum("seawall_admission_limit"),
    workersBusy: span.rateIfAny("seawall_worker_busy_seconds"),
    stages: stagesOf(span, ended.reduce((sum, one) => sum + one), wouldRefuse !== null),
    classes: classesOf(span, upstreams, wouldRefuse !== null),
    upstreams,
    replicas: replicasOf(span),
    containers: containersOf(span),
    unitsFree: span.sum("seawall_scaling_free_units"),
  };
}

// How requests ended: served, refused, failed, given up.
function endings(span, meant) {
  return ["completions", "refusals", "failures", "cancellations"].map((how) =>
    span.rate(`seawall_${how}_total`, meant));
}

function share(one, all) {
  return part(one, all.reduce((total, other) => total + other, 0));
}

function part(one, all) {
  return all > 0 ? one / all : 0;
}

// How long those took that were served, of the classes that are meant.
function latency(span, meant) {
  const served = (labels) => labels.get("outcome") === SERVED && meant(labels);
  return span.buckets("seawall_request_seconds", served);
}

// What would have been refused; null where all that is too much is refused.
function wouldRefuseOf(span, upstreams) {
  if (upstreams.length === 0) return span.rateIfAny("seawall_observed_refusals_total");
  return upstreams.some((one) => one.observes) ? wouldBe(span) : null;
}

// Refusals that are only observed, of a server and of a proxy.
function wouldBe(span, meant) {
  return OBSERVED.reduce((sum, name) => sum + span.rate(name, meant), 0);
}

// Those that refuse most first, then those with the longest waits.
function stagesOf(span, ended, observes) {
  const names = span.values("stage", [
    "seawall_refusals_total",
    ...OBSERVED,
    "seawall_stage_queueing_delay_seconds",
    "seawall_stage_acquisitions_total",
    "seawall_stage_wait_seconds_count",
  ]);
  const stages = names.map((stage) => {
    const here = labelled("stage", stage);
    const refused = span.rate("seawall_refusals_total", here);
    return {
      stage,
      refused,
      refusedShare: part(refused, ended),
      wouldRefuse: observes ? wouldBe(span, here) : null,
      reason: reasonOf(span, stage),
      delay: span.highest("seawall_stage_queueing_delay_seconds", here),
      waitP99: quantileOf(span.buckets("seawall_stage_wait_seconds", here), 0.99),
      acquired: span.rateIfAny("seawall_stage_acquisitions_total", here),
      waiters: span.rateIfAny("seawall_stage_waited_seconds", here),
    };
  });
  return stages.sort((a, b) => b.refused - a.refused
    || (b.wouldRefuse ?? 0) - (a.wouldRefuse ?? 0)
    || waitOf(b).seconds - waitOf(a).seconds);
}

// Why a stage refuses, or would, for the most part; null if it does not.
function reasonOf(span, stage) {
  const most = (metrics) => {
    const rates = span.values("reason", metrics).map((reason) => {
      const here = (labels) => labels.get("stage") === stage && labels.get("reason") === reason;
      return [reason, metrics.reduce((sum, name) => sum + span.rate(name, here), 0)];
    });
    return rates.reduce((best, one) => (one[1] > best[1] ? one : best), [null, 0])[0];
  };
  return most(["seawall_refusals_total"]) ?? most(OBSERVED);
}

// The longest that is known of waits at a stage.
function waitOf(stage) {
  const oldest = { seconds: stage.delay ?? 0, isBeyond: false, atMost: null };
  return stage.waitP99 !== null && stage.waitP99.seconds > oldest.seconds ? stage.waitP99 : oldest;
}

function classesOf(span, upstreams, observes) {
  const isUsed = (name) => span.highest("seawall_requests_total", labelled("class", name)) > 0;
  return span.values("class", ["seawall_requests_total"]).filter(isUsed).map((name) => {
    const here = labelled("class", name);
    const ended = endings(span, here);
    const served = latency(span, here);
    const p99 = quantileOf(served, 0.99);
    const slo = upstreamOf(name, upstreams)?.slo ?? null;
    return {
      class: name,
      load: span.rate("seawall_requests_total", here),
      goodput: ended[0],
      refused: ended[1],
      refusedShare: share(ended[1], ended),
      wouldRefuse: observes ? wouldBe(span, here) : null,
      p50: quantileOf(served, 0.5),
      p99,
      isOverSlo: p99 !== null && slo !== null && p99.seconds > slo,
    };
  });
}

function containersOf(span) {
  return span.values("container", ["seawall_scaling_units"]).map((container) => {
    const here = labelled("container", container);
    const value = (name) => span.highest(`seawall_scaling_${name}`, here) ?? 0;
    return {
      container,
      units: value("units"),
      level: value("level"),
      score: value("score"),
      isUnmet: value("unmet") > 0,
      shed: span.rate("seawall_scaling_shed_total", here),
      boosts: span.rate("seawall_responder_boosts_total", here),
    };
  });
}

// A picture in words: { level: idle, good, busy or over, sentence, detail }.
function verdictOf(picture) {
  if (picture.containers.length > 0 || picture.unitsFree !== null) return agentVerdict(picture);
  const isIdle = picture.load === 0 && picture.goodput === 0 && picture.refused === 0;
  const worst = Math.max(picture.refusedShare, picture.failedShare);
  let level = isIdle ? "idle" : "good";
  const waitsTooLong = isOverTarget(picture) || longestWait(picture).wait.seconds >= LONG_WAIT;
  if (worst > 0 || waitsTooLong || isShortOfGood(picture)) level = "busy";
  if (worst >= NOTABLE || isBehind(picture)) level = "over";
  return { level, sentence: sentenceOf(picture, isIdle), detail: detailOf(picture) };
}

// It observes that there is too much, or is slower than wanted, or what is behind it is not well.
function isShortOfGood({ wouldRefuseShare, upstreams, replicas }) {
  return wouldRefuseShare >= NOTABLE || overSlo(upstreams) !== null
    || replicas.some((one) => !one.isWell);
}

function isOverTarget({ queueingDelay, targetDelay }) {
  return queueingDelay !== null && targetDelay > 0 && queueingDelay > targetDelay;
}

function isBehind({ load, goodput, refused, failed, cancelled, seconds: time }) {
  const more = load - goodput - refused - failed - cancelled;
  return more > BEHIND * load && more * time > BEHIND_DEVIATIONS * Math.sqrt(load * time);
}

// The longest wait, and where it is: an empty place for in front of the handlers. A proxy has
// nothing there: its queueing delay is that of its gate.
function longestWait({ stages, queueingDelay, upstreams }) {
  const longer = (longest, stage) => {
    const wait = waitOf(stage);
    return wait.seconds > longest.wait.seconds ? { wait, place: stage.stage } : longest;
  };
  const front = upstreams.length > 0 ? 0 : queueingDelay ?? 0;
  const wait = { seconds: front, isBeyond: false, atMost: null };
  return stages.reduce(longer, { wait, place: "" });
}

// What a proxy serves may be too late; what others serve is called goodput.
function servedOf({ upstreams, goodput }) {
  return upstreams.length === 0 ? `goodput ${perSecond(goodput)}` : `${perSecond(goodput)} served`;
}

// How much would be refused, and where, while that is only observed; null if nothing.
function wouldRefuseText({ wouldRefuse, wouldRefuseShare, stages }) {
  if (!(wouldRefuseShare > 0) || stages.length === 0) return null;
  const most = stages.reduce((best, one) =>
    ((one.wouldRefuse ?? 0) > (best.wouldRefuse ?? 0) ? one : best));
  const place = most.wouldRefuse >= NEARLY_ALL * wouldRefuse ? " at" : ", most at";
  return `would refuse ${percent(wouldRefuseShare)}${place} ${most.stage}`;
}

// How slow it is, beside what was wanted: parts of a sentence.
function latencyTexts({ p99, upstreams }) {
  const texts = p99 === null ? [] : [`p99 ${quantileText(p99)}`];
  const slow = overSlo(upstreams);
  if (slow === null) return texts;
  const slo = round(seconds(slow.slo));
  if (upstreams.length === 1) return texts.map((text) => `${text}, over the SLO of ${slo}`);
  return [...texts, `${slow.upstream} over its SLO of ${slo}`];
}

function sentenceOf(picture, isIdle) {
  const goodput = perSecond(picture.goodput);
  const refuses = picture.refusedShare > 0;
  const [top] = picture.stages;
  const parts = [];
  if (refuses && top !== undefined) {
    const place = top.refused >= NEARLY_ALL * picture.refused ? " at" : ", most at";
    parts.push(`Refusing ${percent(picture.refusedShare)}${place} ${top.stage}`);
    parts.push(servedOf(picture));
  } else if (isIdle) {
    parts.push("Idle: no requests");
  } else if (isBehind(picture)) {
    parts.push(`Falling behind: ${perSecond(picture.load)} arrive, ${goodput} are served`);
  } else if (isOverTarget(picture)) {
    const delay = seconds(picture.queueingDelay);
    const target = seconds(picture.targetDelay);
    parts.push(`Serving ${goodput} with a queue of ${delay}, over the target of ${target}`);
  } else {
    parts.push(`Serving ${goodput}`);
  }
  const would = wouldRefuseText(picture);
  if (would !== null) parts.push(would);
  parts.push(...latencyTexts(picture));
  if (picture.failedShare > 0) parts.push(`${percent(picture.failedShare)} fail`);
  if (!refuses && !isIdle) parts.push("nothing refused");
  return parts.join("; ");
}

// Who refuses how much, and where the longest wait is.
function detailOf(picture) {
  const parts = [];
  const refusing = picture.stages
    .filter((stage) => stage.refused > 0)
    .slice(0, STAGES_NAMED)
    .map((stage) => `${stage.stage} ${percent(stage.refusedShare)}`);
  if (refusing.length > 1) parts.push(`Refused by stage: ${refusing.join(", ")}`);
  const unwell = picture.replicas.filter((one) => !one.isWell).map((one) => one.replica);
  if (unwell.length > 0) parts.push(`Not well: ${unwell.join(", ")}`);
  const { wait, place } = longestWait(picture);
  const target = picture.targetDelay > 0 ? ` (target ${seconds(picture.targetDelay)})` : "";
  const where = place === "" ? `in front of the handlers${target}` : `at ${place}`;
  if (wait.seconds > 0) parts.push(`Longest wait: ${quantileText(wait)} ${where}`);
  return parts.join(". ");
}

// What a node agent has to say.
function agentVerdict({ containers, unitsFree }) {
  const units = containers.reduce((sum, one) => sum + one.units, 0);
  const count = containers.length === 1 ? "1 container has" : `${containers.length} containers have`;
  const sentence = `${count} ${rate(units)} units of CPU; ${rate(unitsFree ?? 0)} are free`;
  const unmet = containers.filter((one) => one.isUnmet).map((one) => one.container);
  const wanting = containers.filter((one) => one.score > 0 && !one.isUnmet).length;
  if (unmet.length > 0) {
    return { level: "over", sentence, detail: `Without CPU that they need: ${unmet.join(", ")}` };
  }
  const detail = wanting > 0 ? `Candidates for more CPU: ${wanting}` : "";
  return { level: wanting > 0 ? "busy" : "good", sentence, detail };
}
