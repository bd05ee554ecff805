/* Elements, and what changes of them from look to look. */

/** An element. A key that begins with "on" is a listener; null children are left out. */
export const h = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
};

/** Sets the text of an element if it is another one, so that nothing that is selected or read aloud is disturbed. */
export const say = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};

export const show = (node, visible) => {
  if (node.hidden === visible) node.hidden = !visible;
};

export const attribute = (node, name, value) => {
  if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
};

/** Keeps one child per item: `make(item)` gives `{ node, update(item) }` once, later looks only update it. */
export const keyed = (parent, key, make) => {
  let known = new Map();
  return (items) => {
    const next = new Map();
    let place = parent.firstChild;
    for (const item of items) {
      const name = key(item);
      const part = known.get(name) ?? make(item);
      next.set(name, part);
      part.update(item);
      if (part.node === place) place = place.nextSibling;
      else parent.insertBefore(part.node, place);
    }
    for (const [name, part] of known) if (!next.has(name)) part.node.remove();
    known = next;
    return next;
  };
};

/** A table that becomes a list of cards where there is little room. The roles stay whatever the style does. */
export const table = (label, columns) => {
  const heads = columns.map((column) => h("th", { scope: "col", role: "columnheader" }, column));
  const head = h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ...heads));
  return h("table", { class: "cards", role: "table", "aria-label": label }, head);
};

/** A row of such a table: cells by the name of their column, in order. */
export const row = (columns) => {
  const cells = columns.map((column) => h("td", { role: "cell", "data-label": column }));
  return { node: h("tr", { role: "row" }, ...cells), cells };
};

export const section = (title, ...children) => {
  const id = `section-${title.toLowerCase().replace(/\W+/g, "-")}`;
  const heading = h("h2", { id }, title);
  return { heading, node: h("section", { "aria-labelledby": id }, h("div", { class: "bar" }, heading), ...children) };
};
