// The sign-up page: one checked field, a form that posts JSON, and a list of what each question cost.
// Without this file the same form is sent the plain way, and the server renders the answer into the page.

import { usernameField } from "/assets/username-field.js";

const SIGN_UP_PATIENCE_MS = 10_000;
const MOST_LISTED = 8;
const NOT_KNOWN = "It is not known whether the account was created. Check the name, then try again.";
/** Who knew, and what that took. */
const SOURCES = {
  filter: ["memory", "Not in the filter, so certainly free. No query."],
  cache: ["memory", "Found taken a moment ago, and remembered. No query."],
  database: ["database", "The filter could not rule it out, so the table was asked."],
  policy: ["rules", "Settled by the rules. No query."],
  nobody: ["nobody", "It could not be found out."],
};
const VERDICTS = { free: "free", taken: "taken", reserved: "reserved", invalid: "not allowed", unverified: "not known" };

const form = document.querySelector("#sign-up");
const input = document.querySelector("#username");
const button = form.querySelector("button[type=submit]");
const list = document.querySelector("#costs-list");
const offersSignUp = form.method === "post";
let isSending = false;
let asked = 0;
let askedInDatabase = 0;

const field = usernameField(input, {
  status: document.querySelector("#username-status"),
  suggestions: document.querySelector("#username-suggestions"),
  sentence: (state) => (state === "unverified" && !offersSignUp ? "Could not check this name. It is tried again in a moment." : undefined),
  onAnswer: record,
});
document.querySelector("#costs").hidden = false;

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (isSending) return;
  if (input.value.trim() === "") {
    field.show("invalid", "Type a name.");
    input.focus();
  } else if (offersSignUp) {
    signUp(input.value);
  } else {
    field.check();
  }
});

async function signUp(username) {
  setSending(true);
  try {
    const reply = await fetch("/users", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ username }),
      signal: AbortSignal.timeout(SIGN_UP_PATIENCE_MS),
    });
    show(reply, await reply.json());
  } catch {
    field.show("unverified", NOT_KNOWN);
  } finally {
    setSending(false);
  }
}

function show(reply, result) {
  if (reply.status === 201) {
    input.value = ""; // sent once more by accident, it would be taken: by this very account
    field.show("created", `Welcome, ${result.canonical}. The account was created.`);
    input.focus();
  } else if (result.available === false) {
    const choose = result.reason === "reserved" ? " Please choose another." : "";
    field.show(result.reason, `${result.detail}${choose}`);
    input.focus();
  } else {
    field.show("unverified", result.detail ?? NOT_KNOWN);
  }
}

/** Not `disabled`, which would take the focus away from whoever pressed the button with the keyboard. */
function setSending(is) {
  isSending = is;
  input.readOnly = is;
  button.setAttribute("aria-disabled", String(is));
}

function record(answer, reply) {
  const [who, explanation] = SOURCES[answer.source] ?? SOURCES.nobody;
  asked += 1;
  askedInDatabase += who === "database";
  const entry = document.createElement("li");
  entry.dataset.who = who;
  const how = element("p", "how", ` ${explanation}`);
  how.prepend(element("span", "who", `${[who, took(reply)].filter(Boolean).join(", ")}.`));
  entry.append(
    element("span", "name", answer.username),
    element("span", "verdict", VERDICTS[answer.reason] ?? answer.reason),
    how,
  );
  list.prepend(entry);
  while (list.children.length > MOST_LISTED) list.lastChild.remove();
  const inDatabase = askedInDatabase === 0 ? "none needed" : askedInDatabase === 1 ? "1 needed" : `${askedInDatabase} needed`;
  document.querySelector("#costs-summary").textContent =
    `${asked} ${asked === 1 ? "question" : "questions"}, ${inDatabase} the database.`;
}

/** What the service itself spent on the answer, from Server-Timing. */
function took(reply) {
  const [, milliseconds] = /dur=([0-9.]+)/.exec(reply.headers.get("server-timing") ?? "") ?? [];
  if (milliseconds === undefined) return "";
  return Number(milliseconds) < 1 ? `${Math.round(milliseconds * 1000)} µs` : `${Number(milliseconds).toFixed(1)} ms`;
}

function element(kind, className, textContent) {
  return Object.assign(document.createElement(kind), { className, textContent });
}
