/* Line charts of the last micro-batches. One place is marked in all of them: by the pointer, or by arrow keys. */

import { attribute, h, say } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const svg = (name, attributes) => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};
const WIDTH = 300;
const HEIGHT = 100;

/** The smallest of 1, 2, 5, 10, ... that is not below a value; of bytes, of 1, 2, 4, 8, .... */
const nice = (value, binary) => {
  if (value <= 0) return 1;
  if (binary) return 2 ** Math.ceil(Math.log2(value));
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find((step) => power * step >= value * 0.9999);
};

/** What the plot reaches up to. Single values far above all others, such as the first micro-batch, do not count. */
const highest = (values) => {
  const all = values.flat().sort((a, b) => a - b);
  const most = all[Math.ceil(all.length * 0.95) - 1];
  return all.length >= 10 && all[all.length - 1] > 4 * most && most > 0 ? 1.5 * most : all[all.length - 1];
};

/**
 * title: what is plotted. lines: [{ name, of(history) -> values }]. words: a value as text. marked(place) is called when a
 * place is marked in this chart; mark(place) marks it from outside, null for none.
 */
export const chart = ({ title, lines, words, binary = false, marked }) => {
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  for (const y of [0.5, HEIGHT / 2, HEIGHT - 0.5]) drawing.append(svg("line", { class: "grid", x1: 0, x2: WIDTH, y1: y, y2: y }));
  const paths = lines.map((_, place) => svg("polyline", { class: `line s${place}` }));
  const cursor = svg("line", { class: "cursor", y1: 0, y2: HEIGHT, x1: 0, x2: 0, visibility: "hidden" });
  drawing.append(...paths, cursor);
  const plot = h("div", { class: "plot", tabindex: "0", role: "slider", "aria-label": title, "aria-orientation": "horizontal" }, drawing);
  const top = h("span", { class: "dim top" });
  const from = h("span", {});
  const to = h("span", {});
  const legend = h("p", { class: "legend" });
  const names = lines.map((line, place) => {
    const value = h("span", {});
    legend.append(h("span", { class: `key s${place}` }), line.name ? `${line.name} ` : "", value, " ");
    return value;
  });
  const node = h("figure", { class: "chart" }, h("figcaption", {}, title), h("div", { class: "scale" }, legend, top), plot, h("p", { class: "dim ends" }, from, to));
  let history = null;
  let values = [];
  let high = 1;
  let place = null;

  const last = () => history.batch.length - 1;
  const x = (at) => (last() ? (at / last()) * WIDTH : WIDTH / 2);

  const say_ = () => {
    const at = place === null ? last() : Math.min(place, last());
    names.forEach((name, number) => say(name, words(values[number][at])));
    const said = lines.map((line, number) => `${line.name} ${words(values[number][at])}`.trim()).join(", ");
    attribute(plot, "aria-valuemin", history.batch[0]);
    attribute(plot, "aria-valuemax", history.batch[last()]);
    attribute(plot, "aria-valuenow", history.batch[at]);
    attribute(plot, "aria-valuetext", `micro-batch ${history.batch[at]}: ${said}`);
    attribute(cursor, "visibility", place === null ? "hidden" : "visible");
    attribute(cursor, "x1", x(at));
    attribute(cursor, "x2", x(at));
  };

  const mark = (at) => {
    place = at;
    if (history?.batch.length) say_();
  };

  plot.addEventListener("pointermove", (event) => {
    if (!history?.batch.length) return;
    const box = plot.getBoundingClientRect();
    marked(Math.max(0, Math.min(last(), Math.round(((event.clientX - box.left) / box.width) * last()))));
  });
  plot.addEventListener("pointerleave", () => marked(null));
  plot.addEventListener("blur", () => marked(null));
  plot.addEventListener("keydown", (event) => {
    if (!history?.batch.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = place ?? last();
    const to_ = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowDown: at - 1, ArrowUp: at + 1, PageDown: at - 10, PageUp: at + 10, Home: 0, End: last() }[event.key];
    if (to_ === undefined) return;
    event.preventDefault();
    marked(Math.max(0, Math.min(last(), to_)));
  });

  return {
    node,
    mark,
    update: (found) => {
      history = found;
      if (!history.batch.length) return;
      values = lines.map((line) => line.of(history));
      high = nice(highest(values), binary);
      paths.forEach((path, number) => {
        const list = values[number].length === 1 ? [values[number][0], values[number][0]] : values[number];
        const step = WIDTH / (list.length - 1);
        attribute(path, "points", list.map((value, at) => `${(at * step).toFixed(2)},${(HEIGHT - Math.min(1.05, value / high) * (HEIGHT - 1)).toFixed(2)}`).join(" "));
      });
      say(top, words(high));
      say(from, `micro-batch ${history.batch[0]}`);
      say(to, String(history.batch[last()]));
      say_();
    },
  };
};
