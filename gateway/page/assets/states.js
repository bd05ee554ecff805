/* The states of a job: TTL, live and expired rows, bytes, age; a TTL is edited where it stands. */

import { h, keyed, row, say, section, show, table } from "./dom.js";
import { now, post } from "./gateway.js";
import { errorPart } from "./error.js";
import { ttlEditor } from "./ttl.js";
import { bytes, count, plural, short, span, ttl, unit } from "./format.js";

const COLUMNS = ["State", "TTL", "Live rows", "Expired rows", "Oldest row", "Due in 1 h", "Bytes", "Stored rows", "Removed", "Needed"];

/** A state as other parts of the page need it. */
class State {
  constructor(operator, index) {
    this.operator = operator;
    this.index = index;
    this.key = `${operator.id}.${index}`;
    this.data = operator.state[index];
  }

  get name() {
    return this.data.selector ?? `${this.operator.name}.${this.data.name}`;
  }

  get ttl() {
    if (this.data.ttl === undefined) return "none";
    return ttl(this.data.ttl) + (this.data.asked ? ` \u2192 ${ttl(this.data.asked.ttl)}` : "");
  }

  /** The first micro-batch with the current TTL. */
  get since() {
    return Math.max(0, ...(this.data.settings ?? []).map((setting) => setting.since));
  }

  /** What Spark has counted of the rows; null if it has not, or with another TTL. */
  get counted() {
    return this.outdated ? null : this.report?.states?.[this.key] ?? null;
  }

  get outdated() {
    return this.report?.states !== undefined && this.since > this.report.batch;
  }

  /** How old the oldest row was when it was counted. */
  get oldest() {
    return this.counted && this.counted.oldestMillis !== null ? this.report.nowMillis - this.counted.oldestMillis : null;
  }

  /** How long ago the rows were counted. */
  get ago() {
    return Math.max(1000, now() - this.report.at);
  }

  /** Two short lines for a card: the rows, and their size and age. */
  lines() {
    const size = bytes(this.data.bytes);
    if (this.counted === null) return [this.data.storedRows === null ? "" : `${short(this.data.storedRows)} stored`, size];
    return [`${short(this.counted.liveRows)} live ${unit(this.ago)} ago`, this.oldest === null ? size : `${size}, oldest ${unit(this.oldest)}`];
  }

  figures() {
    if (this.counted === null) return this.data.storedRows === null ? "" : `${plural(this.data.storedRows, "stored row")}, ${bytes(this.data.bytes)}`;
    const oldest = this.oldest === null ? "" : `oldest ${span(this.oldest)}, `;
    return `${count(this.counted.liveRows)} live, ${count(this.counted.expiredRows)} expired, ${bytes(this.data.bytes)}; ${oldest}counted ${unit(this.ago)} ago`;
  }
}

