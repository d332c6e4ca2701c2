// The live page in a real browser, against real servers.
//
// Needs SEAWALL (the program), CHROMIUM (a browser), TOOLS (a folder with playwright-core in its
// node_modules) and SCREENSHOTS (a folder for pictures to be looked at): scripts/browser sets them.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import * as http from "node:http";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { after, before, test } from "node:test";

const { SEAWALL, CHROMIUM, TOOLS, SCREENSHOTS } = process.env;
const { chromium } = createRequire(`${TOOLS}/`)("playwright-core");

// How long anything may take before a test gives up: far longer than it ever takes.
const PATIENCE = 60_000;

// A lock that is held for 2 ms lets 500 requests in a second through, on any machine.
const LOCKED = ["synthetic", "--service=const:0us", "--wait=const:2ms", "--paths=hot:1", "--slo=5s"];
const OVERLOAD = ["--rate=1500", "--deadline=20ms", "--sessions=20"];

const DESKTOP = { width: 1280, height: 900 };
const PHONE = { width: 360, height: 780 };
const LARGE_PHONE = { width: 390, height: 844 };

let browser;

before(async () => {
  const isRoot = process.getuid?.() === 0; // whom Chromium's sandbox does not take
  const args = isRoot ? ["--no-sandbox"] : [];
  browser = await chromium.launch({ executablePath: CHROMIUM, args: [...args, "--disable-gpu"] });
});

after(() => browser?.close());

// Starts a server, and gives where it listens; it ends with the test.
async function served(t, args, metrics = "127.0.0.1:0") {
  return started(t, ["serve", `--metrics=${metrics}`, ...args]);
}

async function started(t, [command, ...args]) {
  const fixed = [command, "--listen=127.0.0.1:0", "--until-stdin-ends"];
  const server = spawn(SEAWALL, [...fixed, ...args], { stdio: ["pipe", "pipe", "inherit"] });
  t.after(() => server.kill("SIGKILL"));
  const line = await new Promise((told, failed) => {
    let text = "";
    server.stdout.on("data", (data) => {
      text += data;
      if (text.includes("\n")) told(text);
    });
    server.on("exit", (code) => failed(new Error(`the server does not start (exit ${code})`)));
  });
  return { ...JSON.parse(line), stop: () => stopped(server) };
}

async function stopped(child) {
  const gone = new Promise((done) => child.on("exit", done));
  child.kill("SIGKILL");
  await gone;
}

// Offers a load until the test ends or it is stopped.
function loaded(t, address, args) {
  const fixed = ["load", address, "--warm-up=0s", "--time=300s"];
  const load = spawn(SEAWALL, [...fixed, ...args], { stdio: ["ignore", "ignore", "inherit"] });
  t.after(() => load.kill("SIGKILL"));
  return () => stopped(load);
}

// A port at which nobody listens.
function freePort() {
  return new Promise((found) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => found(port));
    });
  });
}

// A service that answers four requests at once, each in 20 ms; gives its port.
async function service(t) {
  const waiting = [];
  let free = 4;
  const next = () => {
    if (free === 0 || waiting.length === 0) return;
    free -= 1;
    const response = waiting.shift();
    setTimeout(() => {
      free += 1;
      response.end("hello\n");
      next();
    }, 20);
  };
  const server = http.createServer((_, response) => {
    waiting.push(response);
    next();
  });
  await new Promise((listens) => server.listen(0, "127.0.0.1", listens));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return server.address().port;
}

// Opens a page that must neither complain nor ask anybody else for anything.
async function opened(t, address, options = {}) {
  const context = await browser.newContext({ viewport: DESKTOP, ...options });
  context.setDefaultTimeout(PATIENCE);
  t.after(() => context.close());
  const page = await context.newPage();
  page.complaints = [];
  page.elsewhere = [];
  page.on("console", (said) => {
    if (["error", "warning"].includes(said.type())) page.complaints.push(said.text());
  });
  page.on("pageerror", (error) => page.complaints.push(error.stack));
  page.on("request", (request) => {
    const { protocol, host } = new URL(request.url());
    if (protocol !== "data:" && host !== address) page.elsewhere.push(request.url());
  });
  await options.prepare?.(page);
  await page.goto(`http://${address}/`);
  return page;
}

