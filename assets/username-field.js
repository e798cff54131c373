// Turns any <input> into a field that says, while a person types, whether the name is free.
//
//   import { usernameField } from "/assets/username-field.js";
//   const field = usernameField(document.querySelector("#username"));
//
//            ┌───────────── the text changes ─────────────┐
//            ▼                                            │
//   empty  typing ──300 ms──▶ asked ──▶ free · taken · reserved · invalid · own
//                               │ slow: checking      ▲
//                               └──▶ unverified ──────┘ asked again after Retry-After
//
// What holds, whatever the network does:
//   - Only `available === true` in a 200 answer that repeats the text in the field means free.
//   - A newer text silences every older answer; an aborted question is not an error.
//   - Once its form is submitted the field is silent, until the text changes: a late "taken" would speak of one's own
//     new account. Nothing here ever keeps a form from being submitted; the sign-up has the last word.
//
// No dependency, no markup needed, no style set: see docs/sign-up-form.md.

const DEBOUNCE_MS = 300;
const PATIENCE_MS = 5000;
// An answer from memory takes a millisecond or two. Saying "checking" before each of them would only flicker.
const SLOW_MS = 250;
const MOST_RETRIES = 5;
const RETRY_UNTOLD_S = 5;
const LONGEST_RETRY_S = 60;
const REFUSED = ["taken", "reserved", "invalid"];
const AS_TYPED = { autocapitalize: "none", autocomplete: "username", autocorrect: "off", spellcheck: "false" };

let fields = 0;

/**
 * @param {HTMLInputElement} input
 * @param {object} [options]
 * @param {string} [options.url] where to ask; another origin must list this page's in its CORS origins
 * @param {HTMLElement} [options.status] gets the sentence and `data-state`; made behind the input where it is missing
 * @param {HTMLElement} [options.suggestions] gets buttons with free names; made behind the status where it is missing
 * @param {string} [options.own] the name that the account has already, in canonical form: it is not called taken
 * @param {number} [options.suggest] how many names to suggest for a taken one, 0 to 10
 * @param {(state: string, answer: object) => string | undefined} [options.sentence] other words, another language
 * @param {(answer: object, reply: Response) => void} [options.onAnswer] each answer, as the service gave it
 * @returns {{show: Function, check: Function, stop: Function, destroy: Function}}
 */
