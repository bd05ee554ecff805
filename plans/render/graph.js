"use strict";
/* From which scale on texts of the drawing can be read: they are 12 pixels high. */
const READABLE = 11.1 / 12;

/* Of the drawings of one plan, from the left to the right and from the top to the bottom, the one that a frame has room
   for: the first one where it can be read as a whole, else the one that needs less scrolling. */
const drawingFor = (frame, across, down) => {
  const room = (svg) => frame.clientWidth / svg.viewBox.baseVal.width;
  return room(across) >= READABLE || room(across) >= room(down) ? across : down;
};

/* The graph of a plan to look around in: zoom, focus by arrow keys, one operator chosen. The page around it says what
   is shown of that one.

   frame: the element that scrolls, with the SVG inside. operators: as graph_data in html.py gives them.
   on: chosen(operator), closed(), and covered(frame): from which y on the frame is covered by something. */
const planGraph = (frame, operators, on) => {
  const svg = frame.querySelector("svg");
  const byId = new Map(operators.map((operator) => [operator.id, operator]));
  const nodes = new Map([...svg.querySelectorAll(".node")].map((node) => [Number(node.dataset.id), node]));
  const edges = [...svg.querySelectorAll(".edge")];
  const across = svg.dataset.way === "across";
  const size = { width: svg.viewBox.baseVal.width, height: svg.viewBox.baseVal.height };
  const readers = new Map(operators.map((operator) => [operator.id, []]));
  for (const operator of operators) for (const source of operator.inputs) readers.get(source).push(operator.id);
  let focused = null;
  let chosen = null;
  let scale = 1;

  const middle = (id) => {
    const box = nodes.get(id).querySelector(".box");
    const value = (name) => Number(box.getAttribute(name));
    return { x: value("x") + value("width") / 2, y: value("y") + value("height") / 2, top: value("y"), left: value("x") };
  };

  const show = (id) => {
    const at = middle(id);
    const origin = svg.getBoundingClientRect();
    const bounds = frame.getBoundingClientRect();
    const height = on.covered(bounds) - bounds.top;
    const x = origin.left - bounds.left + at.x * scale;
    const y = origin.top - bounds.top + at.y * scale;
    const edge = 60;
    if (x < edge || x > bounds.width - edge) frame.scrollLeft += x - bounds.width / 2;
    if (y < edge || y > height - edge) frame.scrollTop += y - height / 2;
  };

  const focus = (id, move = true) => {
    if (focused !== null) nodes.get(focused).setAttribute("tabindex", "-1");
    focused = id;
    const node = nodes.get(id);
    node.setAttribute("tabindex", "0");
    if (move) {
      node.focus({ preventScroll: true });
      show(id);
    }
  };

  const zoom = (to) => {
    const centre = { x: frame.scrollLeft + frame.clientWidth / 2, y: frame.scrollTop + frame.clientHeight / 2 };
    const old = scale;
    scale = Math.min(Math.max(to, 0.05), 3);
    svg.setAttribute("width", size.width * scale);
    svg.setAttribute("height", size.height * scale);
    frame.scrollLeft = (centre.x * scale) / old - frame.clientWidth / 2;
    frame.scrollTop = (centre.y * scale) / old - frame.clientHeight / 2;
  };
  /* As much of the graph as can still be read, with the sources in sight. */
  const open = () => {
    zoom(Math.max(READABLE, Math.min(frame.clientWidth / size.width, 1)));
    focus(operators[0].id, false);
    show(operators[0].id);
  };
  const fit = () => zoom(Math.min(frame.clientWidth / size.width, frame.clientHeight / size.height, 1));

  const mark = (id) => {
    if (chosen !== null) nodes.get(chosen).classList.remove("chosen");
    chosen = id;
    if (id !== null) nodes.get(id).classList.add("chosen");
    for (const edge of edges) {
      edge.classList.toggle("chosen", id !== null && [edge.dataset.source, edge.dataset.target].includes(String(id)));
    }
  };
  const choose = (id) => {
    mark(id);
    on.chosen(byId.get(id));
  };
  const close = () => {
    if (chosen === null) return;
    const id = chosen;
    mark(null);
    on.closed();
    focus(id);
  };

  const lane = (id) => (across ? middle(id).y : middle(id).x);
  const nearest = (ids, from) => {
    const own = lane(from);
    return ids.length ? ids.reduce((best, id) => (Math.abs(lane(id) - own) < Math.abs(lane(best) - own) ? id : best)) : null;
  };
  const beside = (id, step) => {
    const depth = (other) => (across ? middle(other).left : middle(other).top);
    const layer = [...nodes.keys()].filter((other) => Math.abs(depth(other) - depth(id)) < 0.5).sort((a, b) => lane(a) - lane(b));
    return layer[layer.indexOf(id) + step] ?? null;
  };
  const before = (id) => nearest(byId.get(id).inputs, id);
  const after = (id) => nearest(readers.get(id), id);
  const steps = {
    [across ? "ArrowLeft" : "ArrowUp"]: before,
    [across ? "ArrowRight" : "ArrowDown"]: after,
    [across ? "ArrowUp" : "ArrowLeft"]: (id) => beside(id, -1),
    [across ? "ArrowDown" : "ArrowRight"]: (id) => beside(id, 1),
    Home: () => operators[0].id,
    End: () => operators[operators.length - 1].id,
  };

  for (const [id, node] of nodes) {
    node.setAttribute("tabindex", "-1");
    node.addEventListener("click", () => { choose(id); focus(id); });
    node.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Enter" || event.key === " ") { choose(id); show(id); }
      else if (event.key in steps) {
        const next = steps[event.key](id);
        if (next !== null) {
          if (chosen !== null) choose(next);
          focus(next);
        }
      } else return;
      event.preventDefault();
    });
  }

  const element = (name, text) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const link = (id) => {
    const button = element("button", `${byId.get(id).name} [${id}]`);
    button.type = "button";
    button.addEventListener("click", () => { choose(id); focus(id); });
    return button;
  };

  /* What the plan says of an operator, but for its states: a list to which more can be added. */
  const facts = (operator) => {
    const list = element("dl");
    const add = (name, ...values) => {
      if (!values.length) return;
      const dd = element("dd");
      dd.append(...values);
      list.append(element("dt", name), dd);
    };
    add("does", operator.summary);
    add("type", operator.type);
    add("uid", operator.uid);
    add("inputs", ...operator.inputs.map(link));
    add("read by", ...readers.get(operator.id).map(link));
    add("keys", ...operator.keys.map((text) => element("div", text)));
    if (operator.changes) add(operator.name === "sink" ? "gets" : "emits", operator.changes);
    return { list, add };
  };

  return { svg, size, nodes, choose, close, focus, show, zoom, fit, open, facts, in: () => zoom(scale * 1.25), out: () => zoom(scale / 1.25), chosen: () => chosen };
};
