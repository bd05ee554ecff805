/* The list of jobs. */

import { h, keyed, row, say, show, table } from "./dom.js";
import { now } from "./gateway.js";
import { bytes, changeText, plural, rate, share, span, took } from "./format.js";

const COLUMNS = ["Job", "Status", "Duration", "Rows in/s", "Rows out/s", "State", "Last micro-batch", "Load"];
const STATUSES = ["RUNNING", "RESTARTING", "FINISHED", "FAILED", "CANCELED"];

export const statusName = (status) => status[0] + status.slice(1).toLowerCase();

export const duration = (job) => (job.started ? span((job.ended ?? now()) - job.started) : "");

const jobRow = () => {
  const { node, cells } = row(COLUMNS);
  const link = h("a", { class: "name" });
  const id = h("span", { class: "dim id" });
  const badge = h("span", {});
  const [name, status, lasted, rowsIn, rowsOut, state, batch, load] = cells;
  name.append(link, id);
  status.append(badge);
  let job = null;
  const tick = () => say(lasted, duration(job));
  return {
    node,
    tick,
    update: (found) => {
      job = found;
      link.href = `#/jobs/${job.id}`;
      say(link, job.name);
      link.title = job.statement;
      say(id, job.id);
      badge.className = `status ${job.status}`;
      say(badge, job.change ? "Changing" : statusName(job.status));
      badge.title = job.error?.text ?? (job.change ? changeText(job.change) : "");
      const running = job.status === "RUNNING";
      say(rowsIn, running ? rate(job.rowsIn) : "");
      say(rowsOut, running ? rate(job.rowsOut) : "");
      say(state, bytes(job.stateBytes));
      say(batch, job.batch ? `#${job.batch.batch} took ${took(job.batch.ms)}` : "");
      say(load, running ? share(job.load) : "");
      tick();
    },
  };
};

export const listView = () => {
  const found = table("Jobs", COLUMNS);
  const body = h("tbody", { role: "rowgroup" });
  const rows = keyed(body, (job) => job.id, jobRow);
  const empty = h("p", { class: "note" });
  const search = h("input", { type: "search", id: "filter", autocomplete: "off", spellcheck: "false", placeholder: "name, id or SQL" });
  const buttons = new Map();
  const group = h("div", { class: "filters", role: "group", "aria-label": "Status" });
  let jobs = null;
  let parts = new Map();
  let wanted = sessionStorage.getItem("stateplan-status");

  const draw = () => {
    const counts = new Map();
    for (const job of jobs) counts.set(job.status, (counts.get(job.status) ?? 0) + 1);
    for (const [status, button] of buttons) {
      const number = status === null ? jobs.length : counts.get(status) ?? 0;
      say(button, `${status === null ? "All" : statusName(status)} ${number}`);
      button.setAttribute("aria-pressed", String(status === wanted));
      show(button, status === null || status === wanted || number > 0);
    }
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = jobs.filter((job) => {
      const text = `${job.name} ${job.id} ${job.statement}`.toLowerCase();
      return (wanted === null || job.status === wanted) && words.every((word) => text.includes(word));
    });
    parts = rows(shown);
    show(found, shown.length > 0);
    show(empty, shown.length === 0);
    say(empty, jobs.length ? "No job fits the filter." : "No job has been started yet. An INSERT or EXECUTE PLAN starts one.");
  };

  const choose = (status) => {
    wanted = status;
    if (status === null) sessionStorage.removeItem("stateplan-status");
    else sessionStorage.setItem("stateplan-status", status);
    if (jobs) draw();
  };
  for (const status of [null, ...STATUSES]) {
    const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => choose(status) });
    buttons.set(status, button);
    group.append(button);
  }
  search.addEventListener("input", () => jobs && draw());
  found.append(body);
  const tools = h("div", { class: "tools" }, group, h("label", { for: "filter" }, "Find"), search);
  return {
    node: h("div", { class: "page" }, h("h1", {}, "Jobs"), tools, found, empty),
    title: () => (jobs ? `${plural(jobs.filter((job) => job.status === "RUNNING").length, "running job")} - stateplan` : "Jobs - stateplan"),
    tick: () => { for (const part of parts.values()) part.tick(); },
    update: (data) => {
      jobs = data.jobs;
      draw();
    },
  };
};
