/* The last micro-batches: plots, the phases of the last one, and a table of the newest. */

import { h, keyed, row, say, section, show, table } from "./dom.js";
import { chart } from "./chart.js";
import { bytes, count, instant, short, took } from "./format.js";

const COLUMNS = ["Micro-batch", "Started", "Took", "Rows in", "Rows out", "Stored rows", "State"];
const NEWEST = 20;
const PHASES = {
  latestOffset: "look for input", getBatch: "get input", queryPlanning: "plan", walCommit: "note the start",
  addBatch: "run", commitOffsets: "commit", commitBatch: "commit",
};

const batchRow = () => {
  const { node, cells } = row(COLUMNS);
  return {
    node,
    update: (batch) => cells.forEach((cell, place) => say(cell, batch.cells[place])),
  };
};

export const batchesPart = () => {
  const charts = [];
  const marked = (place) => { for (const each of charts) each.mark(place); };
  const add = (options) => charts.push(chart({ ...options, marked }));
  add({ title: "Duration", words: took, lines: [{ name: "", of: (history) => history.ms }] });
  add({ title: "Rows per micro-batch", words: short, lines: [{ name: "in", of: (history) => history.rowsIn }, { name: "out", of: (history) => history.rowsOut }] });
  add({ title: "Stored state", words: bytes, binary: true, lines: [{ name: "", of: (history) => history.bytes }] });
  add({ title: "Stored rows", words: short, lines: [{ name: "", of: (history) => history.storedRows }] });
  const phases = h("p", { class: "dim" });
  const body = h("tbody", { role: "rowgroup" });
  const found = table("The newest micro-batches", COLUMNS);
  found.append(body);
  const rows = keyed(body, (batch) => batch.number, batchRow);
  const list = h("details", {}, h("summary", {}, "The newest micro-batches as a table"), found);
  const part = section("Micro-batches", h("div", { class: "charts" }, ...charts.map((each) => each.node)), phases, list);
  let history = null;

  const draw = () => {
    if (!list.open || !history) return;
    const places = history.batch.map((_, place) => place).slice(-NEWEST).reverse();
    rows(places.map((at) => ({
      number: history.batch[at],
      cells: [
        String(history.batch[at]), instant(history.started[at]), took(history.ms[at]), count(history.rowsIn[at]),
        count(history.rowsOut[at]), count(history.storedRows[at]), bytes(history.bytes[at]),
      ],
    })));
  };
  list.addEventListener("toggle", draw);

  return {
    node: part.node,
    update: (job) => {
      history = job.history ?? null;
      show(part.node, Boolean(history?.batch.length));
      if (!history?.batch.length) return;
      for (const each of charts) each.update(history);
      const spent = Object.entries(job.batch?.phases ?? {}).filter(([name, ms]) => name in PHASES && ms >= 1).sort((a, b) => b[1] - a[1]);
      say(phases, spent.length ? `Where the time of a micro-batch goes: ${spent.map(([name, ms]) => `${PHASES[name]} ${took(ms)}`).join(", ")}.` : "");
      draw();
    },
  };
};
