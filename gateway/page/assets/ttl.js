/* Edits one TTL: type it, see what it would do, confirm. Enter goes on, Escape gives up. */

import { h, say, show } from "./dom.js";
import { errorPart } from "./error.js";
import { post } from "./gateway.js";
import { bytes, count, plural, ttl } from "./format.js";

const rows = (number, size) => `${plural(number, "row")} (${bytes(size)})`;

const sentences = (change, guess) => {
  const out = [];
  if (guess.freedRows) out.push(`${rows(guess.freedRows, guess.freedBytes)} would expire at once.`);
  if (guess.revivedRows) out.push(`${rows(guess.revivedRows, guess.revivedBytes)} that have expired, and are still there, would be live again.`);
  if (!guess.freedRows && !guess.revivedRows) out.push("No row would expire at once.");
  out.push(`${rows(guess.liveRows, guess.liveBytes)} would stay live.`);
  if (!guess.never && guess.liveRows) out.push(`Of these, ${count(guess.dueInHour)} would expire within an hour and ${count(guess.dueInDay)} within a day, unless they are accessed.`);
  if (!change.awaited) out.push("That is what holds already.");
  return out;
};

/**
 * An editor for the TTL of a state. applied() is called when a TTL was asked for, done(focus) when the editor is to
 * go, with whether the focus goes back to where it came from. Gives { form, panel, focus }.
 */
export const ttlEditor = ({ path, state, now, applied, done }) => {
  const id = `ttl-${state.replace(/\W+/g, "-")}`;
  const field = h("input", { id, value: ttl(now), size: "8", autocomplete: "off", spellcheck: "false", "aria-label": `New TTL of ${state}`, "aria-describedby": `${id}-help` });
  const preview = h("button", { type: "submit" }, "Preview");
  const form = h("form", { class: "ttl-form" }, field, preview);
  const help = h("p", { id: `${id}-help`, class: "dim" }, "A number and a unit, such as 90 min, 12 h or 7 d; never for state that does not expire. Enter shows what it would do, Escape leaves it as it is.");
  const result = h("div", { role: "status", class: "what-if" });
  const problem = errorPart();
  const apply = h("button", { type: "button", class: "primary", hidden: true });
  const cancel = h("button", { type: "button", onclick: () => done(true) }, "Cancel");
  const panel = h("div", { class: "panel" }, help, problem.node, result, h("div", { class: "buttons" }, apply, cancel));
  let shown = null;
  let asked = 0;

  const failed = (error) => problem.update(error.facts ?? { text: `The gateway does not answer: ${error.message}` });
  const reset = () => {
    asked += 1;
    shown = null;
    show(apply, false);
    problem.update(null);
    result.replaceChildren();
  };
  field.addEventListener("input", reset);

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    reset();
    const mine = asked;
    const wanted = field.value.trim();
    try {
      const edit = await post(`${path}/ttl`, { state, ttl: wanted, dryRun: true });
      if (mine !== asked) return;
      const [change] = edit.changes;
      const head = h("p", {}, h("strong", {}, `${ttl(change.old)} \u2192 ${ttl(change.new)}`));
      const wait = h("p", { class: "dim" }, "Counting the rows it would free…");
      result.replaceChildren(head, wait);
      let facts = null;
      try {
        facts = await post(`${path}/what-if`, { state, ttl: wanted });
      } catch (error) {
        if (mine !== asked) return;
        if (!error.facts) throw error;
        wait.remove();
        result.append(h("p", {}, `What it would free cannot be counted: ${error.facts.text}`));
      }
      if (mine !== asked) return;
      if (facts) {
        wait.remove();
        const guess = facts.whatIf[0];
        const counted = facts.states.find((found) => found.selector === guess.selector);
        guess.liveBytes = Math.max(0, counted.liveBytes - guess.freedBytes + guess.revivedBytes);
        result.append(...sentences(change, guess).map((text) => h("p", {}, text)));
        result.append(h("p", { class: "dim" }, `Counted after micro-batch ${facts.batch}.`));
      }
      if (!edit.running) result.append(h("p", {}, "The job does not run. The next start applies the TTL."));
      shown = wanted;
      say(apply, `Set ${ttl(change.new)}`);
      show(apply, change.changed);
      if (change.changed && form.contains(document.activeElement)) apply.focus();
    } catch (error) {
      if (mine !== asked) return;
      failed(error);
      field.focus();
    }
  });

  apply.addEventListener("click", async () => {
    if (shown === null) return;
    apply.disabled = true;
    problem.update(null);
    try {
      await post(`${path}/ttl`, { state, ttl: shown });
      done(true);
      applied();
    } catch (error) {
      failed(error);
    }
    apply.disabled = false;
  });

  const escape = (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      done(true);
    }
  };
  form.addEventListener("keydown", escape);
  panel.addEventListener("keydown", escape);
  return { form, panel, focus: () => { field.focus(); field.select(); } };
};
