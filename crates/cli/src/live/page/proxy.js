// What a proxy says of the services behind it.
//
// `seawall top` has the same in picture/proxy.rs.

// The name of an upstream whose classes do not bear its name.
const NAMELESS = "default";

// The stage at which a proxy lets requests in.
const GATE = "gate";

// The upstream to which a class belongs; undefined if that is not known.
function upstreamOf(name, upstreams) {
  return upstreams.find((one) => name.startsWith(`${one.upstream}: `))
    ?? upstreams.find((one) => one.upstream === NAMELESS);
}

function upstreamsOf(span) {
  const gates = span.values("upstream", ["seawall_gate_limit"]).map((name) => gateOf(span, name));
  return gates.map((gate) => {
    const isIts = (labels) => upstreamOf(labels.get("class") ?? "", gates) === gate;
    const times = latency(span, isIts);
    return {
      ...gate,
      served: span.rate("seawall_completions_total", isIts),
      p99: quantileOf(times, 0.99),
      withinSloShare: gate.slo === null ? null : shareWithin(times, gate.slo),
    };
  });
}

// What the gate of an upstream says, of all its classes together.
function gateOf(span, upstream) {
  const of = (name) => span.series(`seawall_${name}`).find(({ labels }) =>
    labels.get("upstream") === upstream && (labels.get("class") ?? "all") === "all")?.value;
  const slo = of("upstream_slo_seconds");
  return {
    upstream,
    observes: of("upstream_enforces") === 0,
    limit: of("gate_limit") ?? 0,
    inFlight: of("gate_in_flight") ?? 0,
    waiting: of("gate_waiting") ?? 0,
    slo: slo > 0 ? slo : null,
  };
}

// How many times its SLO the p99 of an upstream is.
function slownessOf({ p99, slo }) {
  return p99 === null || slo === null ? 0 : p99.seconds / slo;
}

// The slowest for its SLO of those that are slower than it; null if none is.
function overSlo(upstreams) {
  const slow = upstreams.filter((one) => slownessOf(one) > 1);
  return slow.reduce((most, one) =>
    (most === null || slownessOf(one) > slownessOf(most) ? one : most), null);
}

// The part of what was served within the SLOs; null where there are none.
function withinSlo(upstreams) {
  const known = upstreams.filter((one) => one.withinSloShare !== null);
  const served = known.reduce((sum, one) => sum + one.served, 0);
  const within = known.reduce((sum, one) => sum + one.withinSloShare * one.served, 0);
  return served > 0 ? within / served : null;
}

function replicasOf(span) {
  const replicas = span.series("seawall_upstream_well").map(({ labels, value }) => {
    const [upstream, replica] = [labels.get("upstream") ?? "", labels.get("replica") ?? ""];
    const isIt = (other) =>
      other.get("upstream") === upstream && other.get("replica") === replica;
    // Null for a result that there has never been.
    const attempts = (result) => {
      const name = "seawall_upstream_attempts_total";
      const here = (other) => isIt(other) && other.get("result") === result;
      return span.highest(name, here) > 0 ? span.rate(name, here) : null;
    };
    return {
      upstream,
      replica,
      isWell: value > 0,
      outstanding: span.highest("seawall_upstream_outstanding_requests", isIt) ?? 0,
      answered: attempts("answered"),
      refused: attempts("refused"),
      unsent: attempts("unsent"),
      lost: attempts("lost"),
      timedOut: attempts("timed_out"),
    };
  });
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  return replicas.sort((a, b) => order(a.upstream, b.upstream) || order(a.replica, b.replica));
}
