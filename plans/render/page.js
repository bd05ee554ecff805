"use strict";
(() => {
  const operators = JSON.parse(document.getElementById("plan-data").textContent);
  const byId = new Map(operators.map((operator) => [operator.id, operator]));
  const graph = document.getElementById("graph");
  const svg = graph.querySelector("svg");
  const nodes = new Map([...svg.querySelectorAll(".node")].map((node) => [Number(node.dataset.id), node]));
  const edges = [...svg.querySelectorAll(".edge")];
  const labels = [...svg.querySelectorAll(".kept")];
  const rows = [...document.querySelectorAll(".states tbody tr")];
  const details = document.getElementById("details");
  const search = document.getElementById("search");
  const found = document.getElementById("found");
  const size = { width: svg.viewBox.baseVal.width, height: svg.viewBox.baseVal.height };
  const readers = new Map(operators.map((operator) => [operator.id, []]));
  for (const operator of operators) for (const source of operator.inputs) readers.get(source).push(operator.id);
  let focused = null;
  let chosen = null;
  let matches = [];
  let scale = 1;

  const middle = (id) => {
    const box = nodes.get(id).querySelector(".box");
    const value = (name) => Number(box.getAttribute(name));
    return { x: value("x") + value("width") / 2, y: value("y") + value("height") / 2, top: value("y") };
  };

  const show = (id) => {
    const at = middle(id);
    const origin = svg.getBoundingClientRect();
    const frame = graph.getBoundingClientRect();
    const covered = details.hidden ? frame.bottom : Math.max(details.getBoundingClientRect().top, frame.top + 80);
    const height = Math.min(frame.bottom, innerWidth < 900 ? covered : frame.bottom) - frame.top;
    const x = origin.left - frame.left + at.x * scale;
    const y = origin.top - frame.top + at.y * scale;
    const edge = 60;
    if (x < edge || x > frame.width - edge) graph.scrollLeft += x - frame.width / 2;
    if (y < edge || y > height - edge) graph.scrollTop += y - height / 2;
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
    const frame = { x: graph.scrollLeft + graph.clientWidth / 2, y: graph.scrollTop + graph.clientHeight / 2 };
    const old = scale;
    scale = Math.min(Math.max(to, 0.05), 3);
    svg.setAttribute("width", size.width * scale);
    svg.setAttribute("height", size.height * scale);
    graph.scrollLeft = (frame.x * scale) / old - graph.clientWidth / 2;
    graph.scrollTop = (frame.y * scale) / old - graph.clientHeight / 2;
  };
  const fit = () => zoom(Math.min(graph.clientWidth / size.width, graph.clientHeight / size.height, 1));

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

  const choose = (id) => {
    const operator = byId.get(id);
    if (chosen !== null) nodes.get(chosen).classList.remove("chosen");
    chosen = id;
    nodes.get(id).classList.add("chosen");
    for (const edge of edges) edge.classList.toggle("chosen", Number(edge.dataset.source) === id || Number(edge.dataset.target) === id);
    for (const row of rows) row.classList.toggle("chosen", Number(row.dataset.id) === id);
    const list = element("dl");
    const add = (name, ...values) => {
      if (!values.length) return;
      const dd = element("dd");
      dd.append(...values);
      list.append(element("dt", name), dd);
    };
    const lines = (texts) => texts.map((text) => element("div", text));
    add("does", operator.summary);
    add("type", operator.type);
    add("uid", operator.uid);
    add("inputs", ...operator.inputs.map(link));
    add("read by", ...readers.get(id).map(link));
    add("keys", ...lines(operator.keys));
    if (operator.changes) add(operator.name === "sink" ? "gets" : "emits", operator.changes);
    for (const state of operator.states) add(state.name, ...lines([state.ttl, state.source, ...state.more]));
    if (operator.noTtl) add("state", operator.noTtl);
    document.getElementById("details-title").textContent = `${operator.name} [${id}]`;
    document.getElementById("details-body").replaceChildren(list);
    details.hidden = false;
    document.body.classList.add("open");
    details.scrollTop = 0;
  };

  const close = () => {
    if (chosen === null) return;
    const id = chosen;
    nodes.get(id).classList.remove("chosen");
    for (const edge of edges) edge.classList.remove("chosen");
    for (const row of rows) row.classList.remove("chosen");
    chosen = null;
    details.hidden = true;
    document.body.classList.remove("open");
    focus(id);
  };

  const nearest = (ids, from) => {
    const x = middle(from).x;
    return ids.length ? ids.reduce((best, id) => (Math.abs(middle(id).x - x) < Math.abs(middle(best).x - x) ? id : best)) : null;
  };
  const beside = (id, step) => {
    const at = middle(id);
    const layer = [...nodes.keys()].filter((other) => Math.abs(middle(other).top - at.top) < 0.5).sort((a, b) => middle(a).x - middle(b).x);
    return layer[layer.indexOf(id) + step] ?? null;
  };
  const steps = {
    ArrowUp: (id) => nearest(byId.get(id).inputs, id),
    ArrowDown: (id) => nearest(readers.get(id), id),
    ArrowLeft: (id) => beside(id, -1),
    ArrowRight: (id) => beside(id, 1),
    Home: () => operators[0].id,
    End: () => operators[operators.length - 1].id,
  };

  for (const [id, node] of nodes) {
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
  for (const row of rows) {
    row.querySelector("button").addEventListener("click", () => { const id = Number(row.dataset.id); choose(id); focus(id); });
  }

  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    matches = words.length ? operators.filter((operator) => words.every((word) => operator.text.includes(word))).map((operator) => operator.id) : [];
    const hits = new Set(matches);
    svg.classList.toggle("searching", words.length > 0);
    for (const [id, node] of nodes) node.classList.toggle("match", hits.has(id));
    for (const label of labels) label.classList.toggle("match", hits.has(Number(label.dataset.target)));
    for (const row of rows) row.hidden = words.length > 0 && !hits.has(Number(row.dataset.id));
    found.textContent = words.length ? `${matches.length} of ${operators.length} operators` : "";
  };
  search.addEventListener("input", apply);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && matches.length) {
      event.preventDefault();
      const next = (matches.indexOf(chosen) + (event.shiftKey ? matches.length - 1 : 1)) % matches.length;
      choose(matches[next]);
      focus(matches[next], false);
      show(matches[next]);
      found.textContent = `${next + 1} of ${matches.length}`;
    } else if (event.key === "Escape" && search.value) {
      event.stopPropagation();
      search.value = "";
      apply();
    }
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") close();
    else if (event.target === search) return;
    else if (event.key === "/") { event.preventDefault(); search.focus(); search.select(); }
    else if (event.key === "+") zoom(scale * 1.25);
    else if (event.key === "-") zoom(scale / 1.25);
    else if (event.key === "0") fit();
  });
  document.getElementById("close").addEventListener("click", close);
  document.getElementById("in").addEventListener("click", () => zoom(scale * 1.25));
  document.getElementById("out").addEventListener("click", () => zoom(scale / 1.25));
  document.getElementById("fit").addEventListener("click", fit);

  document.querySelector(".tools").hidden = false;
  for (const node of nodes.values()) node.setAttribute("tabindex", "-1");
  focus(operators[0].id, false);
  if (size.width * 0.6 > graph.clientWidth) zoom(0.6);
  show(operators[0].id);
})();
