/* The page: which of its two views is shown, and whether the gateway answers. */

import { h, say, show } from "./dom.js";
import { poll, setToken } from "./gateway.js";
import { listView } from "./list.js";
import { jobView } from "./job.js";

const main = document.getElementById("main");
const status = document.getElementById("link");
const LINKS = {
  connected: "Connected",
  reconnecting: "Reconnecting… The figures are those of the last answer.",
  paused: "Paused while the page is hidden",
};

let view = null;
let polling = null;

const link = (state) => {
  status.className = state;
  document.body.classList.toggle("stale", state === "reconnecting");
  say(status, LINKS[state]);
};

/* A gateway with a token lets nobody look without it. It is kept for this tab only. */
const askToken = () => {
  const field = h("input", { type: "password", id: "token", autocomplete: "off", required: true });
  const form = h("form", { class: "token" },
    h("h1", {}, "This gateway needs a token"),
    h("p", {}, "It is the one in the file that the gateway was started with. This tab keeps it until it is closed."),
    h("label", { for: "token" }, "Token"), field, h("button", { type: "submit" }, "Continue"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    setToken(field.value);
    open();
  });
  main.replaceChildren(form);
  field.focus();
};

const open = () => {
  polling?.stop();
  const job = /^#\/jobs\/([^/]+)$/.exec(location.hash)?.[1];
  const path = job ? `/page/jobs/${encodeURIComponent(decodeURIComponent(job))}` : "/page/jobs";
  let why = "";
  const gone = h("div", { class: "note", role: "alert", hidden: true });
  view = job ? jobView(path, () => polling.now()) : listView();
  main.replaceChildren(gone, view.node);
  document.title = view.title();
  polling = poll(path, {
    link,
    tick: () => view.tick(),
    data: (found) => {
      show(gone, false);
      if (!view.node.isConnected) main.append(view.node);
      view.update(found);
      view.tick();
      const title = view.title();
      if (document.title !== title) document.title = title;
    },
    refused: (problem) => {
      if (problem.status === 401) {
        polling.stop();
        askToken();
        return;
      }
      if (gone.hidden || why !== problem.facts.text) {
        why = problem.facts.text;
        const unknown = problem.status === 404 && job;
        gone.replaceChildren(...(unknown ? [h("h1", {}, "Unknown job"), "The gateway does not know this job. ", h("a", { href: "#/" }, "All jobs")] : [why]));
        show(gone, true);
        if (unknown) view.node.remove();
      }
    },
  });
};

addEventListener("hashchange", () => {
  if (location.hash === "#main") return;
  open();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
});
open();
