// The sign-up page: one checked field, a form that posts JSON, and a log of what each question cost.

import { usernameField } from "/assets/username-field.js";

const form = document.querySelector("#sign-up");
const input = document.querySelector("#username");
const button = form.querySelector("button");
const log = document.querySelector("#log");
const SOURCES = { filter: "memory", cache: "memory (asked a moment ago)", database: "the database", policy: "the rules" };
const costs = { asked: 0, database: 0 };

const field = usernameField(input, { status: document.querySelector("#username-status"), onAnswer: record });

function record(answer) {
  costs.asked += 1;
  if (answer.source === "database") costs.database += 1;
  const row = document.createElement("tr");
  for (const text of [answer.username, answer.reason, SOURCES[answer.source] ?? "nobody"]) {
    row.append(Object.assign(document.createElement("td"), { textContent: text }));
  }
  log.prepend(row);
  while (log.children.length > 8) log.lastChild.remove();
  document.querySelector("#log-section").hidden = false;
  document.querySelector("#log-summary").textContent =
    `${costs.asked} asked, ${costs.asked - costs.database} without the database.`;
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  field.stop();
  button.disabled = true;
  try {
    const reply = await fetch("/users", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ username: input.value }),
    });
    const result = await reply.json();
    if (reply.status === 201) field.show("free", `Welcome, ${result.canonical}. The account was created.`);
    else if (reply.status === 404) field.show("unverified", "This service only checks names; it offers no sign-up.");
    else if (result.available === false) field.show(result.reason, result.detail);
    else field.show("unverified", result.detail ?? "It is not known whether the account was created.");
  } catch {
    field.show("unverified", "The service cannot be reached. Please try again.");
  } finally {
    button.disabled = false;
    field.resume();
  }
});
