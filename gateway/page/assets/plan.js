/* The plan of a job, drawn: state in the operators that keep it, rates and watermarks below them, one operator in detail. */

import { attribute, h, say, section, show } from "./dom.js";
import { get } from "./gateway.js";
import { errorPart } from "./error.js";
import { clock, count, rate, share } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

/** The points of a curve through numbers, in an area "x y width height"; nothing of fewer than two numbers. */
const curve = (numbers, area) => {
  const [x, y, width, height] = area.split(" ").map(Number);
  const top = Math.max(...numbers, 1);
  if (numbers.length < 2) return "";
  return numbers.map((number, at) => `${(x + (at * width) / (numbers.length - 1)).toFixed(1)},${(y + height - (number * height) / top).toFixed(1)}`).join(" ");
};

export const planPart = (path, states) => {
  const frame = h("div", { class: "graph frame", role: "group", "aria-label": "Plan: arrow keys move, Enter shows details, plus and minus zoom" });
  const title = h("h3", { id: "details-title" });
  const body = h("div", {});
  const live = h("dl", {});
  const kept = h("div", { class: "kept-states" });
  const close = h("button", { type: "button", onclick: () => graph.close() }, "Close");
  const details = h("aside", { "aria-labelledby": "details-title", hidden: true }, h("div", { class: "bar" }, title, close), body, live, kept);
  const problem = errorPart();
  const button = (text, label, act) => h("button", { type: "button", "aria-label": label, onclick: () => graph && act() }, text);
  const zoom = h("span", { class: "zoom", role: "group", "aria-label": "Zoom" },
    button("\u2212", "Zoom out", () => graph.out()), button("+", "Zoom in", () => graph.in()), button("Fit", "Fit the plan", () => graph.fit()));
  const area = h("div", { class: "plan-area" }, frame, details);
  const part = section("Plan", problem.node, area);
  part.heading.after(zoom);
  show(part.node, false);
  let graph = null;
  let operators = new Map();
  let key = null;
  let wanted = null;
  let drawn = null;
  let job = null;

  const drawDetails = () => {
    const operator = operators.get(graph.chosen());
    if (!operator) return;
    const now = job.operators?.find((other) => other.id === operator.id);
    const facts = now ? [
      ["rows in/s", now.kind === "source" || now.inputs.length < 2 ? rate(now.rowsInPerSecond) : now.inputs.map(rate).join(" and ")],
      ["rows out/s", now.kind === "sink" ? "" : rate(now.rowsOutPerSecond)],
      ["busy", share(now.busy)],
      ["watermark", now.watermark === null ? "" : clock(now.watermark)],
      ["late rows", count(now.totals.late_rows || null)],
      ["cache hits", share(now.cacheHitRatio)],
    ].filter(([, text]) => text) : [];
    live.replaceChildren(...facts.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]));
    const mine = states.of(operator.id);
    const signature = mine.map((state) => `${state.key} ${state.ttl} ${state.figures()}`).join("\n");
    if (kept.dataset.of !== signature) {
      const had = kept.contains(document.activeElement) ? [...kept.querySelectorAll("button")].indexOf(document.activeElement) : -1;
      kept.dataset.of = signature;
      kept.replaceChildren(...mine.map((state) => h("div", {},
        h("strong", {}, state.name), " ",
        state.editable ? h("button", { type: "button", class: "ttl", onclick: () => states.edit(state.key) }, `TTL ${state.ttl}`) : `TTL ${state.ttl}`,
        h("div", { class: "dim" }, state.figures()))));
      if (had >= 0) kept.querySelectorAll("button")[had]?.focus();
    }
  };

  const chosen = (operator) => {
    say(title, `${operator.name} [${operator.id}]`);
    const { list, add } = graph.facts(operator);
    if (operator.noTtl) add("state", operator.noTtl);
    body.replaceChildren(list);
    kept.dataset.of = "";
    kept.replaceChildren();
    show(details, true);
    drawDetails();
  };

  const draw = (found) => {
    const had = graph && { chosen: graph.chosen(), inside: frame.contains(document.activeElement) ? Number(document.activeElement.dataset.id) : null, left: frame.scrollLeft, top: frame.scrollTop, width: graph.svg.getAttribute("width"), size: graph.size.width };
    const read = (text) => document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
    const svg = drawingFor(frame, read(found.svg.across), read(found.svg.down));
    svg.classList.add("drawn");
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-label", "Operators");
    frame.replaceChildren(svg);
    drawn = { found, width: frame.clientWidth };
    operators = new Map(found.operators.map((operator) => [operator.id, operator]));
    graph = planGraph(frame, found.operators, {
      covered: (bounds) => bounds.bottom,
      chosen,
      closed: () => show(details, false),
    });
    for (const pill of svg.querySelectorAll(".kept")) {
      pill.addEventListener("click", () => {
        const state = states.of(Number(pill.dataset.id)).find((other) => other.index === Number(pill.dataset.index));
        if (state?.editable) states.edit(state.key);
      });
    }
    for (const node of svg.querySelectorAll(".node:not(.chip)")) {
      const box = node.querySelector(".box");
      const busy = document.createElementNS(SVG, "rect");
      for (const name of ["x", "width"]) busy.setAttribute(name, box.getAttribute(name));
      busy.setAttribute("y", Number(box.getAttribute("y")) + Number(box.getAttribute("height")) - 4);
      busy.setAttribute("height", 4);
      busy.setAttribute("rx", 2);
      busy.setAttribute("class", "busy");
      busy.dataset.width = box.getAttribute("width");
      node.insertBefore(busy, box.nextSibling);
    }
    if (!had) graph.open();
    else {
      graph.focus(operators.has(had.inside) ? had.inside : found.operators[0].id, operators.has(had.inside));
      graph.zoom(Number(had.width) / had.size);
      if (operators.has(had.chosen)) graph.choose(had.chosen);
      else show(details, false);
      frame.scrollTo(had.left, had.top);
    }
    live_();
  };

  const live_ = () => {
    if (!graph || !job) return;
    for (const text of graph.svg.querySelectorAll(".figure.flow")) {
      const id = Number(text.dataset.id);
      const out = job.lines?.[id];
      const sink = job.operators?.find((other) => other.id === id && other.kind === "sink");
      const flow = sink ? sink.rowsInPerSecond : out?.rate;
      const parts = [job.running && flow !== null && flow !== undefined ? `${rate(flow)}/s` : "", out?.mark === null || out === undefined ? "" : `at ${clock(out.mark)}`];
      say(text, parts.filter(Boolean).join(", "));
    }
    for (const text of graph.svg.querySelectorAll(".figure.rows, .figure.size, .curve")) {
      const state = states.of(Number(text.dataset.id)).find((other) => other.index === Number(text.dataset.index));
      if (text.classList.contains("curve")) attribute(text, "points", curve(job.curves?.[`${text.dataset.id}.${text.dataset.index}`] ?? [], text.dataset.area));
      else say(text, state?.lines()[text.classList.contains("rows") ? 0 : 1] ?? "");
    }
    for (const [id, node] of graph.nodes) {
      const busy = node.querySelector(".busy");
      if (!busy) continue;
      const part = job.running ? job.operators?.find((other) => other.id === id)?.busy ?? 0 : 0;
      attribute(busy, "width", Math.round(Math.min(1, part) * Number(busy.dataset.width)));
      busy.classList.toggle("high", part > 0.8);
    }
    if (graph.chosen() !== null) drawDetails();
  };

  frame.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !graph) return;
    if (event.key === "+") graph.in();
    else if (event.key === "-") graph.out();
    else if (event.key === "0") graph.fit();
  });
  area.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && graph) graph.close();
  });

  /* Another width may have room for the other drawing. */
  new ResizeObserver(() => {
    if (drawn && Math.abs(frame.clientWidth - drawn.width) > 40) draw(drawn.found);
  }).observe(frame);

  const load = async (next) => {
    wanted = next;
    try {
      const found = await get(`${path}/plan`);
      if (wanted !== next) return;
      key = found.key ?? next;
      problem.update(null);
      if (found.svg) draw(found);
    } catch (error) {
      if (error.facts) problem.update(error.facts);
      wanted = null;
    }
  };

  return {
    node: part.node,
    tick: () => live_(),
    update: (found) => {
      job = found;
      show(part.node, Boolean(job.plan));
      if (job.plan && job.plan !== key && job.plan !== wanted) load(job.plan);
      live_();
    },
  };
};
