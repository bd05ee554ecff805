/* The states of a job: TTL, live and expired rows, bytes, age; a TTL is edited where it stands. */

import { h, keyed, row, say, section, show, table } from "./dom.js";
import { now, post } from "./gateway.js";
import { errorPart } from "./error.js";
import { ttlEditor } from "./ttl.js";
import { bytes, count, plural, span, ttl } from "./format.js";

const COLUMNS = ["State", "TTL", "Live rows", "Expired rows", "Oldest access", "Due in 1 h", "Bytes", "Stored rows", "Removed"];

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

  size() {
    return { live: this.counted?.liveRows ?? null, stored: this.data.storedRows, bytes: this.data.bytes };
  }

  /** Whether the TTL has changed since the rows were counted. */
  get outdated() {
    return this.counted !== null && this.report !== null && (this.data.settings ?? []).some((setting) => setting.since > this.report.batch);
  }

  /** How old the oldest row is, and the figures are. */
  age() {
    if (this.counted === null || !this.report) return "";
    const oldest = this.counted.oldestMillis === null ? "" : `oldest ${span(this.report.nowMillis - this.counted.oldestMillis)}, `;
    return `${oldest}counted ${span(Math.max(1000, now() - this.report.at)).split(" ").slice(0, 2).join(" ")} ago`;
  }

  figures() {
    const { live, stored, bytes: size } = this.size();
    if (live === null) return stored === null ? "" : `${plural(stored, "stored row")}, ${bytes(size)}`;
    return `${count(live)} live, ${count(this.counted.expiredRows)} expired, ${bytes(size)}; ${this.age()}`;
  }
}

const stateRow = (path, changed, recount) => (first) => {
  const { node: main, cells } = row(COLUMNS);
  const [name, lifetime, live, expired, oldest, due, size, stored, removed] = cells;
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
        path, state: state.name, now: state.data.asked?.ttl ?? state.data.ttl, done,
        applied: () => { changed(); recount(); },
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
      const now_ = state.report?.nowMillis;
      say(label, state.name);
      say(origin, data.ttl !== undefined && data.planTtl !== data.ttl ? `plan ${ttl(data.planTtl)}` : "");
      say(button, state.ttl);
      button.setAttribute("aria-label", `TTL of ${state.name}: ${state.ttl}. Edit`);
      say(text, state.editable ? "" : state.ttl);
      if (!editor) show(button, state.editable);
      say(live, counted ? count(counted.liveRows) : "");
      say(expired, counted ? count(counted.expiredRows) : "");
      for (const cell of [live, expired, oldest, due]) cell.classList.toggle("dim", state.outdated);
      say(size, bytes(data.bytes));
      say(oldest, counted && counted.oldestMillis !== null ? `${span(now_ - counted.oldestMillis)} ago` : "");
      say(due, counted ? count(counted.dueInHour) : "");
      say(stored, data.storedRows === null ? "" : `${count(data.storedRows)}${data.partial ? "+" : ""}`);
      say(removed, count(state.operator.totals[`expired_rows.${state.index}`] || 0));
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
  const note = h("p", { class: "dim" }, "Spark counts live and expired rows, and their age, in the checkpoint. Bytes and stored rows are of the last micro-batch; they include older versions and deletion marks. Removed rows had expired.");
  const part = section("States", problem.node, found, when, note);
  part.heading.after(again);
  show(part.node, false);
  const rows = keyed(found, (state) => state.key, stateRow(path, changed, recount));
  let parts = new Map();
  let states = [];
  let report = null;

  const tick = () => {
    if (!report) return;
    const counted = report.batch === undefined ? "" : `Counted after micro-batch ${report.batch}, ${span(now() - report.at)} ago, in ${span(report.took)}`;
    const outdated = states.some((state) => state.outdated) ? " A TTL has changed since." : "";
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
        state.counted = report?.states?.[state.key] ?? null;
        state.editable = Boolean(job.editable) && state.data.ttl !== undefined;
      }
      parts = rows(states);
      show(part.node, states.length > 0);
      show(again, Boolean(job.editable));
      again.disabled = Boolean(report?.busy);
      problem.update(report?.error ?? null);
      tick();
    },
  };
};
