/* One job: what it does now, its plan, its states, its micro-batches, and what was changed. */

import { h, say, show } from "./dom.js";
import { post } from "./gateway.js";
import { duration, statusName } from "./list.js";
import { now } from "./gateway.js";
import { batchesPart } from "./batches.js";
import { changesPart } from "./changes.js";
import { errorPart } from "./error.js";
import { lostPart } from "./lost.js";
import { operatorsPart } from "./operators.js";
import { planPart } from "./plan.js";
import { statesPart } from "./states.js";
import { bytes, changeText, clock, instant, plural, rate, share, span, took } from "./format.js";

const TILES = ["Rows in/s", "Rows out/s", "Last micro-batch", "Load", "Input done", "To come", "Stored state", "Event time"];
const HINTS = {
  Load: "Share of the last ten seconds in which a micro-batch was in hand. Near 100 %, the job only just keeps up with its input, or does not.",
  "Input done": "Share of the bounded input that the job has dealt with, and how long the rest takes if it goes on like this.",
  "To come": "Micro-batches that the input is still good for. It is known for replay tables.",
  "Stored state": "Bytes of all rows in state, with older versions and expired rows that no merge has removed yet.",
  "Event time": "The lowest watermark of all operators.",
};

const stopDialog = (path, changed) => {
  const problem = errorPart();
  const stop = h("button", { type: "submit", class: "danger" }, "Stop job");
  const keep = h("button", { type: "button", onclick: () => dialog.close() }, "Keep it running");
  const text = h("p", {}, "The job ends after the micro-batch in hand. Its checkpoint stays, and the job can go on from it.");
  const save = h("input", { type: "checkbox" });
  const choice = h("label", { class: "choice" }, save, " Write a savepoint, for other jobs to start from");
  const form = h("form", { method: "dialog" }, h("h2", { id: "stop-title" }, "Stop this job?"), text, choice, problem.node, h("div", { class: "buttons" }, stop, keep));
  const dialog = h("dialog", { "aria-labelledby": "stop-title" }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    stop.disabled = true;
    say(stop, "Stopping…");
    problem.update(null);
    try {
      await post(`${path}/stop`, { savepoint: save.checked });
      dialog.close();
      changed();
    } catch (error) {
      problem.update(error.facts ?? { text: `The gateway does not answer: ${error.message}` });
    }
    stop.disabled = false;
    say(stop, "Stop job");
  });
  return { node: dialog, open: () => { problem.update(null); save.checked = false; dialog.showModal(); keep.focus(); } };
};

const tiles = () => {
  const values = new Map();
  const list = h("dl", { class: "tiles" });
  for (const name of TILES) {
    const value = h("dd", {});
    values.set(name, value);
    list.append(h("div", { title: HINTS[name] ?? null }, h("dt", {}, name), value));
  }
  const set = (name, text) => {
    const value = values.get(name);
    say(value, text);
    show(value.parentElement, text !== "");
  };
  return { node: list, set };
};

export const jobView = (path, changed) => {
  const name = h("h1", {}, "Job");
  const badge = h("span", { class: "status" });
  const facts = h("p", { class: "dim facts" });
  const hand = h("p", { class: "dim" });
  const saved = h("p", { hidden: true });
  const changing = h("p", { class: "note", role: "status", hidden: true });
  const successor = h("a", {});
  const replaced = h("p", { hidden: true }, "Another plan continues with its state: job ", successor, h("span", {}));
  const dialog = stopDialog(path, changed);
  const stop = h("button", { type: "button", class: "danger", hidden: true, onclick: dialog.open }, "Stop job");
  const failure = errorPart();
  const problem = errorPart();
  const figures = tiles();
  const states = statesPart(path, changed);
  const plan = planPart(path, states);
  const lost = lostPart();
  const batches = batchesPart();
  const operators = operatorsPart();
  const changes = changesPart(path);
  const head = h("div", { class: "jobhead" }, h("div", {}, h("p", { class: "crumb" }, h("a", { href: "#/" }, "All jobs")), name), h("div", { class: "buttons" }, badge, stop));
  const parts = [plan, states, lost, batches, operators, changes];
  let job = null;

  const tick = () => {
    if (job === null) return;
    const times = job.ended === null ? `started ${instant(job.started)}, runs for ${duration(job)}` : `started ${instant(job.started)}, ended after ${duration(job)}`;
    say(facts, `${job.id}, ${job.started ? times : statusName(job.status).toLowerCase()}`);
    const inHand = job.running && job.batchInHand !== null && job.batchInHand !== undefined;
    say(hand, inHand ? `Micro-batch ${job.batchInHand} runs for ${span(now() - job.batchInHandSince)}.` : "");
    states.tick();
    plan.tick();
  };

  return {
    node: h("div", { class: "page" }, head, facts, changing, replaced, saved, failure.node, problem.node, figures.node, hand, ...parts.map((part) => part.node), dialog.node),
    title: () => (job ? `${job.name} - stateplan` : "Job - stateplan"),
    tick,
    update: (found) => {
      job = found;
      say(name, job.name);
      name.title = job.name;
      name.classList.toggle("long", job.name.length > 60);
      badge.className = `status ${job.status}`;
      say(badge, statusName(job.status));
      show(stop, job.status === "RUNNING");
      show(saved, Boolean(job.savepoint));
      say(saved, job.savepoint ? `Stopped with the savepoint ${job.savepoint}` : "");
      show(changing, Boolean(job.change));
      say(changing, job.change ? `Its plan changes: ${changeText(job.change)}` : "");
      show(replaced, Boolean(job.successor));
      if (job.successor) {
        successor.href = `#/jobs/${job.successor.id}`;
        say(successor, job.successor.id);
        say(replaced.lastChild, `, with the checkpoint ${job.successor.checkpoint}`);
      }
      failure.update(job.error);
      problem.update(job.problem);
      const running = job.status === "RUNNING";
      const marks = (job.operators ?? []).map((operator) => operator.watermark).filter((mark) => mark !== null);
      figures.set("Rows in/s", running ? rate(job.rowsIn) : "");
      figures.set("Rows out/s", running ? rate(job.rowsOut) : "");
      figures.set("Last micro-batch", job.batch ? `#${job.batch.batch} took ${took(job.batch.ms)}` : running ? "none yet" : "none");
      figures.set("Load", running && job.batch ? share(job.load) : "");
      figures.set("Input done", job.outlook ? share(job.outlook.share) + (job.outlook.secondsLeft === null ? "" : `, about ${span(1000 * job.outlook.secondsLeft)} left`) : "");
      figures.set("To come", job.backlog === null || job.backlog === undefined ? "" : plural(job.backlog, "micro-batch", "micro-batches"));
      figures.set("Stored state", job.stateBytes === undefined ? "" : bytes(job.stateBytes));
      figures.set("Event time", marks.length ? clock(Math.min(...marks)) : "");
      for (const part of parts) part.update(job);
    },
  };
};
