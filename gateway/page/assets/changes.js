/* What was changed while the job ran: TTLs with who and when, and the plan now against the plan as submitted. */

import { h, keyed, row, say, section, show, table } from "./dom.js";
import { get } from "./gateway.js";
import { errorPart } from "./error.js";
import { instant, ttl } from "./format.js";

const COLUMNS = ["When", "State", "TTL", "Who", "Holds"];

const entryRow = () => {
  const { node, cells } = row(COLUMNS);
  return { node, update: (entry) => cells.forEach((cell, place) => say(cell, entry.cells[place])) };
};

/** The requests for TTLs, the newest first. */
const entries = (operators) => {
  const out = [];
  for (const operator of operators) {
    (operator.state ?? []).forEach((state, index) => {
      const name = state.selector ?? `${operator.name}.${state.name}`;
      let before = null;
      for (const setting of state.settings ?? []) {
        const what = before === null ? ttl(setting.ttl) : `${ttl(before)} \u2192 ${ttl(setting.ttl)}`;
        if (before !== null || setting.by === "live") {
          const who = setting.by === "plan" ? "the plan" : setting.who || "not noted";
          out.push({ key: `${operator.id}.${index} ${setting.at} ${setting.since}`, at: setting.at, cells: [instant(setting.at), name, what, who, `since micro-batch ${setting.since}`] });
        }
        before = setting.ttl;
      }
      if (state.asked) {
        const { ttl: wanted, who, at } = state.asked;
        out.push({ key: `${operator.id}.${index} asked`, at, cells: [instant(at), name, `${ttl(state.ttl)} \u2192 ${ttl(wanted)}`, who || "not noted", "from the next micro-batch on"] });
      }
    });
  }
  return out.sort((a, b) => b.at - a.at);
};

export const changesPart = (path) => {
  const found = table("Changes of TTLs", COLUMNS);
  const body = h("tbody", { role: "rowgroup" });
  found.append(body);
  const rows = keyed(body, (entry) => entry.key, entryRow);
  const none = h("p", { class: "dim" }, "No TTL has been changed while the job ran.");
  const says = h("p", {});
  const text = h("pre", {});
  const problem = errorPart();
  const diff = h("details", {}, h("summary", {}, "The plan now against the plan as submitted"), problem.node, says, text);
  const sql = h("pre", {});
  const statement = h("details", {}, h("summary", {}, "The statement"), sql);
  const part = section("Changes", found, none, diff, statement);
  let key = null;
  let drawn = null;

  const load = async () => {
    if (!diff.open || drawn === key) return;
    drawn = key;
    try {
      const compared = await get(`${path}/diff`);
      problem.update(null);
      say(says, compared.says ? `${compared.says[0].toUpperCase()}${compared.says.slice(1)}.` : "The job has no plan.");
      say(text, compared.text ?? "");
    } catch (error) {
      drawn = null;
      if (error.facts) problem.update(error.facts);
    }
  };
  diff.addEventListener("toggle", load);
  statement.addEventListener("toggle", async () => {
    if (!statement.open || sql.textContent) return;
    const plan = await get(`${path}/plan`).catch(() => null);
    if (plan) say(sql, plan.statement);
  });

  return {
    node: part.node,
    update: (job) => {
      const list = entries(job.operators ?? []);
      rows(list);
      show(found, list.length > 0);
      show(none, list.length === 0);
      show(diff, Boolean(job.plan));
      if (job.plan !== key) {
        key = job.plan;
        load();
      }
    },
  };
};
