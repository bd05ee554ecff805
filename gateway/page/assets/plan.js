/* The plan of a job, drawn: rates and watermarks on its lines, state in front of its operators, one operator in detail. */

import { attribute, h, say, section, show } from "./dom.js";
import { get } from "./gateway.js";
import { errorPart } from "./error.js";
import { bytes, clock, count, rate, share, short } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

/** The states at an input of an operator: one each, or all of them where there is one input only. */
export const statesAt = (operator, states, input) => {
  if (operator.inputs.length === 1) return states;
  return states.length === operator.inputs.length ? states.filter((state) => state.index === input) : [];
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
    const svg = document.importNode(new DOMParser().parseFromString(found.svg, "image/svg+xml").documentElement, true);
    svg.setAttribute("class", "plan");
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-label", "Operators");
    frame.replaceChildren(svg);
    operators = new Map(found.operators.map((operator) => [operator.id, operator]));
    graph = planGraph(frame, found.operators, {
      covered: (bounds) => bounds.bottom,
      chosen,
      closed: () => show(details, false),
    });
    for (const pill of svg.querySelectorAll(".kept")) {
      pill.addEventListener("click", () => {
        const target = Number(pill.dataset.target);
        const operator = operators.get(target);
        const input = operator.inputs.indexOf(Number(pill.dataset.source));
        const first = statesAt(operator, states.of(target), input)[0];
        if (first?.editable) states.edit(first.key);
      });
    }
    for (const node of svg.querySelectorAll(".node")) {
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
    for (const text of graph.svg.querySelectorAll(".figure.rate")) {
      const found = job.lines?.[text.dataset.source];
      say(text, job.running && found?.rate !== null && found !== undefined ? `${rate(found.rate)}/s` : "");
    }
    for (const text of graph.svg.querySelectorAll(".figure.mark")) {
      const found = job.lines?.[text.dataset.source];
      say(text, found?.mark === null || found === undefined ? "" : `watermark ${clock(found.mark)}`);
    }
    for (const text of graph.svg.querySelectorAll(".figure.held")) {
      const operator = operators.get(Number(text.dataset.target));
      const here = statesAt(operator, states.of(operator.id), Number(text.dataset.input));
      const sizes = here.map((state) => state.size());
      const counted = sizes.length && sizes.every((size) => size.live !== null);
      const sum = (name) => sizes.reduce((all, size) => all + (size[name] ?? 0), 0);
      say(text, sizes.length ? `${short(sum(counted ? "live" : "stored"))} ${counted ? "live" : "stored"}, ${bytes(sum("bytes"))}` : "");
    }
    for (const [id, node] of graph.nodes) {
      const busy = node.querySelector(".busy");
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
    update: (found) => {
      job = found;
      show(part.node, Boolean(job.plan));
      if (job.plan && job.plan !== key && job.plan !== wanted) load(job.plan);
      live_();
    },
  };
};
