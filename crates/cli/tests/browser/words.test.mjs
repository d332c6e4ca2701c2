// What the page computes, without a browser: the same cases as `seawall top` is held to.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const live = new URL("../../src/live/", import.meta.url);
const read = (name) => readFileSync(new URL(name, live), "utf8");
const scripts = ["text", "format", "picture", "proxy", "recent"].map((name) => read(`page/${name}.js`));
const names = "parseText, rate, seconds, percent, round, quantileText, pictureBetween, verdictOf, Recent";
const page = new Function(`"use strict";\n${scripts.join("\n")}\nreturn { ${names} };`)();
const chart = readFileSync(new URL("page/chart.js", live), "utf8");
const axes = new Function(`"use strict";\n${scripts[1]}\n${chart}\nreturn { linearTicks, logTicks };`)();

const sample = (at, lines) => ({ at, metrics: page.parseText(lines.join("\n")) });

// The names in the cases are those of `seawall top --json`.
const SHORT = { p50_s: "p50", p99_s: "p99", wait_p99_s: "waitP99", budget_s: "budget" };

function field(value, name) {
  const camel = name.replace(/_s$/, "").replace(/_(.)/g, (_, c) => c.toUpperCase());
  const found = value[SHORT[name] ?? camel];
  return found?.seconds ?? found;
}

function agrees(found, expected, where) {
  if (Array.isArray(expected)) {
    assert.equal(found.length, expected.length, where);
    expected.forEach((one, index) => agrees(found[index], one, `${where}[${index}]`));
  } else if (expected !== null && typeof expected === "object") {
    Object.entries(expected).forEach(([name, one]) => agrees(field(found, name), one, `${where}.${name}`));
  } else if (typeof expected === "number") {
    assert.ok(Math.abs(found - expected) <= 1e-9 * Math.max(Math.abs(expected), 1), `${where}: ${found}`);
  } else {
    assert.equal(found, expected, where);
  }
}

for (const one of JSON.parse(read("cases.json"))) {
  test(`case: ${one.name}`, () => {
    const picture = page.pictureBetween(sample(7, one.before), sample(7 + one.seconds, one.after));
    agrees(picture, one.picture, one.name);
    const { level, sentence, detail } = one;
    assert.deepEqual(page.verdictOf(picture), { level, sentence, detail });
  });
}

test("the text format is read as by the Rust side", () => {
  const text = '# HELP a b\na 12\na{y="",x="a \\"b\\" \\\\ c\\nd, {e}=1}"} 3.5e2 1700\nb { le = "+Inf" , } +Inf\n';
  const metrics = page.parseText(text);
  const [plain, labelled] = metrics.get("a");
  assert.deepEqual([plain.value, plain.labels.size], [12, 0]);
  assert.equal(labelled.labels.get("x"), 'a "b" \\ c\nd, {e}=1}');
  assert.equal(labelled.value, 350);
  assert.equal(metrics.get("b")[0].value, Infinity);
  const same = page.parseText('a{x="a \\"b\\" \\\\ c\\nd, {e}=1}",y=""} 1').get("a")[0];
  assert.equal(same.key, labelled.key, "the order of labels means nothing");
  for (const wrong of ["<html>", "1a 2", "a", "a b", "a 1 soon", "a{b} 1", 'a{b="c} 1', 'a{b="c"']) {
    assert.throws(() => page.parseText(`ok 1\n${wrong}`), /^Error: line 2 is not/, wrong);
  }
});

test("numbers are written as in Seawall's tables", () => {
  const rates = [[0, "0"], [0.04, "0.04"], [9, "9"], [87.4, "87"], [999.7, "1.00k"], [12345, "12.3k"]];
  for (const [value, text] of rates) assert.equal(page.rate(value), text);
  const times = [[0, "0 µs"], [2.5e-7, "250 ns"], [9.998e-4, "1.00 ms"], [0.0141, "14.1 ms"], [120, "120 s"]];
  for (const [value, text] of times) assert.equal(page.seconds(value), text);
  const shares = [[0, "0 %"], [4e-6, "<0.1 %"], [0.484, "48 %"], [0.9999, "99.9 %"], [1, "100 %"]];
  for (const [value, text] of shares) assert.equal(page.percent(value), text);
  assert.equal(page.round("25.0k"), "25k");
  assert.equal(page.quantileText(null), "–");
});

test("rates are over the last second, and begin anew with the process", () => {
  const recent = new page.Recent();
  const at = (time, count) => sample(time, [`seawall_requests_total{class="a"} ${count}`]);
  assert.equal(recent.add(at(10, 0)), null);
  assert.equal(recent.add(at(10.5, 500)).load, 1000);
  assert.equal(recent.add(at(11, 700)).load, 700);
  assert.equal(recent.add(at(11.5, 700)).load, 200, "what is older than a second is forgotten");
  assert.equal(recent.add(at(0.2, 50)), null, "the clock of another process");
  assert.equal(Math.round(recent.add(at(0.7, 100)).load), 100);
  const [row] = recent.table();
  assert.deepEqual([row.name, row.labels, row.value], ["seawall_requests_total", 'class="a"', 100]);
});

test("axes have round ticks around all values", () => {
  assert.deepEqual(axes.linearTicks(1900), [0, 500, 1000, 1500, 2000]);
  assert.deepEqual(axes.linearTicks(0), [0, 0.5, 1]);
  for (const highest of [1e-6, 0.7, 3, 42, 99.9, 12345]) {
    const ticks = axes.linearTicks(highest);
    assert.ok(ticks.at(-1) >= highest * 0.999 && ticks.length <= 6, `${highest}: ${ticks}`);
  }
  const ticks = axes.logTicks(0.0003, 0.02);
  assert.ok(ticks[0] <= 0.0003 && ticks.at(-1) >= 0.02 && ticks.length >= 3, `${ticks}`);
  assert.ok(axes.logTicks(0.001, 0.001).length > 1);
});
