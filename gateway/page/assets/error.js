/* An error with its code, its cause and its remedy. */

import { h, say, show } from "./dom.js";

/** Prose in which backquotes stand around code, as nodes. */
const prose = (text) => text.split("`").map((part, at) => (at % 2 ? h("code", {}, part) : part));

export const errorPart = () => {
  const title = h("strong", {});
  const text = h("pre", {});
  const cause = h("p", {});
  const remedy = h("p", {});
  const node = h("div", { class: "error", role: "alert", hidden: true }, title, text, cause, remedy);
  return {
    node,
    update: (error) => {
      show(node, Boolean(error));
      if (!error) return;
      say(title, error.code ? `${error.code}: ${error.title}` : "Error");
      say(text, error.code ? error.text.replace(`[${error.code}] `, "") : error.text);
      for (const [name, node_] of [["cause", cause], ["remedy", remedy]]) {
        if (node_.dataset.of === error[name]) continue;
        node_.dataset.of = error[name] ?? "";
        node_.replaceChildren(...(error[name] ? [`${name[0].toUpperCase()}${name.slice(1)}: `, ...prose(error[name])] : []));
      }
    },
  };
};
