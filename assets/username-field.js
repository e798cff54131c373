// Turns any <input> into a field that asks, while a person types, whether the name is free.
//
//   import { usernameField } from "/assets/username-field.js";
//   const field = usernameField(document.querySelector("#username"), {
//     status: document.querySelector("#username-status"),  // gets the sentence, and data-state
//     url: "/username/available",
//     onAnswer(answer) { ... },                             // each answer as the service gave it
//   });
//   form.addEventListener("submit", () => field.stop());    // a late answer must not speak of one's own new account
//
// Only `available === true` means free. An error, a timeout or an answer to another question never does.

const DEBOUNCE_MS = 300;
const TIMEOUT_MS = 5000;

export function usernameField(input, { status, url = "/username/available", onAnswer = () => {} }) {
  let timer = 0;
  let request = null;
  let stopped = false;

  function show(state, sentence) {
    status.dataset.state = state;
    status.textContent = sentence;
    const refused = state === "taken" || state === "reserved" || state === "invalid";
    if (refused) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  }

  function cancel() {
    clearTimeout(timer);
    request?.abort();
    request = null;
  }

  function changed() {
    if (stopped) return;
    cancel();
    if (input.value.trim() === "") return show("empty", "");
    show("checking", "Checking");
    timer = setTimeout(ask, DEBOUNCE_MS);
  }

  async function ask() {
    const asked = input.value;
    const mine = new AbortController();
    request = mine;
    const deadline = setTimeout(() => mine.abort("deadline"), TIMEOUT_MS);
    try {
      const reply = await fetch(`${url}?username=${encodeURIComponent(asked)}`, {
        signal: mine.signal,
        headers: { accept: "application/json" },
      });
      const answer = await reply.json();
      if (stopped || request !== mine) return;
      if (answer.username !== asked) return couldNotCheck(reply); // not an answer to this question
      if (answer.available === true) show("free", "This name is free.");
      else if (answer.available === false) show(answer.reason, sentence(answer));
      else couldNotCheck(reply);
      onAnswer(answer);
    } catch {
      // Aborted by a newer keystroke: that one speaks. Anything else: nobody knows.
      if (!stopped && request === mine) couldNotCheck(null);
    } finally {
      clearTimeout(deadline);
      if (request === mine) request = null;
    }
  }

  function couldNotCheck(reply) {
    show("unverified", "Could not check this name. You can still submit.");
    const seconds = Number(reply?.headers.get("retry-after"));
    if (seconds > 0) timer = setTimeout(ask, seconds * 1000);
  }

  function stop() {
    stopped = true;
    cancel();
  }

  function resume() {
    stopped = false;
  }

  input.addEventListener("input", changed);
  if (input.value !== "") changed(); // the browser may have filled the field in
  return { stop, resume, show, check: changed };
}

function sentence(answer) {
  if (answer.reason === "taken") return "This name is taken.";
  if (answer.reason === "reserved") return "This name is kept back. Please choose another.";
  return answer.detail?.message ?? "This name is not allowed.";
}
