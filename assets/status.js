// The status page: asks /status every second, shows rates as differences, draws the last five minutes. What happened
// before the page was opened, it asks for once.
// The token, where one is wanted, is kept for this tab alone and sent as `Authorization: Bearer`.

const EVERY_MS = 1000;
const PATIENCE_MS = 4000;
const WINDOW_S = 300;
const LAST_MINUTE_S = 60;
const TOKEN_KEY = "namegate-admin-token";
/** From the ground up, as they are stacked in the plot. */
const SOURCES = ["filter", "cache", "policy", "database", "unverified"];
const MOODS = { following: "good", stale: "bad", distrusted: "bad", starting: "unsure", warming_up: "unsure", off: "unsure" };
const STATES = {
  following: "following the database",
  stale: "stale: every question goes to the database",
  distrusted: "distrusted: a new filter is being built",
  starting: "starting: the database does not answer yet",
  warming_up: "warming up",
  off: "filter switched off",
};

const $ = (id) => document.getElementById(id);
const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const precise = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** @type {{at: number, questions: object, saved: number, judged: number, lag: number | null}[]} */
let samples = [];
let token = remembered();
let lastUptime = 0;
let lastAnswer = null;
let wished = null;

$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  remember(token);
  look();
});
$("rebuild").addEventListener("click", rebuild);
live();

async function live() {
  for (;;) {
    await look();
    await new Promise((resume) => setTimeout(resume, EVERY_MS));
  }
}

async function look() {
  try {
    const reply = await ask("/status");
    if (reply.status === 401) return wantToken();
    if (!reply.ok) throw new Error(`status ${reply.status}`);
    const status = await reply.json();
    if (samples.length === 0) await lookBack(status.uptime_seconds);
    lastAnswer = new Date();
    say("");
    $("token-form").hidden = true;
    $("tiles").hidden = false;
    keep(status);
    show(status);
  } catch {
    const since = lastAnswer ? ` since ${lastAnswer.toLocaleTimeString()}` : "";
    say(`The service has not answered${since}. What is shown is old; it is asked again every second.`);
  }
}

async function lookBack(before) {
  const reply = await ask("/status/history");
  if (!reply.ok) return;
  samples = (await reply.json())
    .map(({ uptime_seconds, questions, queries_saved, lag_seconds }) => sample(uptime_seconds, questions, queries_saved, lag_seconds))
    .filter(({ at }) => at < before);
}

function sample(at, questions, saved, lag) {
  return { at, questions, saved, judged: judged(questions), lag };
}

/** Questions that the rules let through: without namegate, each would be a query. */
function judged(questions) {
  return questions.filter + questions.cache + questions.database + questions.unverified;
}

