/* Sources, operators with state and sinks: where the rows and the time go. */

import { h, keyed, row, say, section, show, table } from "./dom.js";
import { clock, count, rate, share } from "./format.js";

const COLUMNS = ["Operator", "Rows in/s", "Rows out/s", "Busy", "Watermark", "Late rows", "Cache hits"];

const operatorRow = () => {
  const { node, cells } = row(COLUMNS);
  const [name, rowsIn, rowsOut, busy, mark, late, cache] = cells;
  const bar = h("meter", { min: "0", max: "1", high: "0.8", "aria-hidden": "true" });
  const text = h("span", {});
  busy.append(bar, text);
  return {
    node,
    update: ({ operator, running }) => {
      say(name, `${operator.name} [${operator.id}]`);
      say(rowsIn, running ? rate(operator.rowsInPerSecond) : "");
      say(rowsOut, running && operator.kind !== "sink" ? rate(operator.rowsOutPerSecond) : "");
      bar.value = operator.busy;
      show(bar, running);
      say(text, running ? share(operator.busy) : "");
      say(mark, operator.watermark === null ? "" : clock(operator.watermark));
      say(late, count(operator.totals.late_rows || null));
      say(cache, share(operator.cacheHitRatio));
    },
  };
};

export const operatorsPart = () => {
  const found = table("Operators", COLUMNS);
  const body = h("tbody", { role: "rowgroup" });
  found.append(body);
  const rows = keyed(body, (item) => item.operator.id, operatorRow);
  const note = h("p", { class: "dim" }, "Busy is the share of the time of all tasks. Filters and projections count with the operator in front of them.");
  const part = section("Back pressure", found, note);
  return {
    node: part.node,
    update: (job) => {
      const items = (job.operators ?? []).map((operator) => ({ operator, running: job.running }));
      rows(items);
      show(part.node, items.length > 0);
    },
  };
};