function isContent(page) {
  assert.deepEqual(page.complaints, []);
  assert.deepEqual(page.elsewhere, []);
}

const sentence = (page) => page.locator("#sentence");

// Waits until the sentence is like `pattern`.
async function says(page, pattern) {
  let said;
  await until(`it says ${pattern}`, async () => {
    said = (await sentence(page).textContent()).replaceAll("\u00a0", " ");
    return pattern.test(said);
  }).catch((error) => {
    throw new Error(`${error.message}; it says: ${said}`);
  });
}

const tile = (page, name) =>
  page.locator(".tile").filter({ has: page.locator(".name", { hasText: new RegExp(`^${name}$`) }) });
const valueOf = (page, name) => tile(page, name).locator(".value").textContent();

// Waits until what `look` gives is true.
async function until(what, look) {
  const end = Date.now() + PATIENCE;
  while (!(await look())) {
    if (Date.now() > end) throw new Error(`it does not come to pass: ${what}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

async function picture(page, name) {
  await page.screenshot({ path: `${SCREENSHOTS}/${name}.png`, fullPage: true });
}

// Whether anything but the frame is drawn on a chart: dots in its series' colours.
async function isDrawn(page, id) {
  const chart = page.locator(`#chart-${id}`);
  await chart.waitFor();
  await chart.scrollIntoViewIfNeeded();
  return chart.evaluate((figure) => {
    const canvas = figure.querySelector("canvas");
    // A copy is read: who reads the page's own canvas often is warned, and so would the page be.
    const copy = new OffscreenCanvas(canvas.width, canvas.height);
    const context = copy.getContext("2d", { willReadFrequently: true });
    context.drawImage(canvas, 0, 0);
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    const colours = [...figure.querySelectorAll(".swatch")].map((swatch) =>
      getComputedStyle(swatch).backgroundColor.match(/\d+/g).slice(0, 3).map(Number));
    let dots = 0;
    for (let at = 0; at < data.length; at += 4) {
      const near = ([r, g, b]) => Math.abs(data[at] - r) + Math.abs(data[at + 1] - g) + Math.abs(data[at + 2] - b) < 30;
      if (data[at + 3] > 100 && colours.some(near)) dots += 1;
    }
    return dots > 20;
  });
}

test("it shows what happens, and says when there is too much of it", async (t) => {
  const server = await served(t, LOCKED);
  const page = await opened(t, server.metrics);
  await says(page, /^Idle: no requests$/);
  assert.match(await page.locator("#about").textContent(), /algorithm breakwater, SLO 5s/);
  const stop = loaded(t, server.address, ["--rate=200", "--sessions=5"]);
  await says(page, /^Serving \d+\/s/);
  const seen = new Set();
  await until("values move", async () => seen.add(await valueOf(page, "Load")).size > 3);
  assert.ok([...seen].every((value) => /^[\d.]+k?\/s$/.test(value)), [...seen].join());
  await until("the load is drawn", () => isDrawn(page, "requests"));
  await picture(page, "desktop-light-calm");
  await stop();
  loaded(t, server.address, OVERLOAD);
  await says(page, /^Refusing \d+ %(, most)? at /);
  assert.equal(await page.locator("#status").getAttribute("data-level"), "over");
  await until("the title says it, too", async () => /^Refusing .* · Seawall$/.test(await page.title()));
  const refusing = page.locator('#table-stages tbody td[data-level="over"]');
  assert.ok((await refusing.count()) >= 1);
  assert.match(await valueOf(page, "Refused"), /^[1-9][\d.]* %$/);
  await until("refusals are drawn", () => isDrawn(page, "refused"));
  await until("latencies are drawn", () => isDrawn(page, "latency"));
  await page.waitForTimeout(8_000); // for the picture: some history
  await picture(page, "desktop-light-over");
  isContent(page);
});

test("it is dark where that is wanted, and keeps to what it is told", async (t) => {
  const server = await served(t, LOCKED);
  loaded(t, server.address, OVERLOAD);
  const page = await opened(t, server.metrics, { colorScheme: "dark" });
  await says(page, /^Refusing/);
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await ground();
  await page.waitForTimeout(8_000);
  await picture(page, "desktop-dark-over");
  await page.emulateMedia({ colorScheme: "light" });
  await until("it follows the system", async () => (await ground()) !== dark);
  const button = page.getByRole("button", { name: /^Theme/ });
  await button.click();
  assert.equal(await button.textContent(), "Theme: light");
  await button.click();
  assert.equal(await button.textContent(), "Theme: dark");
  assert.equal(await ground(), dark);
  await page.reload();
  await says(page, /^Refusing/);
  assert.equal(await ground(), dark, "a reload forgets nothing");
  isContent(page);
});

test("it fits a phone", async (t) => {
  const server = await served(t, LOCKED);
  loaded(t, server.address, OVERLOAD);
  const phone = { viewport: PHONE, deviceScaleFactor: 2, hasTouch: true, isMobile: true };
  for (const colorScheme of ["light", "dark"]) {
    const page = await opened(t, server.metrics, { ...phone, colorScheme });
    await says(page, /^Refusing/);
    await until("charts are drawn", () => isDrawn(page, "requests"));
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `it is ${wide} pixels too wide`);
    await page.waitForTimeout(5_000);
    await picture(page, `phone-${colorScheme}`);
    isContent(page);
  }
});

test("it can be used by keyboard, and be listened to", async (t) => {
  const server = await served(t, LOCKED);
  loaded(t, server.address, ["--rate=200", "--sessions=5"]);
  const page = await opened(t, server.metrics);
  await says(page, /^Serving/);
  await until("the load is drawn", () => isDrawn(page, "requests"));
  const focused = () => page.evaluate(() => {
    const { id, tagName, textContent, parentElement } = document.activeElement;
    return tagName === "CANVAS" ? parentElement.id : id || textContent.trim();
  });
  const met = [];
  for (let steps = 0; steps < 40 && !met.includes("filter"); steps += 1) {
    await page.keyboard.press("Tab");
    met.push(await focused());
    if (met.at(-1) === "All metrics") await page.keyboard.press("Enter");
  }
  for (const stop of ["5 min", "pause", "theme", "chart-requests", "All metrics", "filter"]) {
    assert.ok(met.includes(stop), `${stop} cannot be reached: ${met}`);
  }
  const chart = page.locator("#chart-requests canvas");
  await page.waitForTimeout(5_000); // there has to be something to go back to
  await chart.focus();
  for (let times = 0; times < 5; times += 1) await page.keyboard.press("ArrowLeft");
  const spoken = page.locator("#spoken");
  assert.match(await spoken.textContent(), /^\d+ s ago: load [\d.]+/);
  await page.keyboard.press("Escape");
  await until("a chart says what it shows", async () =>
    /^Load and goodput, now: load [\d.]+/.test(await chart.getAttribute("aria-label")));
  await until("the state is spoken", async () => /^Serving/.test(await spoken.textContent()));
  const nameless = await page.evaluate(() => {
    const named = (node) => node.getAttribute("aria-label") || node.textContent.trim();
    const all = document.querySelectorAll("button, [role=img], [role=region], [role=group], table");
    return [...all].filter((node) => !node.closest("[hidden]") && !named(node)).length;
  });
  assert.equal(nameless, 0);
  await page.locator("#filter").fill("seawall_sessions");
  const rows = page.locator("#table-series tbody tr");
  await until("the list is filtered", async () => (await rows.count()) === 3);
  isContent(page);
});

test("pausing holds it still, and loses nothing", async (t) => {
  const server = await served(t, LOCKED);
  loaded(t, server.address, ["--rate=200", "--sessions=5"]);
  const page = await opened(t, server.metrics);
  await says(page, /^Serving/);
  await page.getByRole("button", { name: "Pause" }).click();
  const still = await page.locator("#tiles").textContent();
  await page.waitForTimeout(2_500);
  assert.equal(await page.locator("#tiles").textContent(), still);
  assert.equal(await page.locator("#fresh").textContent(), "paused");
  await page.getByRole("button", { name: "Pause" }).click();
  await until("it goes on", async () => (await page.locator("#tiles").textContent()) !== still);
  isContent(page);
});

test("it tells when the server is gone, and sees the next one", async (t) => {
  const port = await freePort();
  const server = await served(t, LOCKED, `127.0.0.1:${port}`);
  const page = await opened(t, server.metrics);
  await says(page, /^Idle/);
  await server.stop();
  await says(page, /^No answer from the server for \d+ s$/);
  assert.equal(await page.locator("#status").getAttribute("data-level"), "gone");
  assert.equal(await page.locator("#fresh").textContent(), "no answer");
  await picture(page, "desktop-light-gone");
  const next = await served(t, LOCKED, `127.0.0.1:${port}`);
  loaded(t, next.address, ["--rate=200", "--sessions=5"]);
  await says(page, /^Serving/);
  assert.deepEqual(page.elsewhere, []);
});

test("its policy keeps out what is not its own", async (t) => {
  const server = await served(t, LOCKED);
  const other = await served(t, LOCKED);
  const page = await opened(t, server.metrics);
  await says(page, /^Idle/);
  const tried = await page.evaluate(async (address) => {
    const reached = await fetch(`http://${address}/metrics`, { mode: "no-cors" }).then(() => true, () => false);
    const script = document.createElement("script");
    let isTaken = true;
    try {
      script.textContent = "window.intruder = true";
      document.body.append(script);
    } catch {
      isTaken = false;
    }
    const image = await new Promise((done) => {
      const made = new Image();
      made.onload = () => done(true);
      made.onerror = () => done(false);
      made.src = `http://${address}/`;
    });
    return { reached, image, ran: window.intruder === true, isTaken };
  }, other.metrics);
  assert.deepEqual(tried, { reached: false, image: false, ran: false, isTaken: false });
});

// Metrics that no server here has just now, in place of those of the server.
const told = (lines) => async (page) => {
  let at = 100;
  await page.route("**/metrics", (route) => {
    at += 0.3;
    const body = lines(at).join("\n");
    return route.fulfill({ body, headers: { "seawall-at": `${at}`, "seawall-about": "made up" } });
  });
};

test("names of any kind are only text", async (t) => {
  const server = await served(t, LOCKED);
  const evil = "<img src=x onerror=alert(1)><b>lock</b>";
  const stages = [evil, ...Array.from({ length: 12 }, (_, index) => `lock:table-${index}`)];
  const lines = (at) => [
    `seawall_requests_total{class="a"} ${1102 * at}`,
    `seawall_completions_total{class="a"} ${400 * at}`,
    ...stages.map((stage, index) =>
      `seawall_refusals_total{class="a",stage="${stage}",reason="overload"} ${(90 - 6 * index) * at}`),
    ...stages.map((stage, index) =>
      `seawall_stage_queueing_delay_seconds{stage="${stage}"} ${0.001 * (index + 1)}`),
  ];
  const page = await opened(t, server.metrics, { prepare: told(lines) });
  await says(page, /^Refusing 64 %, most at <img/);
  assert.equal(await page.locator("img, b").count(), 0);
  await until("rows are there", async () => (await page.locator("#table-stages tbody tr").count()) === 13);
  assert.equal(await page.locator("#chart-refused .legend li").count(), 8, "the rest is others");
  assert.match(await page.locator("#chart-refused .legend").textContent(), /others/);
  await page.waitForTimeout(3_000);
  await picture(page, "desktop-light-many-stages");
  isContent(page);
});

test("a node agent has charts of its own", async (t) => {
  const server = await served(t, LOCKED);
  const lines = (at) => [
    "seawall_scaling_free_units 2",
    ...["cart", "search", "web"].flatMap((name, index) => [
      `seawall_scaling_units{container="${name}"} ${4 + index + Math.round(2 * Math.sin(at / 3 + index))}`,
      `seawall_scaling_level{container="${name}"} ${index}`,
      `seawall_scaling_score{container="${name}"} ${index}`,
      `seawall_scaling_unmet{container="${name}"} ${index === 2 ? 1 : 0}`,
      `seawall_scaling_shed_total{container="${name}"} ${index * 40 * at}`,
    ]),
  ];
  const page = await opened(t, server.metrics, { prepare: told(lines) });
  await says(page, /^3 containers have \d+ units of CPU; 2 are free$/);
  assert.equal(await page.locator("#detail").textContent(), "Without CPU that they need: web");
  await until("units are drawn", () => isDrawn(page, "units"));
  assert.ok(await page.locator("#chart-requests").isHidden());
  await page.waitForTimeout(6_000);
  await picture(page, "desktop-light-agent");
  isContent(page);
});

test("a proxy shows its limit, what it would refuse, and what is behind it", async (t) => {
  const folder = mkdtempSync(`${tmpdir()}/seawall-page-`);
  t.after(() => rmSync(folder, { recursive: true }));
  const file = `${folder}/proxy.toml`;
  const replicas = [await service(t), await freePort()].map((port) => `"http://127.0.0.1:${port}"`);
  const configure = (mode) => writeFileSync(file, [
    `mode = "${mode}"`,
    "[upstreams.shop]",
    `replicas = [${replicas.join(", ")}]`,
    'slo = "200ms"',
    "[[routes]]",
    'name = "report"',
    'path = "/report"',
    "[[routes]]",
    'path = "/"',
  ].join("\n"));
  configure("observe");
  const proxy = await started(t, ["proxy", file, "--metrics=127.0.0.1:0"]);
  const requests = "--requests=shop:0.6:/,report:0.4:/report";
  loaded(t, `http://${proxy.address}`, [requests, "--rate=400", "--slo=200ms", "--sessions=200"]);
  const phone = { viewport: LARGE_PHONE, deviceScaleFactor: 2, isMobile: true };
  const looks = [
    ["desktop-light", {}],
    ["desktop-dark", { colorScheme: "dark" }],
    ["phone-light", phone],
    ["phone-dark", { ...phone, colorScheme: "dark" }],
  ];
  const pictures = async (name, check) => {
    for (const [look, options] of looks) {
      const page = await opened(t, proxy.metrics, options);
      await check(page);
      await page.waitForTimeout(6_000); // for the picture: some history
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${name}, ${look}: it is ${wide} pixels too wide`);
      await picture(page, `proxy-${name}-${look}`);
      isContent(page);
      await page.close();
    }
  };
  const heads = (page, table) => page.locator(`#table-${table} thead th:visible`).allTextContents();
  const shown = async (page) => (await page.locator(".tile:visible .name").allTextContents());
  await pictures("observe", async (page) => {
    await says(page, /would refuse \d.* at gate; p99 (≤|>).*, over the SLO of 200 ms; nothing refused/);
    assert.match(await page.locator("#status").getAttribute("data-level"), /^(busy|over)$/);
    assert.match(await valueOf(page, "Would refuse"), /^[1-9][\d.]* %$/);
    assert.match(await valueOf(page, "Limit"), /^\d+$/);
    const tiles = await shown(page);
    for (const name of ["Sessions", "Queueing delay", "Goodput", "In flight"]) {
      assert.ok(!tiles.includes(name), `${name} is none of a proxy's: ${tiles}`);
    }
    await until("the limit is drawn", () => isDrawn(page, "credits"));
    assert.equal(await page.locator("#chart-credits h2").textContent(), "In flight");
    assert.match(await page.locator("#chart-credits .legend").textContent(), /limit/);
    const unwell = page.locator('#table-replicas td[data-level="over"]', { hasText: "no" });
    await until("the dead replica is found out", async () => (await unwell.count()) === 1);
    assert.equal(await page.locator("#table-replicas tbody tr").count(), 2);
    const stages = await heads(page, "stages");
    assert.ok(stages.includes("Would refuse") && !stages.includes("Acquired"), `${stages}`);
  });
  configure("enforce");
  await pictures("enforce", async (page) => {
    await says(page, /^Refusing \d.* at gate; \d+\/s served; p99 (≤|>)/);
    const about = page.locator("#about");
    await until("it tells its new mode", async () => /, enforcing$/.test(await about.textContent()));
    assert.ok(!(await shown(page)).includes("Would refuse"));
    const stages = await heads(page, "stages");
    assert.ok(stages.includes("Refused") && !stages.includes("Would refuse"), `${stages}`);
    const [name, refused] = await Promise.all(["th", "td"].map((tag) => {
      const cell = page.locator(`#table-stages tbody ${tag}`).first();
      return cell.evaluate((node) => getComputedStyle(node).color);
    }));
    assert.notEqual(name, refused, "only what is bad stands out");
  });
});