const stateRow = (path, applied) => (first) => {
  const { node: main, cells } = row(COLUMNS);
  const [name, lifetime, live, expired, oldest, due, size, stored, removed, needed] = cells;
  const under = h("td", { role: "cell", colspan: String(COLUMNS.length) });
  const below = h("tr", { role: "row", class: "editor", hidden: true }, under);
  const node = h("tbody", { role: "rowgroup" }, main, below);
  const label = h("span", {});
  const origin = h("span", { class: "dim origin" });
  const text = h("span", {});
  const button = h("button", { type: "button", class: "ttl", "aria-expanded": "false", onclick: () => edit() });
  let state = first;
  let editor = null;
  name.append(label, origin);
  lifetime.append(text, button);

  const done = (focus) => {
    editor = null;
    show(below, false);
    show(button, true);
    button.setAttribute("aria-expanded", "false");
    lifetime.querySelector("form")?.remove();
    under.replaceChildren();
    if (focus) button.focus();
  };
  const edit = () => {
    if (!state.editable) return;
    if (!editor) {
      editor = ttlEditor({
        path, state: state.name, now: state.data.asked?.ttl ?? state.data.ttl, done, applied,
      });
      show(button, false);
      button.setAttribute("aria-expanded", "true");
      lifetime.append(editor.form);
      under.replaceChildren(editor.panel);
      show(below, true);
    }
    main.scrollIntoView({ block: "nearest" });
    editor.focus();
  };

  return {
    node,
    edit,
    update: (found) => {
      state = found;
      const { data, counted } = state;
      say(label, state.name);
      say(origin, data.ttl !== undefined && data.planTtl !== data.ttl ? `plan ${ttl(data.planTtl)}` : "");
      say(button, state.ttl);
      button.setAttribute("aria-label", `TTL of ${state.name}: ${state.ttl}. Edit`);
      say(text, state.editable ? "" : state.ttl);
      if (!editor) show(button, state.editable);
      say(live, counted ? count(counted.liveRows) : "");
      say(expired, counted ? count(counted.expiredRows) : "");
      say(size, bytes(data.bytes));
      say(oldest, state.oldest === null ? "" : span(state.oldest));
      say(due, counted ? count(counted.dueInHour) : "");
      say(stored, data.storedRows === null ? "" : `${count(data.storedRows)}${data.partial ? "+" : ""}`);
      say(removed, count(state.operator.totals[`expired_rows.${state.index}`] || 0));
      const lost = state.operator.totals[`needed_rows.${state.index}`];
      say(needed, lost === undefined ? "" : count(lost));
    },
  };
};

export const statesPart = (path, changed) => {
  const found = table("States", COLUMNS);
  const when = h("p", { class: "dim", role: "status" });
  const problem = errorPart();
  const recount = async () => {
    try {
      await post(`${path}/inspection`);
      changed();
    } catch (error) {
      if (error.facts) problem.update(error.facts);
    }
  };
  const again = h("button", { type: "button", onclick: recount }, "Count now");
  const note = h("p", { class: "dim" }, "Spark counts live and expired rows, and their age, in the checkpoint. Bytes and stored rows are of the last micro-batch; they include older versions and deletion marks. Removed rows had expired. Needed: of these, as far as an audit follows them, those that later rows needed.");
  const part = section("States", problem.node, found, when, note);
  part.heading.after(again);
  show(part.node, false);
  const rows = keyed(found, (state) => state.key, stateRow(path, () => { edited = true; changed(); }));
  let parts = new Map();
  let states = [];
  let report = null;
  let edited = false;

  const tick = () => {
    if (!report) return;
    const counted = report.batch === undefined ? "" : `Counted after micro-batch ${report.batch}, ${span(Math.max(1000, now() - report.at))} ago, in ${span(report.took)}`;
    const outdated = states.some((state) => state.outdated) ? " A TTL has changed since: the rows of its state are not yet counted again." : "";
    const clocks = report.clock === "replay clock" ? "; ages are by the last instant played" : "";
    say(when, [counted && `${counted}${clocks}.${outdated}`, report.busy ? "Counting…" : ""].filter(Boolean).join(" "));
  };

  return {
    node: part.node,
    tick,
    of: (id) => states.filter((state) => state.operator.id === id),
    edit: (key) => parts.get(key)?.edit(),
    update: (job) => {
      report = job.inspection ?? null;
      states = (job.operators ?? []).flatMap((operator) => (operator.state ?? []).map((_, index) => new State(operator, index)));
      for (const state of states) {
        state.report = report;
        state.editable = Boolean(job.editable) && state.data.ttl !== undefined;
      }
      parts = rows(states);
      show(part.node, states.length > 0);
      show(again, Boolean(job.editable));
      again.disabled = Boolean(report?.busy);
      problem.update(report?.error ?? null);
      /* A count before the first micro-batch with the new TTL would be outdated when it ends. */
      if (edited && !report?.busy && states.some((state) => state.outdated && state.since <= (job.batch?.batch ?? -1))) {
        edited = false;
        recount();
      }
      tick();
    },
  };
};