export function usernameField(input, options = {}) {
  const { url = "/username/available", own = null, suggest = 3, sentence = () => undefined, onAnswer = () => {} } = options;
  const status = options.status ?? placeBehind(input.closest("label") ?? input, "p");
  const suggestions = options.suggestions ?? placeBehind(status, "div");
  const life = new AbortController();
  let timer = 0;
  let request = null;
  let retries = 0;

  describe(input, status, suggestions);
  const listen = (target, kind, heard) => target?.addEventListener(kind, heard, { signal: life.signal });
  listen(input, "input", (event) => event.isComposing || changed());
  listen(input, "compositionend", changed);
  listen(input.form, "submit", stop);
  listen(window, "pageshow", (event) => event.persisted && changed()); // back from a page that was left by submitting
  // Filled in by the browser, and not judged by the server that made the page.
  if (input.value !== "" && (status.dataset.state ?? "empty") === "empty") changed();

  function changed() {
    cancel();
    retries = 0;
    if (input.value.trim() === "") return show("empty", "");
    show("typing", "");
    timer = setTimeout(ask, DEBOUNCE_MS);
  }

  async function ask() {
    const asked = input.value;
    const mine = new AbortController();
    const isCurrent = () => request === mine && input.value === asked;
    request = mine;
    const overdue = setTimeout(() => mine.abort(), PATIENCE_MS);
    const slow = setTimeout(() => retries === 0 && show("checking", words("checking", {})), SLOW_MS);
    let reply = null;
    let answer = null;
    try {
      const query = `username=${encodeURIComponent(asked)}` + (suggest > 0 ? `&suggest=${suggest}` : "");
      const headers = { accept: "application/json" };
      reply = await fetch(`${url}${url.includes("?") ? "&" : "?"}${query}`, { signal: mine.signal, headers });
      answer = await reply.json();
    } catch {
      // Silenced by a newer text, overdue, unreachable, or no JSON. Whether anybody still wants to know is asked below.
    } finally {
      clearTimeout(overdue);
      clearTimeout(slow);
    }
    if (!isCurrent()) return;
    request = null;
    if (reply?.status === 200 && answer?.username === asked && typeof answer.available === "boolean") {
      retries = 0;
      const state = verdict(answer);
      show(state, words(state, answer), state === "taken" ? answer.suggestions : []);
      onAnswer(answer, reply);
    } else {
      couldNotCheck(answer ?? {}, reply);
    }
  }

  function verdict(answer) {
    if (own !== null && answer.canonical === own) return "own";
    if (answer.available) return "free";
    return REFUSED.includes(answer.reason) ? answer.reason : "invalid";
  }

  function couldNotCheck(answer, reply) {
    const isLimited = reply?.status === 429;
    show("unverified", words("unverified", { ...answer, reason: isLimited ? "rate_limited" : "unverified" }));
    if (reply) onAnswer({ username: input.value, source: null, ...answer, available: null, reason: "unverified" }, reply);
    if (retries === MOST_RETRIES) return;
    const wait = Math.max(secondsToWait(reply), 2 ** retries);
    retries += 1;
    timer = setTimeout(ask, wait * 1000);
  }

  /** Says something in place of an answer, until the text changes. */
  function show(state, text, names = []) {
    if (status.dataset.state !== state) status.dataset.state = state;
    if (status.textContent !== text) status.textContent = text;
    if (REFUSED.includes(state)) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
    if (names.length > 0 || suggestions.hasChildNodes()) suggestions.replaceChildren(...names.map(suggestion));
  }

  function words(state, answer) {
    return sentence(state, answer) ?? english(state, answer);
  }

  function suggestion(name) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: name });
    button.addEventListener("click", () => {
      input.focus(); // before the button goes: the keyboard must not be left nowhere
      type(input, name);
      check();
    });
    return button;
  }

  function cancel() {
    clearTimeout(timer);
    request?.abort();
    request = null;
  }

  /** Asks now. */
  function check() {
    changed();
    if (input.value.trim() === "") return;
    clearTimeout(timer);
    ask();
  }

  /** Falls silent until the text changes: what is asked is not waited for. */
  function stop() {
    cancel();
    if (status.dataset.state === "checking") show("typing", "");
  }

  /** Takes everything away that was added. */
  function destroy() {
    life.abort();
    stop();
    show("empty", "");
    describedBy(input, (ids) => ids.filter((id) => id !== status.id));
    if (!options.suggestions) suggestions.remove();
    if (!options.status) status.remove();
  }

  return { show, check, stop, destroy };
}

function english(state, answer) {
  switch (state) {
    case "free":
      return answer.canonical && answer.canonical !== answer.username.trim()
        ? `Free. It will be written ${answer.canonical}.`
        : "This name is free.";
    case "own":
      return "This is your name already.";
    case "taken":
      return answer.suggestions?.length ? "Taken. These are free:" : "This name is taken.";
    case "reserved":
      return `${answer.detail?.message ?? "This name is reserved."} Please choose another.`;
    case "invalid":
      return answer.detail?.message ?? "This name is not allowed.";
    case "checking":
      return "Checking…";
    default:
      return answer.reason === "rate_limited"
        ? "Too many checks just now; this one is made again in a moment. You can still submit."
        : "Could not check this name. You can still submit.";
  }
}

/** Retry-After: seconds or a date; another origin may hide it. */
function secondsToWait(reply) {
  const told = reply?.headers.get("retry-after");
  const seconds = told === null || told === undefined ? NaN : Number(told);
  const wait = Number.isNaN(seconds) ? (Date.parse(told) - Date.now()) / 1000 : seconds;
  return Math.min(Number.isNaN(wait) ? RETRY_UNTOLD_S : Math.max(wait, 0), LONGEST_RETRY_S);
}

/** As if typed, for frameworks too that replace the property `value`. */
function type(input, text) {
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(input, text);
  input.dispatchEvent(new Event("input", { bubbles: true }));
}

function placeBehind(element, kind) {
  const placed = document.createElement(kind);
  element.after(placed);
  return placed;
}

function describe(input, status, suggestions) {
  fields += 1;
  status.id ||= `username-status-${fields}`;
  status.setAttribute("role", "status");
  suggestions.setAttribute("role", "group");
  suggestions.setAttribute("aria-label", "Free names");
  describedBy(input, (ids) => (ids.includes(status.id) ? ids : [...ids, status.id]));
  // Phones write a capital first and mend what they take for a slip.
  for (const [name, value] of Object.entries(AS_TYPED)) if (!input.hasAttribute(name)) input.setAttribute(name, value);
}

function describedBy(input, change) {
  const ids = (input.getAttribute("aria-describedby") ?? "").split(/\s+/).filter(Boolean);
  input.setAttribute("aria-describedby", change(ids).join(" "));
}
