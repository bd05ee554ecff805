/* An error with its code, its cause and its remedy. */

import { h, say, show } from "./dom.js";

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
      say(text, error.text);
      say(cause, error.cause ? `Cause: ${error.cause}` : "");
      say(remedy, error.remedy ? `Remedy: ${error.remedy}` : "");
    },
  };
};
