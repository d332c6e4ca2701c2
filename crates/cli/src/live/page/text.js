// Prometheus' text format, version 0.0.4: read back.

const VALUES = new Map([["+Inf", Infinity], ["Inf", Infinity], ["-Inf", -Infinity], ["NaN", NaN]]);

// Reads the text of /metrics into a map from names to series, each { labels, key, value }: a key
// tells apart series of one name. Throws at the first line that is not of this format.
function parseText(text) {
  const metrics = new Map();
  text.split("\n").forEach((raw, index) => {
    const line = raw.trim();
    if (line === "" || line.startsWith("#")) return;
    const wrong = (what) => {
      throw new Error(`line ${index + 1} is not of Prometheus' text format: ${what}`);
    };
    const name = /^[A-Za-z_:][A-Za-z0-9_:]*/.exec(line)?.[0];
    if (name === undefined) wrong("it does not begin with a name");
    const labels = new Map();
    let rest = line.slice(name.length).trimStart();
    if (rest.startsWith("{")) rest = readLabels(rest.slice(1), labels, wrong);
    const words = rest.trim().split(/\s+/);
    if (words[0] === "") wrong("it has no value");
    const value = VALUES.has(words[0]) ? VALUES.get(words[0]) : Number(words[0]);
    if (Number.isNaN(value) && words[0] !== "NaN") wrong("its value is not a number");
    if (words.length > 2 || (words.length === 2 && !/^-?\d+$/.test(words[1]))) {
      wrong("there is more behind its value than a time");
    }
    const sorted = [...labels].sort(([a], [b]) => (a < b ? -1 : 1));
    if (!metrics.has(name)) metrics.set(name, []);
    metrics.get(name).push({ labels, key: JSON.stringify(sorted), value });
  });
  return metrics;
}

// Reads labels up to the closing brace; gives what is behind it.
function readLabels(text, labels, wrong) {
  let rest = text;
  for (;;) {
    rest = rest.trimStart();
    if (rest.startsWith("}")) return rest.slice(1);
    const equals = rest.indexOf("=");
    if (equals < 0) wrong("a label has no value");
    const name = rest.slice(0, equals).trim();
    rest = rest.slice(equals + 1).trimStart();
    if (!rest.startsWith('"')) wrong("a label's value has no quotes");
    const quoted = /^"((?:[^"\\]|\\.)*)"/s.exec(rest);
    if (quoted === null) wrong("a label's value does not end");
    labels.set(name, quoted[1].replace(/\\(.)/gs, (_, c) => (c === "n" ? "\n" : c)));
    rest = rest.slice(quoted[0].length).trimStart();
    if (rest.startsWith(",")) rest = rest.slice(1);
    else if (!rest.startsWith("}")) wrong("labels have no comma between them");
  }
}
