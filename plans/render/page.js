"use strict";
(() => {
  const operators = JSON.parse(document.getElementById("plan-data").textContent);
  const frame = document.getElementById("graph");
  const drawn = drawingFor(frame, ...["across", "down"].map((way) => frame.querySelector(`svg[data-way="${way}"]`)));
  drawn.classList.add("drawn");
  frame.replaceChildren(drawn);
  const labels = [...frame.querySelectorAll(".kept")];
  const rows = [...document.querySelectorAll(".states tbody tr")];
  const details = document.getElementById("details");
  const search = document.getElementById("search");
  const found = document.getElementById("found");
  let matches = [];

  const element = (name, text) => {
    const made = document.createElement(name);
    made.textContent = text;
    return made;
  };

  const graph = planGraph(frame, operators, {
    covered: (bounds) => {
      const covered = details.hidden ? bounds.bottom : Math.max(details.getBoundingClientRect().top, bounds.top + 80);
      return Math.min(bounds.bottom, innerWidth < 900 ? covered : bounds.bottom);
    },
    chosen: (operator) => {
      for (const row of rows) row.classList.toggle("chosen", Number(row.dataset.id) === operator.id);
      const { list, add } = graph.facts(operator);
      for (const state of operator.states) {
        add(state.name, ...[state.ttl, state.source, ...state.more].map((text) => element("div", text)));
      }
      if (operator.noTtl) add("state", operator.noTtl);
      document.getElementById("details-title").textContent = `${operator.name} [${operator.id}]`;
      document.getElementById("details-body").replaceChildren(list);
      details.hidden = false;
      document.body.classList.add("open");
      details.scrollTop = 0;
    },
    closed: () => {
      for (const row of rows) row.classList.remove("chosen");
      details.hidden = true;
      document.body.classList.remove("open");
    },
  });

  for (const row of rows) {
    row.querySelector("button").addEventListener("click", () => {
      const id = Number(row.dataset.id);
      graph.choose(id);
      graph.focus(id);
    });
  }

  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    matches = words.length ? operators.filter((operator) => words.every((word) => operator.text.includes(word))).map((operator) => operator.id) : [];
    const hits = new Set(matches);
    graph.svg.classList.toggle("searching", words.length > 0);
    for (const [id, node] of graph.nodes) node.classList.toggle("match", hits.has(id));
    for (const label of labels) label.classList.toggle("match", hits.has(Number(label.dataset.id)));
    for (const row of rows) row.hidden = words.length > 0 && !hits.has(Number(row.dataset.id));
    found.textContent = words.length ? `${matches.length} of ${operators.length} operators` : "";
  };
  search.addEventListener("input", apply);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && matches.length) {
      event.preventDefault();
      const next = (matches.indexOf(graph.chosen()) + (event.shiftKey ? matches.length - 1 : 1)) % matches.length;
      graph.choose(matches[next]);
      graph.focus(matches[next], false);
      graph.show(matches[next]);
      found.textContent = `${next + 1} of ${matches.length}`;
    } else if (event.key === "Escape" && search.value) {
      event.stopPropagation();
      search.value = "";
      apply();
    }
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") graph.close();
    else if (event.target === search) return;
    else if (event.key === "/") { event.preventDefault(); search.focus(); search.select(); }
    else if (event.key === "+") graph.in();
    else if (event.key === "-") graph.out();
    else if (event.key === "0") graph.fit();
  });
  document.getElementById("close").addEventListener("click", graph.close);
  document.getElementById("in").addEventListener("click", graph.in);
  document.getElementById("out").addEventListener("click", graph.out);
  document.getElementById("fit").addEventListener("click", graph.fit);

  document.querySelector(".tools").hidden = false;
  graph.open();
})();