function ask(path, options = {}) {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  return fetch(path, { ...options, headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
}

function wantToken() {
  say(token ? "This token is not accepted." : "");
  $("tiles").hidden = true;
  if (!$("token-form").hidden) return; // somebody may be typing
  $("token-form").hidden = false;
  $("token").focus();
}

function keep(status) {
  if (status.uptime_seconds < lastUptime) samples = []; // another process, whose counters began anew
  lastUptime = status.uptime_seconds;
  const { uptime_seconds, questions, database, filter } = status;
  samples.push(sample(uptime_seconds, questions, database.queries_saved, filter?.lag_seconds ?? null));
  while (samples[0].at < status.uptime_seconds - WINDOW_S) samples.shift();
}

function show(status) {
  const { questions, database, false_positives: wrong, filter, feed, rebuild: build } = status;
  text("state", STATES[status.state] ?? status.state);
  $("state").dataset.mood = status.draining ? "unsure" : MOODS[status.state] ?? "unsure";
  text("facts", `${status.draining ? "stopping · " : ""}up ${span(status.uptime_seconds, true)} · version ${status.version}`);

  const recent = rates(since(5));
  text("rate", short.format(recent ? sum(recent) : 0));
  for (const source of SOURCES) {
    const [now, all] = document.querySelectorAll(`tr[data-source="${source}"] td`);
    set(now, short.format(recent?.[source] ?? 0));
    set(all, whole.format(questions[source]));
  }
  const [first, last] = [since(LAST_MINUTE_S), samples.at(-1)];
  text("saved-now", percent(last.saved - first.saved, last.judged - first.judged));
  text("saved-share", percent(database.queries_saved, judged(questions)));
  text("saved-count", whole.format(database.queries_saved));
  text("statements", whole.format(database.statements));
  text("failures", whole.format(database.failures));

  text("lag", filter ? span(filter.lag_seconds) : "–");
  text("bound", span(status.max_staleness_seconds));
  text("names", filter?.names == null ? "–" : whole.format(filter.names));
  text("capacity", filter ? whole.format(filter.capacity_names) : "–");
  $("names-meter").value = filter?.names == null ? 0 : filter.names / filter.capacity_names;
  text("fill", filter?.fill_ratio == null ? "–" : percent(filter.fill_ratio, 1));
  text("memory", filter ? bytes(filter.size_bytes) : "–");
  text("feed-rows", whole.format(feed.rows));

  text("fpr-live", chance(wrong.live));
  text("fpr-designed", chance(wrong.designed));
  const absent = wrong.count + questions.filter;
  text("fpr-measured", wrong.measured === null ? "–" : `${chance(wrong.measured)} (${whole.format(wrong.count)} of ${whole.format(absent)})`);

  showRebuild(build, filter, status.state);
  drawRates();
  drawLag(status.max_staleness_seconds);
}

function showRebuild(build, filter, state) {
  text("generation", filter ? String(filter.generation) : "–");
  text("rebuilt", build.last ? `built ${span(build.last.ended_seconds_ago, true)} ago in ${span(build.last.took_seconds)}` : "");
  const { running } = build;
  const bar = $("rebuild-bar");
  bar.classList.toggle("is-on", running !== null);
  if (running?.rows_total) bar.value = Math.min(running.rows_done / running.rows_total, 1);
  else if (running) bar.removeAttribute("value");
  if (running) text("rebuild-text", `Building generation ${running.generation}`);
  else if (build.state === "waiting") text("rebuild-text", "Waiting to begin");
  else if (wished !== null && build.last?.job === wished) text("rebuild-text", `Generation ${build.last.generation} is live: ${whole.format(build.last.rows)} rows`);
  else if (state === "off") text("rebuild-text", "There is no filter to rebuild");
  else if (wished === null) text("rebuild-text", "");
  const idle = build.state === "idle" && filter !== null;
  $("rebuild").setAttribute("aria-disabled", String(!idle));
}

async function rebuild() {
  if ($("rebuild").getAttribute("aria-disabled") === "true") return;
  try {
    const reply = await ask("/rebuild", { method: "POST" });
    const answer = await reply.json();
    if (reply.status === 202) wished = answer.job;
    else text("rebuild-text", answer.detail ?? `Refused: ${reply.status}`);
  } catch {
    text("rebuild-text", "The service did not answer.");
  }
  look();
}

/** Questions a second from `older` to now, by source; null when no time has passed. */
function rates(older, newer = samples.at(-1)) {
  const seconds = newer.at - older.at;
  if (seconds <= 0) return null;
  return Object.fromEntries(SOURCES.map((source) => [source, (newer.questions[source] - older.questions[source]) / seconds]));
}

/** The oldest sample that is at most so old. */
function since(seconds) {
  const oldest = samples.at(-1).at - seconds - 0.5;
  return samples.find((sample) => sample.at >= oldest);
}

function drawRates() {
  const points = samples.slice(1).map((sample, index) => [x(sample), rates(samples[index], sample)]).filter(([, rate]) => rate);
  const top = niceAbove(Math.max(1, ...points.map(([, rate]) => sum(rate))));
  set(document.querySelector("#rate-plot .top"), `${whole.format(top)}/s`);
  const height = (value) => (100 - (value / top) * 100).toFixed(2);
  let floor = points.map(() => 0);
  for (const source of SOURCES) {
    const ceiling = points.map(([, rate], index) => floor[index] + rate[source]);
    const above = points.map(([at], index) => `${at} ${height(ceiling[index])}`);
    const below = points.map(([at], index) => `${at} ${height(floor[index])}`).reverse();
    draw(`#rate-plot path[data-source="${source}"]`, above.length > 1 ? `M${[...above, ...below].join("L")}Z` : "");
    floor = ceiling;
  }
}

function drawLag(bound) {
  const top = bound * 1.25;
  set(document.querySelector("#lag-plot .top"), span(top));
  const height = (value) => (100 - (Math.min(value, top) / top) * 100).toFixed(2);
  draw("#lag-plot .bound", `M0 ${height(bound)}H300`);
  let path = "";
  let isDown = false;
  for (const sample of samples) {
    if (sample.lag !== null) path += `${isDown ? "L" : "M"}${x(sample)} ${height(sample.lag)}`;
    isDown = sample.lag !== null;
  }
  draw("#lag-plot .line", path);
}

function x(sample) {
  return (300 - ((samples.at(-1).at - sample.at) / WINDOW_S) * 300).toFixed(2);
}

function draw(selector, path) {
  document.querySelector(selector).setAttribute("d", path);
}

/** 1, 2 or 5 times a power of ten. */
function niceAbove(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((nice) => nice >= value);
}

function sum(rate) {
  return SOURCES.reduce((total, source) => total + rate[source], 0);
}

function percent(part, all) {
  return all > 0 ? `${short.format((100 * part) / all)} %` : "–";
}

function chance(rate) {
  if (rate === null) return "–";
  return rate > 0 && rate < 1e-6 ? "< 0.0001 %" : `${precise.format(rate * 100)} %`; // an almost empty filter has 1e-20
}

function span(seconds, isRough = false) {
  if (seconds < 1 && isRough) return "a moment";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${isRough ? Math.floor(seconds) : short.format(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} days`;
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB"];
  const unit = Math.min(Math.floor(Math.log2(Math.max(count, 1)) / 10), units.length - 1);
  return `${precise.format(count / 1024 ** unit)} ${units[unit]}`;
}

function text(id, words) {
  set($(id), words);
}

/** Leaves what is right already: a live region shall not repeat itself, a selection shall not be lost. */
function set(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

function say(words) {
  text("notice", words);
}

function remembered() {
  try {
    return sessionStorage.getItem(TOKEN_KEY) ?? "";
  } catch {
    return ""; // storage may be forbidden; then the token lasts as long as the page
  }
}

function remember(value) {
  try {
    sessionStorage.setItem(TOKEN_KEY, value);
  } catch {
    // as above
  }
}
